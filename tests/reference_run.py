"""Runs the chapters at a small setting of the embedded default, for the committed reference records.

    .venv/bin/python tests/reference_run.py            # writes tests/reference/*.json anew
    .venv/bin/python tests/reference_run.py weights    # only that chapter's

Rewrite them only where a change of the numbers is meant, and say in the commit why they changed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "tests" / "reference"
SOURCES = {"model": "smollm2-135m", "text": "king-james", "device": "cpu"}
# Small enough for all chapters to run in a minute and a half on two cores; every parameter not named keeps its default.
SETTINGS: dict[str, dict] = {
    "vanishing": {"rows": 200, "draws": 10},
    "theorem-1": {"rows": 200, "draws": 500},
    "theorem-2": {"draws": 60, "repeats": 12, "tokens": 64},
    "gradients": {"rows": 100, "directions": 500},
    "weights": {"lengths": [32, 64], "windows": 1},
    "algorithm-1": {"lengths": [32, 64, 128], "windows": 2},
    "algorithm-2": {"length": 64, "top_ns": [1, 5, 20, 40], "windows": 1, "stride": 16},
    "algorithm-3": {"lengths": [16, 32, 64], "largest_n": 8, "windows": 1, "stride": 4},
    "algorithm-4": {"length": 64, "top_ns": [1, 4, 16, 32], "windows": 1},
    "algorithm-5": {"length": 32, "windows": 1, "stride": 4},
    "cost": {
        "length": 48,
        "layers": 1,
        "growth_lengths": [32, 40, 48],
        "growth_heads": [1, 2, 3],
        "sample": 2,
    },
    "normalisers": {
        "lengths": [32, 64, 128],
        "top_ns": [1, 4, 16],
        "temperatures": [0.1, 1.0],
        "stride": 8,
        "windows": 1,
    },
    "models": {
        "models": ["random:llama", "shuffled"],
        "lengths": [16, 32, 64],
        "long_lengths": [96],
        "windows": 2,
        "rows": 4,
        "top_n": 8,
    },
    "health": {"length": 64, "top_n": 8, "windows": 1, "stride": 4},
    "selection": {
        "lengths": [24, 48],
        "top_ns": [4, 8, 16, 32],
        "targets": 12,
        "windows": 2,
        "layer_step": 6,
        "heads_per_layer": 2,
        "stride": 4,
    },
}


def run(name: str, folder: Path) -> Path:
    """Execute one chapter into ``folder`` and return its record. Raises RuntimeError with the chapter's last words."""
    record = folder / f"{name}.json"
    given = SOURCES | SETTINGS[name] | {"record": str(record)}
    command = [
        sys.executable,
        "-m",
        "attention_limits.execute",
        f"notebooks/{name}.md",
        str(folder / f"{name}.ipynb"),
    ]
    command += ["--parameters", *(f"{key}={json.dumps(value)}" for key, value in given.items())]
    one = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "NUMBA")}
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | one, text=True, capture_output=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
    return record


def run_all(names: Iterable[str], folder: Path) -> dict[str, Path]:
    """Execute chapters two at a time; their records by name."""
    names = list(names)
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(lambda name: run(name, folder), names), strict=True))


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        REFERENCE.mkdir(exist_ok=True)
        for name, record in run_all(sys.argv[1:] or SETTINGS, Path(folder)).items():
            (REFERENCE / f"{name}.json").write_bytes(record.read_bytes())
            print(f"wrote {REFERENCE / name}.json")
