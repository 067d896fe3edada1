"""What the jobs of a sweep left behind: the state of each, and all their results in one tidy table.

``OUT/sweep/results.csv`` has one row per result, ``OUT/sweep/cells.csv`` one per job (a chapter for a cell). An empty
field means that there is none.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attention_limits import records
from attention_limits.atomic import write_text

from .table import Cell

if TYPE_CHECKING:
    import pandas as pd

_WHICH = ["label", "model", "text", "length"]
CELL_COLUMNS = [*_WHICH, "others", "chapter", "state", "why", "model_sha256", "text_sha256"]
RESULT_COLUMNS = [*_WHICH, "chapter", "id", "reading", "value", "low", "high", "n", "unit", "meaning"]
_MOST_SAID = 20


@dataclass(frozen=True)
class Job:
    """One chapter for one cell. ``state`` is done, failed, not run or old (results of other settings)."""

    cell: Cell
    chapter: str
    state: str
    why: str = ""


class Watch(logging.Handler):
    """Keeps what Snakemake says of each job that fails: ``failed`` maps (label, chapter) to words, or to ""."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: dict[tuple[str, str], str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Called by logging for everything that Snakemake says."""
        if not str(getattr(record, "event", "")).endswith("job_error"):
            return
        output = " ".join(map(str, getattr(record, "output", ())))
        if job := re.search(r"sweep/([^/]+)/executed/(.+)\.ipynb", output):
            said = " ".join((getattr(record, "rule_msg", None) or "").split())
            # Without the words that help nobody.
            said = re.split(r" *(?:Detailed failure|For further error|Further, make)", said)[0]
            logs = ", ".join(os.path.relpath(log) for log in getattr(record, "log", ()) if log)
            self.failed[job[1], job[2]] = f"{said} Its log: {logs}." if said and logs else said


def gather(
    cells: Mapping[str, Cell],
    wanted: Mapping[tuple[str, str], Mapping[str, Any]],
    out: str | os.PathLike,
    failed: Mapping[tuple[str, str], str] | None = None,
) -> list[Job]:
    """The state of every job; ``wanted`` maps (label, chapter) to the settings that its results must be of.

    ``failed`` is that of :class:`Watch`, for jobs that died without a word of their own.
    """
    return [
        Job(cells[label], chapter, *_state(Path(out), label, chapter, chosen, failed or {}))
        for (label, chapter), chosen in wanted.items()
    ]


def _state(
    out: Path, label: str, chapter: str, chosen: Mapping[str, Any], failed: Mapping[tuple[str, str], str]
) -> tuple[str, str]:
    """State and reason. A job's report is removed when it succeeds, so that one that is there tells of a failure."""
    folder, reports = out / "sweep" / label, out / "failed" / "sweep"
    said = failed.get((label, chapter))
    if (report := reports / f"{label}.{chapter}.txt").exists():
        return "failed", " ".join(filter(None, [said, _last_line(report)])).replace(str(Path.cwd()), ".")
    if said is not None:
        return "failed", said or "It ended without a word."
    if (report := reports / f"{label}.sources.txt").exists():
        return "not run", f"its model or text could not be had: {_last_line(report)}"
    if not (path := folder / "records" / f"{chapter}.json").exists():
        return "not run", "the run ended before its turn"
    try:
        record = records.load(path)
    except ValueError as error:
        return "failed", str(error)
    used, plain = record["parameters"], json.loads(json.dumps(dict(chosen)))
    other = [
        f"{name} = {used[name]} instead of {value}"
        for name, value in plain.items()
        if used.get(name, value) != value
    ] + records.strange(record, _sources(out, label))
    return ("old", f"its results are those of other settings ({', '.join(other)})") if other else ("done", "")


def _last_line(report: Path) -> str:
    """The error's last line; of a notebook that was stopped from outside, where it was."""
    lines = [line.strip() for line in report.read_text(encoding="utf-8", errors="replace").splitlines()]
    lines = [line for line in lines if line and not line.startswith("The notebook as far as it ran:")]
    last = lines[-1] if lines else "nothing"
    if not lines or re.search(r"\(\d+ s\)$", last):  # the heartbeat of attention_limits.execute
        return f"It was stopped from outside, by hand or for its time or memory; the last it said: {last}"
    return last


def collect(jobs: Iterable[Job], out: str | os.PathLike) -> str:
    """Write both tables, each in one move, and return what to say at the end of a run."""
    jobs, out = list(jobs), Path(out)
    facts = {cell.label: _facts(out, cell) for cell in {job.cell.label: job.cell for job in jobs}.values()}
    results = [
        row for job in jobs if job.state == "done" for row in _results(out, job, facts[job.cell.label])
    ]
    states = [
        {**facts[job.cell.label], "chapter": job.chapter, "state": job.state, "why": job.why} for job in jobs
    ]
    (out / "sweep").mkdir(parents=True, exist_ok=True)
    tables = {"cells.csv": _csv(CELL_COLUMNS, states), "results.csv": _csv(RESULT_COLUMNS, results)}
    for name, table in tables.items():
        path = out / "sweep" / name
        # A table that is as it was stays, so that its page need not run again.
        if not path.is_file() or path.read_bytes() != table.encode():
            write_text(path, table)
    missing = [job for job in jobs if job.state != "done"]
    lines = [f"{len(jobs) - len(missing)} of {len(jobs)} jobs of the sweep are done: {out}/sweep/results.csv"]
    alike: dict[tuple[str, str, str], list[str]] = {}
    for job in missing:
        alike.setdefault((job.state, job.cell.label, job.why), []).append(job.chapter)
    told = [
        f"{state}: {label}, {', '.join(chapters)}: {why}" for (state, label, why), chapters in alike.items()
    ]
    lines += told[:_MOST_SAID]
    if len(told) > _MOST_SAID:
        lines.append(f"and {len(told) - _MOST_SAID} more: {out}/sweep/cells.csv")
    return "\n".join(lines)


def _facts(out: Path, cell: Cell) -> dict[str, Any]:
    """What both tables say of a cell; names and hashes are those of the files that were read, where they were."""
    facts = {"label": cell.label, "model": cell.model, "text": cell.text, "length": cell.length}
    facts["others"] = json.dumps(cell.others) if cell.others else ""
    for kind, source in _sources(out, cell.label).items():
        facts |= {kind: source["name"], f"{kind}_sha256": source["sha256"]}
    return facts


def _sources(out: Path, label: str) -> dict[str, dict[str, Any]]:
    """What a cell's sources.json says of its model and text; nothing where it is not there."""
    try:
        sources = json.loads((out / "sweep" / label / "sources.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {kind: sources[kind] for kind in ("model", "text")}


def _results(out: Path, job: Job, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = records.load(out / "sweep" / job.cell.label / "records" / f"{job.chapter}.json")
    kept = {name: facts[name] for name in _WHICH}
    return [
        {
            **kept,
            **result,
            "chapter": job.chapter,
            "reading": json.dumps(result["reading"], ensure_ascii=False),
        }
        for result in content["results"]
    ]


def _csv(columns: list[str], rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def load(table: str | os.PathLike) -> tuple[pd.DataFrame, pd.DataFrame]:
    """``results.csv`` (its readings as dicts) and the ``cells.csv`` beside it.

    Raises ValueError for what is no such table.
    """
    import pandas as pd

    frames = []
    words = ["label", "model", "text", "others", "why", "unit", "model_sha256", "text_sha256"]
    empty = {name: [""] for name in ("value", "low", "high", "n")}
    for path, columns in ((Path(table), RESULT_COLUMNS), (Path(table).with_name("cells.csv"), CELL_COLUMNS)):
        try:
            frame = pd.read_csv(path, dtype=dict.fromkeys(words, str), keep_default_na=False, na_values=empty)
        except (OSError, ValueError) as error:
            raise ValueError(f"{str(path)!r} cannot be read as a table of a sweep: {error}") from error
        if list(frame) != columns:
            raise ValueError(
                f"{str(path)!r} is no table of a sweep: its columns are {list(frame)}, not {columns}"
            )
        frames.append(frame)
    results, cells = frames
    results["reading"] = [json.loads(reading) for reading in results["reading"]]
    return results, cells
