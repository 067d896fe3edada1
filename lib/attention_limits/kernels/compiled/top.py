"""The positions of the largest weights of each row."""

import numpy as np

from .jit import compiled


@compiled
def top_rows(weights, visible, count):
    """:func:`attention_limits.kernels.top_rows`: first which they are, by the smallest of them, then their order."""
    order = np.full((len(weights), count), -1, dtype=np.int64)
    for r in range(len(weights)):
        row = weights[r, : visible[r]]
        size = min(count, len(row))
        bits = row.view(np.int64)  # numbers that are not negative order like their bits
        least = _least_of_top(bits, size)
        equal = size - _count(bits, least + 1)  # so many of those that equal the least: the lowest positions
        places, held = np.empty(len(row), dtype=np.int64), 0
        for i in range(len(row)):  # without a branch, which no processor could foresee
            places[held] = i
            tie = (bits[i] == least) & (equal > 0)
            equal -= tie
            held += (bits[i] > least) | tie
        # A stable sort, so that of equal weights the lower position stays in front.
        order[r, :size] = places[np.argsort(-row[places[:size]], kind="mergesort")]
    return order


@compiled
def _least_of_top(bits, size):
    """A number that at least ``size`` of ``bits`` reach, and that no more than ``size`` exceed."""
    low, high = np.int64(0), np.int64(2**63 - 1)
    while high - low > 1:
        middle = low + (high - low) // 2
        reached = _count(bits, middle)
        if reached == size:
            return middle
        if reached > size:
            low = middle
        else:
            high = middle
    return low


@compiled
def _count(bits, least):
    reached = 0
    for i in range(len(bits)):
        reached += bits[i] >= least
    return reached
