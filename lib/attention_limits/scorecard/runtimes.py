"""How long the experiments took, beside what the paper says."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAPER_MACHINE = "Apple M1 Pro, 10 cores"
# As printed in the paper, in minutes; Algorithm 3 ran in parallel.
PAPER_MINUTES: Mapping[str, float] = {
    "algorithm-1": 24,
    "algorithm-2": 37,
    "algorithm-3": 17 * 60 + 4,
    "algorithm-4": 7,
    "algorithm-5": 1,
}
PAPER_SETTING = "GPT-2 124M, War and Peace, L up to 1024"


@dataclass(frozen=True)
class Runtime:
    """One experiment: the paper's minutes and our seconds (None where it was not run here)."""

    notebook: str
    paper_minutes: float
    seconds: float | None


def seconds(path: str | os.PathLike) -> float:
    """Wall-clock seconds that papermill noted in an executed notebook. Raises ValueError naming a file without them."""
    content: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    duration = content.get("metadata", {}).get("papermill", {}).get("duration")
    if isinstance(duration, bool) or not isinstance(duration, int | float):
        raise ValueError(f"{path}: papermill noted no duration ({duration!r}); execute the notebook again")
    return float(duration)


def runtimes(executed: str | os.PathLike) -> list[Runtime]:
    """The five algorithms, read from the folder of executed notebooks; an empty path leaves our side open.

    Raises FileNotFoundError when the folder is given and lacks one of them.
    """
    folder = Path(executed)
    return [
        Runtime(name, minutes, seconds(folder / f"{name}.ipynb") if executed else None)
        for name, minutes in PAPER_MINUTES.items()
    ]


def in_words(seconds: float) -> str:
    """Seconds as people say them: "48 s", "2 min 5 s", "17 h 4 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s" if seconds >= 1 else f"{seconds:.1f} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min" + (f" {rest} s" if rest else "")
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h" + (f" {minutes} min" if minutes else "")
