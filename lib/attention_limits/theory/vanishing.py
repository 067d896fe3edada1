"""Vanishing attention: Lemma 1, Corollary 1, and their exact finite-length form.

General normaliser: ``alpha_i = F(l_i) / sum_j F(l_j)`` over L keys, F continuous and positive on [-a, a] and
the same for every L. Softmax at temperature T is ``F(l) = exp(l / T)``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit

from .rows import positive

__all__ = [
    "corollary_1_bounds",
    "corollary_1_log_bounds",
    "crossover_log_length",
    "exact_extremes",
    "extreme_logits",
    "lemma_1_constants",
]

Normaliser = Callable[[np.ndarray], np.ndarray]


def lemma_1_constants(
    normaliser: Normaliser, half_width: float, *, points: int = 4097
) -> tuple[float, float]:
    """``C1 / L <= alpha_i <= C2 / L`` with ``C1 = min F / max F`` and ``C2 = max F / min F`` over [-a, a].

    normaliser: F, called on float64 arrays; half_width: a > 0, a bound on every |l_i|. Extremes are the best
    of ``points`` equally spaced values (both ends among them, so a monotone F is exact), each refined by
    bounded search in the cell around it; a spike narrower than 2a / (points - 1) can be missed.
    Fails where F depends on L (Scalable-Softmax), is zero somewhere (sparsemax), or the logits grow with L.
    Raises ValueError if F is not finite and positive on the grid.
    Source: Lemma 1, as printed; the constants are those of its proof.
    """
    a = positive("half_width", half_width)
    grid = np.linspace(-a, a, points)
    values = np.asarray(normaliser(grid), dtype=np.float64)
    if values.shape != grid.shape:
        raise ValueError(
            f"normaliser: wanted one value per logit, shape {grid.shape}, got shape {values.shape}"
        )
    if not np.all(np.isfinite(values)) or values.min() <= 0:
        raise ValueError(
            f"normaliser: Lemma 1 needs F > 0 and finite on [-{a}, {a}]; smallest value {values.min()}"
        )
    low = _refined_minimum(lambda x: float(normaliser(np.array([x]))[0]), grid, values)
    high = -_refined_minimum(lambda x: -float(normaliser(np.array([x]))[0]), grid, -values)
    return low / high, high / low


def _refined_minimum(function: Callable[[float], float], grid: np.ndarray, values: np.ndarray) -> float:
    best = int(np.argmin(values))
    cell = (grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)])
    found = minimize_scalar(
        function, bounds=cell, method="bounded", options={"xatol": 1e-12 * (1 + abs(cell[0]))}
    )
    return min(float(values[best]), float(found.fun))


def corollary_1_log_bounds(
    length: np.ndarray, bound: float, temperature: float
) -> tuple[np.ndarray, np.ndarray]:
    """``-2D/T - log L <= log alpha_i <= 2D/T - log L`` for softmax with every |l_i| <= D = |q| |k|.

    length: L >= 1, a number or an array; bound: D >= 0 in the units of the raw logits q.k; temperature: T > 0
    (the model's own is sqrt(head_dim)). Natural logarithms, because exp(2D/T) overflows float64 past 2D/T =
    709.
    Source: Corollary 1, as printed (in logarithms).
    """
    lengths = _lengths(length)
    log_length = crossover_log_length(bound, temperature)
    return -log_length - np.log(lengths), log_length - np.log(lengths)


def corollary_1_bounds(length: np.ndarray, bound: float, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """``exp(-2D/T) / L <= alpha_i <= exp(2D/T) / L``; arguments as in :func:`corollary_1_log_bounds`.

    The upper bound is inf where it overflows; either way it says nothing while it is >= 1, that is for
    L <= exp(2D/T). Source: Corollary 1, as printed.
    """
    low, high = corollary_1_log_bounds(length, bound, temperature)
    with np.errstate(over="ignore", under="ignore"):
        return np.exp(low), np.exp(high)


def crossover_log_length(bound: float, temperature: float) -> float:
    """Natural log of ``exp(2D/T)``: Corollary 1's upper bound falls below one only for L beyond this length.

    Arguments as in :func:`corollary_1_log_bounds`. Source: re-derived (set the upper bound equal to one).
    """
    if not (np.isfinite(bound) and bound >= 0):
        raise ValueError(f"bound = {bound}: D bounds |q| |k|, wanted a finite number >= 0")
    return 2.0 * float(bound) / positive("temperature", temperature)


def exact_extremes(length: np.ndarray, log_ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """``1/(1 + (L-1) e^rho) <= alpha_i <= 1/(1 + (L-1) e^-rho)``, returned as (smallest, largest).

    length: L >= 1, a number or an array; log_ratio: rho = log(max F / min F) over the row's logits, >= 0. For
    softmax rho = R/T with R = max l - min l. Both ends are attained, by :func:`extreme_logits`; the largest
    weight is below one at every L >= 2, so there is no crossover here.
    Source: Theorem thm-extremes, re-derived; it sharpens Lemma 1 and Corollary 1 at finite L.
    """
    if not (np.isfinite(log_ratio) and log_ratio >= 0):
        raise ValueError(f"log_ratio = {log_ratio}: rho = log(max F / min F), wanted a finite number >= 0")
    with np.errstate(divide="ignore"):  # L = 1: log 0 = -inf, and expit(inf) = 1 is the right weight
        others = np.log(_lengths(length) - 1.0)
    return expit(-log_ratio - others), expit(log_ratio - others)


def extreme_logits(length: int, spread: float, *, largest: bool) -> np.ndarray:
    """Logits (L,) of spread R >= 0 at which position 0 takes the extreme of :func:`exact_extremes` at T = 1.

    ``largest=True``: one logit R above L - 1 equal ones; False: one logit R below them. Source: Theorem
    thm-extremes, re-derived.
    """
    if length < 2 or not spread >= 0:
        raise ValueError(f"length = {length}, spread = {spread}: wanted at least 2 keys and a spread >= 0")
    logits = np.zeros(int(length))
    logits[0] = spread if largest else -spread
    return logits


def _lengths(length: np.ndarray) -> np.ndarray:
    lengths = np.asarray(length, dtype=np.float64)
    if lengths.size == 0 or not np.all(np.isfinite(lengths)) or lengths.min() < 1:
        raise ValueError(f"length = {length}: wanted numbers of keys, each at least 1")
    return lengths
