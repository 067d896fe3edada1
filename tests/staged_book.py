"""The whole book built from notebooks that nobody executed: enough to test what staging and building add to it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
from attention_limits import execute

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("_config.yml", "CITATION.cff", "CONTRIBUTING.md", "CHANGELOG.md", "book", "notebooks", "lib")
SOURCES = {"model": {"name": "gpt2"}, "text": {"name": "my text.txt"}}


def copied_project(folder: Path) -> Path:
    """The project's own pages and library, copied so that a test may add to them."""
    folder.mkdir(parents=True)
    leave = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in PARTS:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name, **({"ignore": leave} if copy is shutil.copytree else {}))
    return folder


def pretend_executed(project: Path, given: dict | None = None) -> Path:
    """Write ``_build`` as after a run with the parameters ``given``; the notebooks have no output but one figure."""
    build = project / "_build"
    (build / "executed").mkdir(parents=True)
    for path in [*(project / "notebooks").glob("*.md"), *(project / "book").glob("*.md")]:
        if not execute.is_notebook(path):
            continue
        notebook = execute.read(path)
        known = execute.declared(notebook)
        used = {name: value for name, value in (given or {}).items() if name in known}
        notebook.metadata["papermill"] = {
            "input_path": path.relative_to(project).as_posix(),
            "output_path": str(build / "executed" / f"{path.stem}.ipynb"),
            "parameters": used,
            "start_time": "2026-01-02T03:04:05.678901+00:00",
            "duration": 61.25,
        }
        lines = ["# Parameters", *(f"{name} = {value!r}" for name, value in used.items())]
        injected = nbformat.v4.new_code_cell("\n".join(lines), metadata={"tags": ["injected-parameters"]})
        first = next(
            i for i, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", [])
        )
        notebook.cells.insert(first + 1, injected)
        if path.stem == "theorem-2":  # another chapter refers to this figure
            data = {"text/html": '<figure id="fig-theorem-2-collapse" class="al-figure"></figure>'}
            notebook.cells[first].outputs = [nbformat.v4.new_output("display_data", data)]
        nbformat.write(notebook, build / "executed" / f"{path.stem}.ipynb")
    (build / "sources.json").write_text(json.dumps(SOURCES), encoding="utf-8")
    (build / "provenance.md").write_text("# Provenance\n", encoding="utf-8")
    return build


def publish(project: Path, **environment: str) -> subprocess.CompletedProcess:
    """Stage and build the copied project with its own library."""
    return subprocess.run(
        [sys.executable, "-m", "attention_limits.publish", "_build"],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(project / "lib")} | environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
    )
