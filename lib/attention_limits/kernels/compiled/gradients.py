"""Lemma 2 and Corollary 3 on every row of a head: exact Jacobian norms."""

import numpy as np

from .jit import compiled, largest


@compiled
def gradient_rows(weights, visible):
    """:func:`attention_limits.kernels.gradient_rows`."""
    rows = len(weights)
    out = np.zeros((3, rows))
    for r in range(rows):
        n = visible[r]
        if n < 2:
            continue
        others = weights[r, :n].copy()
        top = np.argmax(others)
        p, others[top] = others[top], 0.0
        second = largest(others)
        rest, square, fourth, own = 0.0, 0.0, 0.0, 0.0
        for i in range(n):
            w = others[i]
            rest += w
            square += w * w
            fourth += w * w * w * w
            own += (w * (1.0 - w)) ** 2
        # w (1 - w) grows up to one half, and no weight but the largest can be beyond.
        corrected = max(2.0 * p * rest, 2.0 * second * (1.0 - second))
        out[0, r] = _largest_eigenvalue(others, p, rest, second, square, min(p, corrected))
        # Around the largest weight, with 1 - p as the sum of the others: the plain form cancels next to one-hot rows.
        out[1, r] = np.sqrt((p * rest) ** 2 + own + 2.0 * p * p * square + max(square * square - fourth, 0.0))
        out[2, r] = corrected
    return out


@compiled
def _largest_eigenvalue(others, p, rest, low, square, high):
    """Largest eigenvalue of diag(a) - a a^T; ``others``: a without its largest entry p, ``low`` the largest of them.

    It solves sum_i a_i / (a_i - x) = 0 between ``low`` and ``high``. With psi(x) = sum over the others a_i / (x - a_i)
    that is 1/psi(x) = 1 - x/p, whose left side is a harmonic mean of the x - a_i and so concave: Newton's steps from
    the left of the root stay there and close in on it. They start where the arithmetic mean puts the root, which is
    no farther right (re-derived).
    """
    if high - low <= 1e-15 * high:
        return low
    pole = low
    x = p * (rest + square / rest) if rest > 0.0 else low
    if not low < x < high:
        x = 0.5 * (low + high)
    for _ in range(200):
        psi, slope = 0.0, 0.0
        for i in range(len(others)):
            inverse = 1.0 / (x - others[i])
            psi += others[i] * inverse
            slope += others[i] * inverse * inverse
        gap = 1.0 / psi - 1.0 + x / p
        if gap > 0.0:
            high = x
        else:
            low = x
        step = x - gap / (slope / (psi * psi) + 1.0 / p)
        if not low <= step <= high:
            step = 0.5 * (low + high)
        if abs(step - x) <= 1e-8 * (x - pole):  # the error left is of the order of this, squared
            return step
        x = step
    return x
