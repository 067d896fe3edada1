"""Lemma 2 and Corollary 3 on every row of a head: exact Jacobian norms and Algorithm 5's finite difference."""

import numpy as np
from numba import njit, prange

from .rows import FAST


@njit(parallel=True, cache=True, fastmath=FAST)
def gradient_rows(weights, visible):
    """T times |J|_2, |J|_F and max_i 2 alpha_i (1 - alpha_i) of softmax weights: (3, R) float64, 0 for one key."""
    rows = len(weights)
    out = np.zeros((3, rows))
    for r in prange(rows):
        n = visible[r]
        if n < 2:
            continue
        a = weights[r, :n]
        top = np.argmax(a)
        p, second, rest, square, fourth, own, corrected = a[top], 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(n):
            if i != top:
                w = a[i]
                second = max(second, w)
                rest += w
                square += w * w
                fourth += w * w * w * w
                own += (w * (1.0 - w)) ** 2
                corrected = max(corrected, 2.0 * w * (1.0 - w))
        corrected = max(corrected, 2.0 * p * rest)
        out[0, r] = _largest_eigenvalue(a, second, min(p, corrected))
        # Around the largest weight, with 1 - p as the sum of the others: the plain form cancels next to one-hot rows.
        total = (p * rest) ** 2 + own + 2.0 * p * p * square + max(square * square - fourth, 0.0)
        out[1, r] = np.sqrt(total)
        out[2, r] = corrected
    return out


@njit(cache=True)
def _largest_eigenvalue(a, low, high):
    """Largest eigenvalue of diag(a) - a a^T: the root of f(x) = sum a_i / (a_i - x) between ``low``, the second largest
    weight, and ``high``, the largest weight or the bound of Corollary 3 where that is smaller.

    f rises from -inf to +inf between the two weights. Newton's step, kept inside the bracket by bisection.
    """
    if high - low <= 1e-15 * high:
        return low
    x = 0.5 * (low + high)
    for _ in range(200):
        f, slope = 0.0, 0.0
        for w in a:
            if w > 0.0:
                part = w / (w - x)
                f += part
                slope += part / (w - x)
        if f > 0.0:
            high = x
        else:
            low = x
        step = x - f / slope
        if not low < step < high:
            step = 0.5 * (low + high)
        if abs(step - x) <= 1e-14 * x or not low < step < high:
            return step
        x = step
    return x


@njit(parallel=True, cache=True, fastmath=FAST)
def moved_rows(logits, weights, directions, visible, temperature, epsilon):
    """g(T, eps) = |softmax((l + eps v) / T) - softmax(l / T)|_2 / eps on every row: (R,) float64  (Algorithm 5).

    weights: softmax(logits / T); directions: (R, L), scaled here to length one over the visible keys.
    """
    rows = len(weights)
    out = np.empty(rows)
    for r in prange(rows):
        n = visible[r]
        length = 0.0
        for i in range(n):
            length += directions[r, i] * directions[r, i]
        step = epsilon / np.sqrt(length)
        top = -np.inf
        for i in range(n):
            top = max(top, logits[r, i] + step * directions[r, i])
        moved = np.empty(n)
        total = 0.0
        for i in range(n):
            moved[i] = np.exp((logits[r, i] + step * directions[r, i] - top) / temperature)
            total += moved[i]
        change = 0.0
        for i in range(n):
            change += (moved[i] / total - weights[r, i]) ** 2
        out[r] = np.sqrt(change) / epsilon
    return out
