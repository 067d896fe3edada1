"""The positions of the largest weights of each row."""

import numpy as np
from numba import njit, prange

# Sums may be reordered for speed; NaN and infinity keep their meaning (unlike with fastmath=True).
FAST = {"reassoc", "contract", "nsz"}


@njit(cache=True)
def largest(values):
    """Largest of one or more numbers, none of them NaN.

    Their bits, those of negative numbers turned around, order like whole numbers; the compiler takes the maximum of
    whole numbers several at a time, and that of floats one by one.
    """
    bits = values.view(np.int64)
    most = np.int64(-(2**63))
    for i in range(len(bits)):
        most = max(most, bits[i] ^ ((bits[i] >> 63) & np.int64(0x7FFFFFFFFFFFFFFF)))
    found = np.empty(1, dtype=np.int64)
    found[0] = most ^ ((most >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))
    return found.view(np.float64)[0]


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
