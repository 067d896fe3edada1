"""What a sweep of two models and two lengths leaves, without running one: for the tests of its page."""

from __future__ import annotations

import json
from pathlib import Path

from attention_limits import sweep
from attention_limits.records import Record

REASON = "ValueError: no <b>room</b> for $x$ in {{a}}"


def write_sweep(out: Path) -> None:
    """Records of two chapters for each cell but one, whose job failed, gathered as at the end of a run."""
    cells = {}
    for model in ("model-a", "model_b"):
        for length in (64, 128):
            cell = sweep.Cell(f"{model}-{length}", model, "text.txt", length)
            cells[cell.label] = cell
            folder = out / "sweep" / cell.label
            for chapter, id in (("algorithm-1", "bound.tightness"), ("health", "heads.sink")):
                record = Record(chapter, {}, (model, "a" * 64), ("text.txt", "b" * 64))
                ends = {"low": length - 1.0, "high": length + 1.0} if chapter == "algorithm-1" else {}
                record.add(id, length * len(cells), meaning="what the test put there", space="hidden", **ends)
                record.save(folder / "records" / f"{chapter}.json")
            sources = {
                "model": {"name": model, "sha256": "a" * 64},
                "text": {"name": "text.txt", "sha256": "b" * 64},
            }
            (folder / "sources.json").write_text(json.dumps(sources), encoding="utf-8")
    report = out / "failed" / "sweep" / "model_b-128.health.txt"
    report.parent.mkdir(parents=True)
    report.write_text(f"Traceback\n{REASON}\n", encoding="utf-8")
    wanted = {(label, chapter): {} for label in cells for chapter in ("algorithm-1", "health")}
    sweep.collect(sweep.gather(cells, wanted, out), out)
