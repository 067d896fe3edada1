"""Softmax of a block of rows, and the positions of the largest weights of each."""

import numpy as np
from numba import njit, prange

# Sums may be reordered for speed; NaN and infinity keep their meaning (unlike with fastmath=True).
FAST = {"reassoc", "contract", "nsz"}


@njit(parallel=True, cache=True, fastmath=FAST)
def softmax_rows(logits, visible, temperature):
    """softmax(logits / temperature) over the first ``visible[r]`` columns of each row, zeros after them.

    logits: (R, L) float64; visible: (R,) int64; returns (R, L) float64.
    """
    rows, length = logits.shape
    weights = np.zeros((rows, length))
    for r in prange(rows):
        n = visible[r]
        top = -np.inf
        for i in range(n):
            top = max(top, logits[r, i])
        total = 0.0
        for i in range(n):
            weights[r, i] = np.exp((logits[r, i] - top) / temperature)
            total += weights[r, i]
        for i in range(n):
            weights[r, i] /= total
    return weights


@njit(parallel=True, cache=True)
def top_rows(weights, visible, count):
    """Positions of the ``count`` largest of the first ``visible[r]`` weights of each row, largest first.

    Of equal weights the lower position comes first. Returns (R, count) int64; -1 where a row has fewer keys.
    """
    rows = weights.shape[0]
    order = np.full((rows, count), -1, dtype=np.int64)
    for r in prange(rows):
        best = np.full(count, -np.inf)
        held = 0
        for i in range(visible[r]):
            w = weights[r, i]
            if held == count and w <= best[count - 1]:
                continue
            at = min(held, count - 1)
            # Strictly smaller entries move back, so that an equal weight seen earlier stays in front.
            while at > 0 and best[at - 1] < w:
                best[at] = best[at - 1]
                order[r, at] = order[r, at - 1]
                at -= 1
            best[at] = w
            order[r, at] = i
            held = min(held + 1, count)
    return order
