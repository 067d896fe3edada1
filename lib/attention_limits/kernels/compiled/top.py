"""The positions of the largest weights of each row."""

import numpy as np
from numba import njit, prange

# Sums may be reordered for speed; NaN and infinity keep their meaning (unlike with fastmath=True).
FAST = {"reassoc", "contract", "nsz"}


@njit(parallel=True, cache=True)
def top_rows(weights, visible, count):
    """:func:`attention_limits.kernels.top_rows` by insertion into a sorted list."""
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
