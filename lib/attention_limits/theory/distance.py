"""Distance between selected and unselected tokens: Theorem 1 and Corollary 2, for one row of attention weights.

Everywhere ``weights`` is (n,) float64, non-negative; ``vectors`` is (n, d) float64, the x_i that the weights multiply;
y_i = weights_i * x_i; ``selected`` is a sequence of N distinct positions (the set S); s = sum of y_i over S.
The cumulative distance is d = sum over i outside S of |y_i - s| (the paper's Eq. 7).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from .rows import top_set

__all__ = [
    "cumulative_distance",
    "expected_distance",
    "expected_distance_bound",
    "expected_distance_sampled",
    "fixed_set_bound",
    "jensen_gap_bound",
    "sandwich",
    "second_moments",
    "top_set",
]

Floats = NDArray[np.float64]
Positions = Sequence[int] | NDArray[np.intp]


def cumulative_distance(weights: Floats, vectors: Floats, selected: Positions) -> float:
    """d = sum_{i not in S} |y_i - s| (paper, Eq. 7)."""
    y, outside = _scaled(weights, vectors, selected)
    s = y[~outside].sum(axis=0)
    return float(np.linalg.norm(y[outside] - s, axis=1).sum())


def fixed_set_bound(weights: Floats, vectors: Floats, selected: Positions) -> float:
    """d <= (1 - abar) d1 + sum_{i not in S} |abar - alpha_i| d2  (Theorem 1, part 1; re-derived).

    abar is the total weight of S, d1 = max |x_i - x_j| over i outside and j inside S, d2 = max |x_j| over S. Weights
    must sum to one. For a top-N set alpha_i <= abar, so the sum is (n-N) abar - (1 - abar), the form that the chapter
    states. For other sets that shorter form can fall below d (even below zero); this one never does.
    """
    weights, vectors = np.asarray(weights, float), np.asarray(vectors, float)
    _, outside = _scaled(weights, vectors, selected)
    total = weights[~outside].sum()
    if not outside.any():
        return 0.0
    gaps = np.linalg.norm(vectors[outside][:, None] - vectors[~outside][None], axis=2)
    d2 = np.linalg.norm(vectors[~outside], axis=1).max()
    return float(weights[outside].sum() * gaps.max() + np.abs(total - weights[outside]).sum() * d2)


def sandwich(weights: Floats, vectors: Floats, selected: Positions) -> tuple[float, float]:
    """(n-N)|s| - e <= d <= (n-N)|s| + e with e = sum_{i not in S} alpha_i |x_i|.

    Returns both ends. e never grows with n when the weights sum to one and the |x_i| are bounded. Source: Proposition
    prop-sandwich, re-derived.
    """
    y, outside = _scaled(weights, vectors, selected)
    count_term = outside.sum() * np.linalg.norm(y[~outside].sum(axis=0))
    slack = np.linalg.norm(y[outside], axis=1).sum()
    return float(count_term - slack), float(count_term + slack)


def second_moments(weights: Floats, vectors: Floats, top_n: int) -> Floats:
    """m_i = E|y_i - s|^2 for i outside a uniformly random set of ``top_n`` tokens: (n,) float64.

    With Y = sum_{j != i} y_j, Q = sum_{j != i} |y_j|^2, m = n - 1 and N = top_n:
    m_i = |y_i|^2 - 2 (N/m) y_i.Y + (N/m) Q + N(N-1)/(m(m-1)) (|Y|^2 - Q). Needs 1 <= N <= n - 1. Source: Theorem
    thm-1-random, re-derived.
    """
    y = np.asarray(weights, float)[:, None] * np.asarray(vectors, float)
    n = len(y)
    _check_size(n, top_n)
    norms = (y**2).sum(axis=1)
    others = y.sum(axis=0) - y
    q = norms.sum() - norms
    one = top_n / (n - 1)
    # A pair of selected tokens exists only for N >= 2, and then m = n - 1 >= 2.
    two = one * (top_n - 1) / (n - 2) if top_n > 1 else 0.0
    moments = norms - 2 * one * (y * others).sum(axis=1) + one * q + two * ((others**2).sum(axis=1) - q)
    return np.maximum(moments, 0.0)


def expected_distance_bound(weights: Floats, vectors: Floats, top_n: int) -> float:
    """E[d] <= E_J = (n-N)/n sum_i sqrt(m_i) for a uniformly random N-set, by Jensen (Theorem 1, part 2; re-derived)."""
    n = len(weights)
    return float((n - top_n) / n * np.sqrt(second_moments(weights, vectors, top_n)).sum())


def expected_distance(weights: Floats, vectors: Floats, top_n: int) -> float:
    """E[d] itself for a uniformly random N-set, by going through every set: what Theorem thm-1-random bounds.

    Refuses more than 200,000 sets (ValueError).
    """
    n = len(weights)
    _check_size(n, top_n)
    if comb(n, top_n) > 200_000:
        raise ValueError(f"n = {n}, N = {top_n} has {comb(n, top_n)} sets; use expected_distance_sampled")
    return float(np.mean([cumulative_distance(weights, vectors, s) for s in combinations(range(n), top_n)]))


def expected_distance_sampled(
    weights: Floats, vectors: Floats, top_n: int, draws: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Monte Carlo estimate of E[d] over uniformly random N-sets, and its standard error.

    Half of the ``draws`` (at least 4) have the token of largest weight in the set and half do not, each half weighted
    by its probability N/n and 1 - N/n: with plain draws a sink that is hardly ever drawn would go unseen. It estimates
    what Theorem thm-1-random bounds.
    """
    n = len(weights)
    _check_size(n, top_n)
    if draws < 4:
        raise ValueError(f"draws is {draws}; a standard error needs at least 4")
    heavy = int(np.argmax(weights))
    others = np.delete(np.arange(n), heavy)
    strata: tuple[tuple[float, list[int], int], ...]
    strata = ((top_n / n, [heavy], top_n - 1), (1 - top_n / n, [], top_n))
    mean, variance = 0.0, 0.0
    for share, fixed, free in strata:
        sets = (np.r_[fixed, rng.choice(others, free, replace=False)].astype(int) for _ in range(draws // 2))
        sample = [cumulative_distance(weights, vectors, s) for s in sets]
        mean += share * float(np.mean(sample))
        variance += share**2 * float(np.var(sample, ddof=1)) / len(sample)
    return float(mean), float(np.sqrt(variance))


def jensen_gap_bound(weights: Floats, vectors: Floats, top_n: int) -> float:
    """0 <= E_J - E[d] <= (n-N)/n sum_i Var(Z_i) / sqrt(m_i), Z_i = |y_i - s| given i outside S.

    The variance is taken over every set (small n only, as in expected_distance). A token with m_i = 0 has no variance.
    Source: Proposition prop-jensen-gap, re-derived.
    """
    y = np.asarray(weights, float)[:, None] * np.asarray(vectors, float)
    n = len(y)
    moments = second_moments(weights, vectors, top_n)
    gap = 0.0
    for i in np.flatnonzero(moments > 0):
        rest = [j for j in range(n) if j != i]
        z = [np.linalg.norm(y[i] - y[list(s)].sum(axis=0)) for s in combinations(rest, top_n)]
        gap += np.var(z) / np.sqrt(moments[i])
    return float((n - top_n) / n * gap)


def _scaled(weights: Floats, vectors: Floats, selected: Positions) -> tuple[Floats, NDArray[np.bool_]]:
    """y = weights * vectors, and the mask of tokens outside ``selected``."""
    weights = np.asarray(weights, float)
    outside = np.ones(len(weights), dtype=bool)
    outside[np.asarray(selected, dtype=np.intp)] = False
    if (~outside).sum() != len(selected) or not len(selected):
        raise ValueError(f"selected must hold at least one position and none twice, got {list(selected)}")
    return weights[:, None] * np.asarray(vectors, float), outside


def _check_size(n: int, top_n: int) -> None:
    if not 1 <= top_n <= n - 1:
        raise ValueError(f"top_n is {top_n}; with n = {n} tokens it must be between 1 and {n - 1}")
