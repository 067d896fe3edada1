"""Gradients: Lemma 2 for a general normaliser, the softmax Jacobian's exact norms, Corollary 3 and what it
should say.

Norms are of the map logits -> weights at one row: ``J_ij = d alpha_i / d l_j``. |.|_2 is the spectral norm,
|.|_F the Frobenius norm. ``weights`` are one row's softmax weights (n,), summing to one; T > 0 is the
temperature.
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from .rows import positive, weights_row

__all__ = [
    "corollary_3_corrected",
    "corollary_3_printed_invalid",
    "finite_difference",
    "finite_difference_bound",
    "lemma_2_bounds",
    "normaliser_jacobian",
    "random_direction_rms",
    "softmax_frobenius_norm",
    "softmax_jacobian",
    "softmax_spectral_bound",
    "softmax_spectral_norm",
]


def normaliser_jacobian(values: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """``J = (1/Z) (I - alpha 1^T) diag(F'(l))``, Z = sum F(l), alpha = F(l)/Z; shape (n, n).

    values: F(l_i) > 0, (n,); slopes: F'(l_i), (n,). Anything else F depends on is held fixed. Source: Lemma
    lem-jacobian, re-derived.
    """
    f, df = _normaliser(values, slopes)
    return (np.eye(f.size) - (f / f.sum())[:, None]) * (df / f.sum())


def lemma_2_bounds(values: np.ndarray, slopes: np.ndarray) -> tuple[float, float]:
    """``|J|_2 <= max|F'| sqrt(L) |alpha|_2 / Z <= max|F'| |alpha|_2 / (sqrt(L) min F)``: both, sharper one
    first.

    values: F(l_i) > 0, (L,); slopes: F'(l_i), (L,); maximum and minimum over the row. Fails for an F that
    reaches zero (sparsemax) and for weights that are not F / sum F (Self-Adjusted Softmax). Source: Lemma 2,
    re-derived.
    """
    f, df = _normaliser(values, slopes)
    steepest, size = np.abs(df).max(), np.linalg.norm(f / f.sum())
    return float(steepest * np.sqrt(f.size) * size / f.sum()), float(
        steepest * size / (np.sqrt(f.size) * f.min())
    )


def softmax_jacobian(weights: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """``J = (diag(alpha) - alpha alpha^T) / T``, symmetric, shape (n, n): Lemma lem-jacobian for softmax.

    For checks: the norms below never build it.
    """
    alpha = weights_row(weights)
    return (np.diag(alpha) - np.outer(alpha, alpha)) / positive("temperature", temperature)


def softmax_spectral_norm(weights: np.ndarray, temperature: float = 1.0) -> float:
    """|J|_2, exact to rounding: lambda / T with ``sum_i alpha_i / (alpha_i - lambda) = 0``.

    lambda lies between the second largest and the largest weight, where the sum increases from -inf to +inf,
    so bisection finds it whatever the gap. weights must sum to one (to 1e-6). Source: Theorem thm-norms (a),
    re-derived (secular equation).
    """
    alpha = _distribution(weights)
    if alpha.size == 1:
        return 0.0
    low, high = (float(part) for part in np.partition(alpha, -2)[-2:])
    for _ in range(200):  # from 1 down to 1e-30 and then 53 bits takes about 150 halvings
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        # weights that meet no gap at this precision belong to the bracket's ends, so no division by zero
        if np.sum(alpha / (alpha - middle)) > 0:
            high = middle
        else:
            low = middle
    return 0.5 * (low + high) / positive("temperature", temperature)


def softmax_frobenius_norm(weights: np.ndarray, temperature: float = 1.0) -> float:
    """``|J|_F = (sum a^2 - 2 sum a^3 + (sum a^2)^2)^{1/2} / T <= 1/(2T)``; weights must sum to one (to 1e-6).

    Written around the largest weight p, with 1 - p as the sum of the others: the printed form subtracts
    numbers near one when a weight is near one, and would leave 1e-8 where the norm is 0. Source: Theorem
    thm-norms (b), re-derived.
    """
    alpha = _distribution(weights)
    top = int(np.argmax(alpha))
    p, rest = alpha[top], np.delete(alpha, top)
    square = np.sum(rest**2)
    pairs = max(square**2 - np.sum(rest**4), 0.0)
    total = (p * rest.sum()) ** 2 + np.sum((rest * (1.0 - rest)) ** 2) + 2.0 * p**2 * square + pairs
    return float(np.sqrt(total)) / positive("temperature", temperature)


def random_direction_rms(weights: np.ndarray, temperature: float = 1.0) -> float:
    """``(E |J v|^2)^{1/2} = |J|_F / sqrt(n)`` for v uniform on the unit sphere: what Algorithm 5's draw
    estimates.

    Source: Theorem thm-finite-difference (b), re-derived (E v v^T = I / n).
    """
    return softmax_frobenius_norm(weights, temperature) / float(np.sqrt(np.size(weights)))


def softmax_spectral_bound(weights: np.ndarray, temperature: float = 1.0) -> float:
    """``|J|_2 <= max_i 2 alpha_i (1 - alpha_i) / T <= 1/(2T)``; equality for two weights of 1/2.

    Source: Corollary 3, re-derived (Gershgorin: the largest absolute row sum of J).
    """
    alpha = _distribution(weights)
    return float(np.max(2.0 * alpha * (1.0 - alpha))) / positive("temperature", temperature)


def corollary_3_corrected(temperature: float) -> float:
    """``1/(2T)``: the smallest number that bounds |J|_2 (and |J|_F) for every row. Source: Corollary 3,
    re-derived."""
    return 0.5 / positive("temperature", temperature)


def corollary_3_printed_invalid(temperature: float) -> float:
    """``min{1/(4T), sqrt 2}``: NOT a bound on |J|_2; for comparison only.

    Counter-example: alpha = (1/2, 1/2) has |J|_2 = 1/(2T), above both parts for T < 1/(2 sqrt 2). 1/(4T) does
    bound every entry of J. Source: Corollary 3, as printed.
    """
    return min(0.25 / positive("temperature", temperature), float(np.sqrt(2.0)))


def finite_difference(logits: np.ndarray, direction: np.ndarray, temperature: float, epsilon: float) -> float:
    """``g(T, eps) = |softmax((l + eps v)/T) - softmax(l/T)|_2 / eps`` for v = direction scaled to length one.

    logits, direction: (n,); epsilon: eps > 0 in the units of the logits. Source: Algorithm 5; Theorem
    thm-finite-difference is about it.
    """
    l, v = np.asarray(logits, dtype=np.float64), np.asarray(direction, dtype=np.float64)
    if l.ndim != 1 or l.shape != v.shape or not np.linalg.norm(v) > 0:
        raise ValueError(
            f"logits {l.shape} and direction {v.shape}: wanted two rows of one length, direction not 0"
        )
    t, eps = positive("temperature", temperature), positive("epsilon", epsilon)
    moved = softmax((l + eps * v / np.linalg.norm(v)) / t)
    return float(np.linalg.norm(moved - softmax(l / t))) / eps


def finite_difference_bound(temperature: float, epsilon: float) -> float:
    """``g(T, eps) <= min{1/(2T), sqrt(2)/eps}`` for every row and direction. Source: Corollary 3,
    re-derived."""
    return min(corollary_3_corrected(temperature), float(np.sqrt(2.0)) / positive("epsilon", epsilon))


def _normaliser(values: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    f, df = np.asarray(values, dtype=np.float64), np.asarray(slopes, dtype=np.float64)
    if f.ndim != 1 or f.size == 0 or f.shape != df.shape:
        raise ValueError(f"values {f.shape} and slopes {df.shape}: wanted two rows of one length")
    if not (np.all(np.isfinite(f)) and f.min() > 0 and np.all(np.isfinite(df))):
        raise ValueError(f"values: Lemma 2 needs a finite F > 0 with finite slopes; smallest value {f.min()}")
    return f, df


def _distribution(weights: np.ndarray) -> np.ndarray:
    alpha = weights_row(weights)
    if abs(alpha.sum() - 1.0) > 1e-6:
        raise ValueError(f"weights: softmax weights sum to one, these sum to {alpha.sum()}")
    return alpha
