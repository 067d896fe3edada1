"""Lint the code cells of notebooks: .venv/bin/python tests/lint_notebooks.py notebooks/*.md book/*.md

Ruff knows Jupyter's format but not MyST's, so each is handed over in that format; no file is written. What is said
names notebook, cell and line. The exit status is 1 where there is something to say.
"""

import subprocess
import sys
from pathlib import Path

import jupytext
from attention_limits import execute


def lint(path: Path) -> str:
    """What Ruff says about one notebook, with pyproject.toml's settings; "" where it finds nothing."""
    notebook = jupytext.writes(execute.read(path), fmt="ipynb")
    command = [sys.executable, "-m", "ruff", "check", "--quiet", "--output-format", "concise"]
    command += ["--stdin-filename", str(path.with_suffix(".ipynb")), "-"]
    done = subprocess.run(command, input=notebook, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip()


if __name__ == "__main__":
    found = [said for path in map(Path, sys.argv[1:]) if execute.is_notebook(path) and (said := lint(path))]
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(bool(found))
