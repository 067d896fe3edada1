"""The runtime table, and how far two runs differ."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from attention_limits.charts import number
from attention_limits.scorecard.runtimes import PAPER_MACHINE, PAPER_MINUTES, in_words

from .protocol import PlainLoop, Timing


def runtime_table(timing: Timing, plain: Mapping[str, PlainLoop]) -> pd.DataFrame:
    """One line per algorithm, timed alone, and two for several: the paper's time, ours, and the plain loop's.

    Times are also given in forward passes. The plain loop is known for Algorithms 1 to 3 alone.
    """
    rows = {
        name: (60 * PAPER_MINUTES[name], seconds, plain.get(name))
        for name, seconds in timing.algorithms.items()
    }
    table = {f"Algorithm {name[-1]}": _line(*row, timing.forward) for name, row in rows.items()}
    table["all, one walk for 1 to 3"] = _line(
        60 * sum(PAPER_MINUTES.values()), timing.total, None, timing.forward
    )
    loops = [plain[name] for name in plain]
    whole = PlainLoop(
        sum(loop.seconds for loop in loops),
        float(np.hypot.reduce([loop.error for loop in loops])),
        sum(loop.steps for loop in loops),
        sum(loop.sample for loop in loops),
    )
    first = [rows[name][:2] for name in plain]
    table["1 to 3, one by one"] = _line(
        sum(paper for paper, _ in first), sum(ours for _, ours in first), whole, timing.forward
    )
    return pd.DataFrame(table).T


def _line(paper: float, ours: float, loop: PlainLoop | None, forward: float) -> dict[str, str]:
    error = f" ± {number(100 * loop.error / loop.seconds, 2)} %" if loop else ""
    return {
        f"paper, {PAPER_MACHINE}": in_words(paper),
        "here": in_words(ours),
        "in forward passes": number(ours / forward),
        "plain loop, extrapolated": in_words(loop.seconds) + error if loop else "–",
        "plain loop / here": number(loop.seconds / ours) if loop else "–",
    }


def largest_difference(one: pd.DataFrame, other: pd.DataFrame) -> float:
    """The largest difference of two tables of numbers, each as a share of the larger of the two; 0 where both are NaN.

    Raises ValueError when they have different columns or rows.
    """
    if list(one.columns) != list(other.columns) or len(one) != len(other):
        raise ValueError(f"the tables differ in form: {one.shape} and {other.shape}")
    a, b = (table.select_dtypes("number").to_numpy(dtype=float) for table in (one, other))
    size = np.maximum(np.abs(a), np.abs(b))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.where(same, 0.0, np.abs(a - b) / size).max(initial=0.0))
