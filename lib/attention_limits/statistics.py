"""Averages over windows of text with their 95 % intervals, and fitted powers with theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

LEVEL = 0.95


def interval(values: ArrayLike) -> tuple[float, float, float]:
    """Mean and its 95 % Student-t interval over independent ``values``: (mean, low, high).

    One value has no interval: low and high are then NaN. Raises ValueError when there is none at all.
    """
    values = np.asarray(values, dtype=float)
    if not len(values):
        raise ValueError("interval of no values")
    mean = float(values.mean())
    if len(values) == 1:
        return mean, float("nan"), float("nan")
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return mean, mean - half, mean + half


def over_windows(rows: pd.DataFrame, by: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """Average ``columns`` over the windows of text: the windows, not the tokens, are what varies independently.

    ``rows`` holds one row per window and group ``by``. Each column c comes back as c, c_low and c_high.
    """
    grouped = rows.groupby(list(by), sort=False)[list(columns)]
    mean, count = grouped.mean(), grouped.size()
    # One window gives a NaN deviation and so NaN ends, as in `interval`.
    half = grouped.std(ddof=1).mul(
        stats.t.ppf((1 + LEVEL) / 2, np.maximum(count - 1, 1)) / np.sqrt(count), axis=0
    )
    out = mean.join((mean - half).add_suffix("_low")).join((mean + half).add_suffix("_high"))
    return out.reset_index()


@dataclass(frozen=True)
class PowerFit:
    """y = factor * x^exponent: the exponent with its 95 % interval, and R^2 of the straight line in log-log."""

    exponent: float
    low: float
    high: float
    factor: float
    r2: float


def fit_power(x: ArrayLike, y: ArrayLike) -> PowerFit:
    """Least-squares power law through positive points, in log-log. Needs three points (ValueError otherwise)."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(x) < 3 or len(x) != len(y) or (x <= 0).any() or (y <= 0).any():
        raise ValueError(f"a power needs at least three points with positive x and y, got x = {x}, y = {y}")
    line = stats.linregress(np.log(x), np.log(y))
    half = stats.t.ppf((1 + LEVEL) / 2, len(x) - 2) * line.stderr
    r2 = line.rvalue**2
    return PowerFit(line.slope, line.slope - half, line.slope + half, float(np.exp(line.intercept)), r2)


def r_squared_line(x: ArrayLike, y: ArrayLike) -> tuple[float, float]:
    """Slope and R^2 of the least-squares straight line y = a + b x (at least three points)."""
    line = stats.linregress(x, y)
    return float(line.slope), float(line.rvalue**2)
