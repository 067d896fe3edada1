"""The whole book from the embedded model and text at small settings, as the engine makes it.

    .venv/bin/python tests/small_book.py            # writes tests/reference/*.json anew from such a book
    .venv/bin/python tests/small_book.py weights    # only that chapter's

Rewrite the references only where a change of the numbers is meant, and say in the commit why they changed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from attention_limits import execute

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "tests" / "reference"
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.md"))
SOURCES = {"model": "smollm2-135m", "text": "king-james", "device": "cpu"}
# Small values for parameters that notebooks share; every parameter not named keeps its default.
SMALL = {
    "lengths": "[24,48,96]",
    "length": 64,
    "top_ns": "[1,4,16,20,40]",
    "top_n": 8,
    "largest_n": 8,
    "windows": 2,
    "draws": 60,
    "rows": 12,
    "targets": 12,
    "stride": 8,
    "layer_step": 10,
    "long_lengths": "[]",
    "models": "[random:gpt2,shuffled]",
    "growth_lengths": "[32,40,48,64]",
    "growth_heads": "[1,2,3,4]",
    "sample": 3,
    "layers": 1,
}


def declared(path: Path) -> dict:
    """The parameters of a notebook and their defaults."""
    return execute.declared(execute.read(path))


def chapters() -> list[str]:
    """Names of the notebooks that leave a record."""
    return [path.stem for path in NOTEBOOKS if "record" in declared(path)]


def build(folder: Path) -> Path:
    """Make the book in ``folder`` and return that. Raises RuntimeError with the engine's last words."""
    settings = [f"{name}={value}" for name, value in (SOURCES | SMALL).items()]
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--config", f"out={folder}", *settings]
    done = subprocess.run(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1200
    )
    if done.returncode:
        raise RuntimeError(done.stdout[-5000:])
    return folder


def run(name: str, folder: Path) -> Path:
    """Execute one chapter alone, by the command line, with the book's settings; return its record."""
    record = folder / f"{name}.json"
    known = declared(ROOT / "notebooks" / f"{name}.md")
    given = {key: value for key, value in (SOURCES | SMALL).items() if key in known} | {"record": record}
    command = [
        sys.executable,
        "-m",
        "attention_limits.execute",
        f"notebooks/{name}.md",
        f"{folder / name}.ipynb",
    ]
    command += ["--parameters", *(f"{key}={value}" for key, value in given.items())]
    # As many threads as a job of the book has: on some processors PyTorch's sums depend on how many share them.
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=600, env=os.environ | threads)
    return record


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        made = build(Path(folder, "build"))
        REFERENCE.mkdir(exist_ok=True)
        for name in sys.argv[1:] or chapters():
            (REFERENCE / f"{name}.json").write_bytes((made / "records" / f"{name}.json").read_bytes())
            print(f"wrote {REFERENCE / name}.json")
