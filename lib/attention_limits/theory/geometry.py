"""Geometry of the selected set: Theorem 2, its moments, its bounds and what they bound.

One row selects the set S of N positions; ``s = sum_{j in S} alpha_j x_j`` and ``Z_i = |s - alpha_i x_i|`` for
i in S. ``A_i = sum alpha_j^2`` and ``B_i = sum alpha_j^4`` run over j in S other than i.
Assumption 1: the x_j are independent and uniform on the sphere of radius M in R^d.
Assumption 2: |x_j - x_k| >= delta for j != k, all |x_j| = M.
``weights`` always means the N selected weights (N,), except where a function takes the whole row. Every
per-token result has shape (N,). Bounds are on ``E[#{i in S: Z_i < r}] / N``, which is E[N_s] / N for every r
that does not exceed the smallest distance of an unselected token from s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .rows import positive, top_set, weights_row

__all__ = [
    "Selection",
    "cantelli_bounds",
    "coverage",
    "distance_cap",
    "distinguish",
    "fourth_moment",
    "hoeffding_variant_invalid",
    "markov_lower_bound",
    "markov_lower_bound_sharp",
    "mcdiarmid_upper_bound",
    "mean_distance_floor",
    "sample_sphere",
    "second_moment",
    "sure_lower_bound",
]


def second_moment(weights: np.ndarray, *, radius: float = 1.0) -> np.ndarray:
    """``E Z_i^2 = M^2 A_i``, exact under Assumption 1 (uncorrelated x_j of mean zero are enough).

    weights: (N,); radius: M > 0; N = 1 gives 0. Source: Lemma lem-moments, re-derived.
    """
    return positive("radius", radius) ** 2 * _without_self(weights, 2)


def fourth_moment(weights: np.ndarray, dimension: int, *, radius: float = 1.0) -> np.ndarray:
    """``E Z_i^4 = M^4 [A_i^2 + (2/d) (A_i^2 - B_i)]``, exact under Assumption 1.

    weights: (N,); dimension: d >= 1; radius: M > 0. Source: Lemma lem-moments, re-derived.
    """
    square, fourth = _without_self(weights, 2), _without_self(weights, 4)
    pairs = np.maximum(square**2 - fourth, 0.0)  # zero up to rounding where only one other token is selected
    return positive("radius", radius) ** 4 * (square**2 + 2.0 / _dimension(dimension) * pairs)


def distance_cap(weights: np.ndarray, *, radius: float = 1.0, min_distance: float = 0.0) -> np.ndarray:
    """``Z_i <= xi_i`` surely, ``xi_i^2 = M^2 A_i + (M^2 - delta^2/2) sum_{j != k} alpha_j alpha_k`` over S
    without i.

    weights: (N,); min_distance: delta in [0, 2M]. Needs Assumption 2 and no randomness at all. Raises
    ValueError where the expression is negative: then no N points of the sphere are delta apart. Source:
    Lemma lem-cap, the xi of Theorem 2, re-derived.
    """
    m, delta = positive("radius", radius), float(min_distance)
    if not 0 <= delta <= 2 * m:
        raise ValueError(f"min_distance = {delta}: points of a sphere of radius {m} are 0 to {2 * m} apart")
    square, total = _without_self(weights, 2), _without_self(weights, 1)
    squared = m**2 * square + (m**2 - delta**2 / 2) * np.maximum(total**2 - square, 0.0)
    if squared.min() < -1e-12 * m**2:
        raise ValueError(
            f"min_distance = {delta}: no {len(squared)} points of a sphere of radius {m} are so far apart"
        )
    return np.sqrt(np.maximum(squared, 0.0))


def mean_distance_floor(weights: np.ndarray, dimension: int, *, radius: float = 1.0) -> np.ndarray:
    """``mu_i = (E Z_i^2)^{3/2} / (E Z_i^4)^{1/2} <= E Z_i`` (Hoelder), under Assumption 1; 0 for N = 1.

    Never above M sqrt(A_i). Source: Lemma lem-floor, re-derived.
    """
    second, fourth = second_moment(weights, radius=radius), fourth_moment(weights, dimension, radius=radius)
    return np.divide(second**1.5, np.sqrt(fourth), out=np.zeros_like(second), where=fourth > 0)


def markov_lower_bound(
    weights: np.ndarray, r: float, *, radius: float = 1.0, min_distance: float = 0.0
) -> float:
    """``E[N_s]/N >= 1 - (1/(N r)) sum_i xi_i``, r > 0; says nothing where it is <= 0.

    Needs Assumption 2 only. It holds for every draw, not just on average, and for an r that depends on the
    vectors, because :func:`sure_lower_bound` is never below it. Source: Theorem 2's lower bound, re-derived.
    """
    return float(
        1.0 - np.mean(distance_cap(weights, radius=radius, min_distance=min_distance)) / positive("r", r)
    )


def sure_lower_bound(
    weights: np.ndarray, r: float, *, radius: float = 1.0, min_distance: float = 0.0
) -> float:
    """``N_s/N >= #{i: xi_i < r} / N`` for every draw and every r, also one that depends on the vectors.

    Needs Assumption 2 only; never below :func:`markov_lower_bound`. Source: Theorem 2's lower bound, re-derived.
    """
    return float(np.mean(distance_cap(weights, radius=radius, min_distance=min_distance) < positive("r", r)))


def markov_lower_bound_sharp(weights: np.ndarray, r: float, *, radius: float = 1.0) -> float:
    """``E[N_s]/N >= 1 - (1/(N r)) sum_i sqrt(E Z_i^2)``, r > 0 fixed before the vectors are drawn.

    Needs Assumption 1. Source: Theorem 2's lower bound, re-derived (sqrt(E Z^2) >= E Z in Markov's inequality).
    """
    return float(1.0 - np.mean(np.sqrt(second_moment(weights, radius=radius))) / positive("r", r))


def mcdiarmid_upper_bound(weights: np.ndarray, r: float, dimension: int, *, radius: float = 1.0) -> float:
    """``E[N_s]/N <= (1/N) sum_i exp(-((mu_i - r)_+)^2 / (2 M^2 A_i))``, r >= 0 fixed before the vectors are
    drawn.

    Needs Assumption 1. Never below exp(-1/2) = 0.607, since mu_i <= M sqrt(A_i): it cannot see a ratio below
    that.
    Source: Theorem 2's upper bound, re-derived with McDiarmid's inequality.
    """
    second = second_moment(weights, radius=radius)
    gap = np.maximum(mean_distance_floor(weights, dimension, radius=radius) - _not_negative("r", r), 0.0)
    exponent = np.divide(gap**2, 2.0 * second, out=np.zeros_like(second), where=second > 0)
    return float(np.mean(np.exp(-exponent)))


def cantelli_bounds(
    weights: np.ndarray, r: float, dimension: int, *, radius: float = 1.0
) -> tuple[float, float]:
    """``P(Z_i < r) <= V/(V + (m - r^2)^2)`` if r^2 < m, ``>= 1 - V/(V + (r^2 - m)^2)`` if r^2 > m; means over
    i.

    m = E Z_i^2, V = E Z_i^4 - m^2; returns (lower, upper) for E[N_s]/N, r >= 0 fixed before the vectors are
    drawn. Needs Assumption 1. V is of order m^2/d, so in high dimension token i is told apart about when r >
    M sqrt(A_i).
    Source: Theorem thm-cantelli, re-derived; not in the paper, shown to say how loose the others are.
    """
    second = second_moment(weights, radius=radius)
    variance = np.maximum(fourth_moment(weights, dimension, radius=radius) - second**2, 0.0)
    gap = _not_negative("r", r) ** 2 - second
    # gap = 0 (or its square, for a tiny r) leaves the bound trivial; variance = 0 with a gap makes it exact
    total = variance + gap**2
    tail = np.divide(variance, total, out=np.ones_like(second), where=total > 0)
    return float(np.mean(np.where(gap > 0, 1.0 - tail, 0.0))), float(np.mean(np.where(gap < 0, tail, 1.0)))


def hoeffding_variant_invalid(
    weights: np.ndarray, r: float, *, radius: float = 1.0, min_distance: float = 0.0
) -> float:
    """``(1/N) sum_i exp(-((xi_i - r)_+)^2 / (2 M^2))``: NOT a bound unless delta >= sqrt(2) M; for comparison
    only.

    It puts the cap xi_i where a lower bound of the mean belongs. Counter-example: d = 768, 32 equal weights
    of sum one, delta = 0, r = 0.2. Source: the Hoeffding form of Theorem 2, shown as the invalid variant that
    it is.
    """
    gap = distance_cap(weights, radius=radius, min_distance=min_distance) - _not_negative("r", r)
    return float(np.mean(np.exp(-(np.maximum(gap, 0.0) ** 2) / (2.0 * float(radius) ** 2))))


@dataclass(frozen=True)
class Selection:
    """What :func:`distinguish` finds: ``count`` = N_s, ``ratio`` = N_s / N, ``radius`` = r."""

    count: int
    ratio: float
    radius: float


def distinguish(
    weights: np.ndarray, vectors: np.ndarray, top_n: int, *, radius: float | None = None
) -> Selection:
    """``N_s = #{i in S: |y_i - s| < r}``, S the top_n largest of the row's weights (ties: lower position
    first).

    weights: the whole row (n,); vectors: x, (n, d); radius: r, by default the experiments'
    ``r = min_{j not in S} |y_j - s|``. A radius above that minimum is refused: some unselected token would
    lie inside. Compared in float64: many distances lie within 1e-6 of r. Raises ValueError unless top_n < n
    and shapes agree.
    Source: Definition def-told-apart, the paper's before Theorem 2, and Algorithm 4 for r.
    """
    row, x = weights_row(weights), np.asarray(vectors, dtype=np.float64)
    if x.ndim != 2 or len(x) != row.size:
        raise ValueError(f"vectors: wanted shape ({row.size}, d), one vector per weight, got {x.shape}")
    if top_n >= row.size:
        raise ValueError(f"top_n = {top_n}: a row of {row.size} tokens has no unselected token, so no r")
    y = row[:, None] * x
    chosen = np.zeros(row.size, dtype=bool)
    chosen[top_set(row, top_n)] = True
    distance = np.linalg.norm(y - y[chosen].sum(axis=0), axis=1)
    smallest = float(distance[~chosen].min())
    r = smallest if radius is None else _not_negative("radius", radius)
    if r > smallest:
        raise ValueError(
            f"radius = {r}: an unselected token lies at {smallest}, so the ball is not free of them"
        )
    count = int(np.count_nonzero(distance[chosen] < r))
    return Selection(count, count / top_n, r)


def sample_sphere(
    rng: np.random.Generator, shape: tuple[int, ...], dimension: int, *, radius: float = 1.0
) -> np.ndarray:
    """Independent points, uniform on the sphere of radius M in R^d (Assumption ass-1): float64, shape (*shape, d)."""
    points = rng.standard_normal((*shape, _dimension(dimension)))
    return positive("radius", radius) * points / np.linalg.norm(points, axis=-1, keepdims=True)


def coverage(ratio: float, heads: int) -> float:
    """``1 - (1 - p)^H``: share of a top set that at least one of H heads tells apart, were heads independent.

    ratio: p in [0, 1]; heads: H >= 0. Source: Proposition prop-coverage, as printed (p = 0.8, H = 3: 0.992).
    """
    if not 0 <= ratio <= 1 or heads < 0:
        raise ValueError(f"ratio = {ratio}, heads = {heads}: wanted a share in [0, 1] and a count >= 0")
    return 1.0 - (1.0 - ratio) ** heads


def _without_self(weights: np.ndarray, power: int) -> np.ndarray:
    """sum_{j != i} alpha_j^power for every i, shape (N,).

    Summed from both sides rather than subtracted from the total: next to a sink the rest would drown in
    rounding.
    """
    powers = weights_row(weights) ** power
    before = np.concatenate(([0.0], np.cumsum(powers[:-1])))
    after = np.concatenate((np.cumsum(powers[:0:-1])[::-1], [0.0]))
    return before + after


def _dimension(dimension: int) -> int:
    if dimension < 1 or int(dimension) != dimension:
        raise ValueError(f"dimension = {dimension}: wanted a whole number >= 1")
    return int(dimension)


def _not_negative(name: str, value: float) -> float:
    if not value >= 0:
        raise ValueError(f"{name} = {value}: wanted a number >= 0")
    return float(value)
