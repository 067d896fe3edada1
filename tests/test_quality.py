"""The code is linted, formatted and type checked, the cells of the notebooks too: what `make check` runs."""

import re
import subprocess
import sys
from pathlib import Path

import lint_notebooks
import pytest
from attention_limits import execute
from toy import write_notebook

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = [path for folder in ("notebooks", "book") for path in sorted((ROOT / folder).glob("*.md"))]


def run(*command: str) -> subprocess.CompletedProcess:
    """A tool of this Python on the project; stdout and stderr together."""
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
    )


@pytest.mark.parametrize("command", ["ruff check", "ruff format --check", "mypy"])
def test_the_code_is_clean(command):
    done = run(*command.split())
    assert done.returncode == 0, done.stdout


def test_mypy_wants_types_of_every_function_but_the_compiled_ones(tmp_path):
    untyped = tmp_path / "untyped.py"
    untyped.write_text("def double(x):\n    return 2 * x\n\n\nlength: int = 'three'\n", encoding="utf-8")
    done = run("mypy", str(untyped))
    assert re.findall(r":(\d+): error: .*\[([a-z-]+)\]", done.stdout) == [
        ("1", "no-untyped-def"),
        ("5", "assignment"),
    ]


@pytest.mark.parametrize(
    "path", [path for path in NOTEBOOKS if execute.is_notebook(path)], ids=lambda path: path.stem
)
def test_the_cells_of_a_notebook_are_clean(path):
    assert lint_notebooks.lint(path.relative_to(ROOT)) == ""


def test_what_is_wrong_in_a_notebook_is_found_in_its_cell(tmp_path):
    path = write_notebook(tmp_path / "wrong.md", "seed = 0", "import json", "print(unknown)")
    found = re.findall(r"wrong\.ipynb:cell (\d+):.* (F\d+) ", lint_notebooks.lint(path))
    assert found == [("3", "F401"), ("4", "F821")]  # the first cell is the title


def test_an_exception_to_a_check_names_it_and_says_why():
    """In the library; the notebooks' `noqa: E731`, a formula as a lambda with a name, explains itself."""
    for path in sorted((ROOT / "lib").rglob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if re.search(r"# (type: ignore|noqa|pragma)", line):
                where = f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
                assert re.search(
                    r"# (type: ignore\[[a-z-]+\]|noqa: [A-Z]+\d+|pragma: no cover)  # \w", line
                ), where
