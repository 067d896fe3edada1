"""The book's provenance page: which model, text, versions, machine, parameters, seeds and times made it.

python -m attention_limits.provenance _build/sources.json EXECUTED.ipynb... --output _build/provenance.md
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from attention_limits import execute
from attention_limits.atomic import WriteError, write_text
from attention_limits.sources.base import without_folders

PACKAGES = (
    "attention-limits",
    "torch",
    "transformers",
    "numpy",
    "scipy",
    "numba",
    "papermill",
    "snakemake",
    "jupyter-book",
)
PLACES = {"record", "records", "executed", "reference", "table"}  # parameters that are paths of this run
SAID_ELSEWHERE = {"model", "text", "device"} | PLACES


def escape(value: Any) -> str:
    """``value`` as Markdown that shows just these characters, on one line: no markup, no mathematics.

    A hash or a path may be broken between lines, so that the column beside it is seen; copied, it is one word.
    """
    plain = re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", " ".join(str(value).split()))
    plain = plain.replace(r"\/", r"\/<wbr>")
    return re.sub(r"\b[0-9a-f]{40,}\b", lambda found: "<wbr>".join(textwrap.wrap(found[0], 16)), plain)


def markdown_table(head: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table of cells that are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def table(head: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table; every cell is escaped."""
    return markdown_table(head, (map(escape, row) for row in rows))


def public(value: Any) -> Any:
    """A parameter as a reader may see it: of a path on this machine only the last part is left."""
    if isinstance(value, list | tuple):
        return [public(part) for part in value]
    return without_folders(value) if isinstance(value, str) else value


def sources_table(sources: dict[str, dict[str, Any]]) -> str:
    """Model and text beside each other, one row per fact of their provenance."""
    names = {
        "name": "Name",
        "requested": "Asked for",
        "revision": "Revision or version",
        "sha256": "SHA-256",
        "size": "Size in bytes",
        "licence": "Licence",
        "origin": "Where from",
        "notice": "Notice",
    }
    rows = [
        [word, *(sources[kind].get(key) or "none" for kind in ("model", "text"))]
        for key, word in names.items()
        if key != "notice" or any(sources[kind].get(key) for kind in sources)
    ]
    return table(["", "Model", "Text"], rows)


def files_table(sources: dict[str, dict[str, Any]]) -> str:
    """The files that the text is made of, in the order they are read; "" where its name says which."""
    files = sources["text"].get("files") or ()
    if [file[0] for file in files] in ([], [sources["text"]["name"]]):
        return ""
    rows = [[place, *file] for place, file in enumerate(files, 1)]
    listed = table(["", "File", "Size in bytes", "SHA-256"], rows)
    return f"The text is made of these files, in this order:\n\n{listed}"


def notebook_row(notebook: Any, name: str) -> list[Any]:
    """Row about an executed notebook: name, start, seconds, seed, others."""
    run = notebook.metadata.papermill
    used = execute.declared(notebook) | dict(run.parameters)
    others = ", ".join(
        f"{name} = {json.dumps(public(value))}"
        for name, value in used.items()
        if name not in SAID_ELSEWHERE | {"seed"}
    )
    start = datetime.datetime.fromisoformat(run.start_time).astimezone(datetime.UTC)
    return [
        name,
        f"{start:%Y-%m-%d %H:%M:%S}",
        f"{run.duration:.1f}",
        used.get("seed", "none"),
        others or "none",
    ]


def machine_rows(asked: str) -> list[list[str]]:
    """What runs here run on, in words; ``asked`` is the device asked for. No name or address of the machine."""
    import psutil
    import torch

    from attention_limits.sources import pick_device

    device = pick_device(asked or "auto")
    words = torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()
    return [
        ["Device", f"{device.type} ({words}), asked for as {asked or 'auto'}"],
        ["Processor", f"{_processor()}, {psutil.cpu_count()} logical cores"],
        ["Memory", f"{psutil.virtual_memory().total / 2**30:.0f} GiB"],
        ["System", f"{platform.system()} {platform.machine()}"],
    ]


def machines_tables(notebooks: Mapping[str, Any]) -> str:
    """What the notebooks that name a device ran on, as `execute` noted it: a table for each machine, mostly one."""
    ran: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, notebook in notebooks.items():
        if machine := notebook.metadata.get("machine"):
            ran.setdefault(tuple(machine.items()), []).append(name)
    if not ran:
        return "No notebook of this book noted what it ran on."
    tables = [(table(["", ""], machine), ", ".join(names)) for machine, names in ran.items()]
    return "\n\n".join(made if len(ran) == 1 else f"{names}:\n\n{made}" for made, names in tables)


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file() and (model := re.search(r"model name\s*:\s*(.+)", info.read_text(errors="replace"))):
        return model[1]
    return platform.processor() or platform.machine()


def versions_rows() -> list[list[str]]:
    """Python, the packages that compute, and the project's commit where there is one."""
    rows = [["Python", platform.python_version()], *([name, metadata.version(name)] for name in PACKAGES)]
    asked = (
        ["rev-parse", "--show-toplevel"],
        ["rev-parse", "HEAD"],
        ["status", "--porcelain", "--untracked-files=no"],
    )
    try:
        top, commit, changes = (
            subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout.strip()
            for words in asked
        )
    except (OSError, subprocess.CalledProcessError):
        return rows
    here = Path.cwd()
    project = next((folder for folder in (here, *here.parents) if (folder / "Snakefile").is_file()), here)
    if not project.samefile(top):  # a copy without its history, within a repository of something else
        return rows
    return [*rows, ["Commit", commit + (" with changes that are not committed" if changes else "")]]


def page(sources: dict[str, dict[str, Any]], executed: list[str]) -> str:
    """The whole page as MyST Markdown."""
    notebooks = {Path(path).stem: execute.read(path) for path in executed}
    described = [notebook_row(notebook, name) for name, notebook in notebooks.items()]
    today = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    return f"""# Provenance

This page was generated on {today} (UTC) by the run that made this book. Nothing on it was typed by hand.

## Model and text

{sources_table(sources)}

The hash is that of the file as it was fetched; of several files, that of the lines `hash  name` of each.

{files_table(sources)}

## Notebooks

{table(["Notebook", "Started (UTC)", "Seconds", "Seed", "Other parameters"], described)}

## Machine

{machines_tables(notebooks)}

## Versions

{table(["", "Version"], versions_rows())}

The exact version of every package that was installed is in `requirements.lock`.
"""


def main(arguments: list[str] | None = None) -> int:
    """Command line; returns the exit status (0, or 1 with the reason as the last line on stderr)."""
    parser = argparse.ArgumentParser(
        prog="python -m attention_limits.provenance", description=__doc__.split("\n")[0]
    )
    parser.add_argument("sources", type=Path, help="sources.json")
    parser.add_argument("executed", nargs="*", help="executed notebooks")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    content = page(json.loads(options.sources.read_text(encoding="utf-8")), options.executed)
    try:
        write_text(options.output, content)
    except WriteError as error:
        print(f"\nattention_limits.provenance: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
