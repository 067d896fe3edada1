"""Averages over windows of text with their 95 % intervals, fitted powers with theirs, and the test of Algorithm 3."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import optimize, stats

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
    half = float(_half_width(len(values)) * values.std(ddof=1))
    return mean, mean - half, mean + half


def over_windows(rows: pd.DataFrame, by: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """Average ``columns`` over the windows of text: the windows, not the tokens, are what varies independently.

    ``rows`` holds one row per window and group ``by``. Each column c comes back as c, c_low and c_high; a window in
    which it is NaN does not count.
    """
    grouped = rows.groupby(list(by), sort=False)[list(columns)]
    mean, count = grouped.mean(), grouped.count()
    # One window gives a NaN deviation and so NaN ends, as in `interval`.
    half = grouped.std(ddof=1) * _half_width(count.clip(lower=1))
    out = mean.join((mean - half).add_suffix("_low")).join((mean + half).add_suffix("_high"))
    return out.reset_index()


def _half_width(count: ArrayLike) -> ArrayLike:
    """Half a 95 % Student-t interval of a mean of ``count`` values, in units of their standard deviation."""
    return stats.t.ppf((1 + LEVEL) / 2, np.maximum(np.asarray(count) - 1, 1)) / np.sqrt(count)


def box_numbers(rows: pd.DataFrame, by: Sequence[str], column: str) -> pd.DataFrame:
    """The five numbers of a box plot of ``column`` in each group ``by``: its 5, 25, 50, 75 and 95 % quantiles.

    They come back as low, q25, median, q75, high beside the columns of ``by``, groups in order of appearance.
    """
    names = {0.05: "low", 0.25: "q25", 0.5: "median", 0.75: "q75", 0.95: "high"}
    quantiles = rows.groupby(list(by), sort=False)[column].quantile(list(names)).unstack()
    groups = rows.groupby(list(by), sort=False).size().index
    return quantiles.reindex(groups).rename(columns=names).reset_index()


@dataclass(frozen=True)
class PowerFit:
    """y = factor * x^exponent: the exponent with its 95 % interval, and R^2 of the straight line in log-log."""

    exponent: float
    low: float
    high: float
    factor: float
    r2: float


def fit_power(x: ArrayLike, y: ArrayLike) -> PowerFit:
    """Least-squares power law through positive points, in log-log. Needs three points (ValueError otherwise).

    Points that are all equally high lie on the power 0: R^2 is then 1.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(x) < 3 or len(x) != len(y) or (x <= 0).any() or (y <= 0).any():
        raise ValueError(f"a power needs at least three points with positive x and y, got x = {x}, y = {y}")
    if np.ptp(y) == 0:
        return PowerFit(0.0, 0.0, 0.0, float(y[0]), 1.0)
    line = stats.linregress(np.log(x), np.log(y))
    half = stats.t.ppf((1 + LEVEL) / 2, len(x) - 2) * line.stderr
    r2 = line.rvalue**2
    return PowerFit(line.slope, line.slope - half, line.slope + half, float(np.exp(line.intercept)), r2)


def fit_growth(x: ArrayLike, y: ArrayLike) -> PowerFit:
    """Least-squares y = floor + factor x^exponent through positive points, floor and factor >= 0, all errors relative.

    For what has a fixed part, as the time of a call has. Exponents from 0 to 6 are tried in steps of 0.01; the interval
    holds those whose squared errors an F-test does not tell from the best (so it ends at 0 or 6 where the points say
    little), and R^2 is that of the relative errors. Needs four points (ValueError otherwise).
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(x) < 4 or len(x) != len(y) or (x <= 0).any() or (y <= 0).any():
        raise ValueError(f"growth needs at least four points with positive x and y, got x = {x}, y = {y}")
    tried = np.arange(601) / 100
    fits = [optimize.nnls(np.stack((1 / y, (x / x.max()) ** p / y), axis=1), np.ones(len(y))) for p in tried]
    errors = np.array([error**2 for _, error in fits])
    best = int(errors.argmin())
    freedom = len(x) - 3
    near = tried[errors <= errors[best] * (1 + stats.f.ppf(LEVEL, 1, freedom) / freedom)]
    r2 = 1 - errors[best] / np.sum((1 - np.mean(y) / y) ** 2)
    factor = fits[best][0][1] / x.max() ** tried[best]
    return PowerFit(float(tried[best]), float(near.min()), float(near.max()), float(factor), float(r2))


def r_squared_line(x: ArrayLike, y: ArrayLike) -> tuple[float, float]:
    """Slope and R^2 of the least-squares straight line y = a + b x (at least three points)."""
    line = stats.linregress(x, y)
    return float(line.slope), float(line.rvalue**2)


def ks_tests(rows: pd.DataFrame, by: Sequence[str], first: str, second: str) -> pd.DataFrame:
    """Two-sample Kolmogorov-Smirnov test of column ``first`` against ``second`` in every group of ``rows``.

    Each group holds one row per head. Columns: ``by``, ``distance`` (largest gap between the two empirical
    distribution functions, 0 to 1), ``p_value`` (two-sided, exact up to 10,000 heads) and ``heads``. The test takes
    the samples as independent and does not know that each head is in both.
    """
    table = []
    for key, part in rows.groupby(list(by), sort=False, observed=True):
        test = stats.ks_2samp(part[first].to_numpy(), part[second].to_numpy())
        found = (float(test.statistic), float(test.pvalue), len(part))
        table.append(dict(zip([*by, "distance", "p_value", "heads"], (*key, *found), strict=True)))
    return pd.DataFrame(table)


def critical_n(top_ns: Iterable[int], p_values: Iterable[float], level: float) -> int | None:
    """Algorithm 3's critical N: the smallest N at which the test does not reject, that is p >= ``level``.

    ``top_ns`` and ``p_values`` belong together, in any order. None when every N is rejected: then the critical N, if
    there is one, lies above the largest N tried. Raises ValueError for a level outside (0, 1) or unequal lengths.
    """
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; a significance level lies between 0 and 1")
    alike = [int(n) for n, p in zip(top_ns, p_values, strict=True) if p >= level]
    return min(alike, default=None)


def crossing(top_ns: Sequence[int], d: Sequence[float], expected: Sequence[float]) -> int | None:
    """Critical N of one head: the first N at which its mean distance ``d`` is no longer above ``expected``, its E_J.

    Algorithm 3 asks of all heads together at which N the selected set is no farther from the rest than a random one;
    this asks it of one head's token means (columns d and expected of `measures.distances`), without a test. The three
    lists belong together, in any order. None when d is above E_J at every N tried: then the critical N, if there is
    one, is none of them. Raises ValueError for unequal lengths or a number that is not finite.
    """
    triples = sorted(zip(top_ns, d, expected, strict=True))
    if bad := [int(n) for n, *pair in triples if not np.isfinite(pair).all()]:
        raise ValueError(f"d or expected is not finite at N = {bad}; leave out every N without rows")
    return next((int(n) for n, own, random in triples if own <= random), None)


def effective_size(
    top_ns: Sequence[int], losses: Sequence[float], full: float, tolerance: float
) -> int | None:
    """The effective set size: the smallest N from which on every larger N costs at most ``tolerance`` of ``full``.

    ``losses[i]`` is the loss with ``top_ns[i]`` keys, in any order, and N is within the tolerance where that is at most
    (1 + tolerance) * full: a loss below the full one costs nothing. None when the largest N tried is not within it.
    Raises ValueError for lists of unequal length or a tolerance that is not above zero.
    """
    if not tolerance > 0:
        raise ValueError(f"tolerance is {tolerance}; it must be above 0")
    size = None
    for top_n, cost in sorted(zip(top_ns, losses, strict=True), reverse=True):
        if not cost <= (1 + tolerance) * full:
            break
        size = int(top_n)
    return size


def rank_correlation(
    x: ArrayLike, y: ArrayLike, given: ArrayLike | None = None
) -> tuple[float, float, float]:
    """Spearman's rank correlation of ``x`` and ``y`` with its 95 % interval: (rho, low, high).

    ``given``: a third quantity to hold fixed; then it is the partial correlation of the ranks. The interval is Fisher's
    with the standard error of Bonett and Wright (2000), sqrt((1 + rho^2 / 2) / (n - 3)), one less under the fraction
    for a third quantity; it takes the pairs as independent. Raises ValueError for fewer than 5 pairs, unequal lengths,
    or a quantity that is constant or not finite, which has no ranks, or that is ordered just as ``given``.
    """
    ranks = [
        stats.rankdata(np.asarray(part, dtype=float)) for part in (x, y, *([] if given is None else [given]))
    ]
    count = len(ranks[0])
    if count < 5 or any(len(part) != count for part in ranks):
        raise ValueError(
            f"a rank correlation needs 5 or more pairs, got {[len(part) for part in ranks]} values"
        )
    finite = all(
        np.isfinite(np.asarray(part, dtype=float)).all() for part in (x, y, given) if part is not None
    )
    if not finite or any(part.min() == part.max() for part in ranks):
        raise ValueError("a rank correlation needs finite quantities that are not constant")
    table = np.corrcoef(ranks)
    rho = table[0, 1]
    if given is not None:
        (one, two), left = table[:2, 2], 1 - table[:2, 2] ** 2
        if left.min() < 1e-12:
            raise ValueError(
                "a rank correlation needs ranks that are not constant once the third is held fixed"
            )
        rho = (rho - one * two) / np.sqrt(left.prod())
    middle = np.arctanh(np.clip(rho, -1 + 1e-12, 1 - 1e-12))
    half = stats.norm.ppf((1 + LEVEL) / 2) * np.sqrt((1 + rho**2 / 2) / (count - 3 - (given is not None)))
    return float(rho), float(np.tanh(middle - half)), float(np.tanh(middle + half))
