"""Theorem 2 on every row of a head: which of the selected tokens can be told apart, and between which bounds."""

import numpy as np
from numba import njit, prange

from .rows import FAST

NEAR = 1e-6  # distances to s that differ by less could swap in float32


@njit(parallel=True, cache=True, fastmath=FAST)
def geometry_rows(weights, visible, masked, order, wanted, gram, gaps, dimension, flag_n):
    """N_s/N and Theorem 2's bounds for every N in ``wanted`` (ascending int64), in one walk down the sorted weights.

    gram: of vectors scaled to length one (M = 1); order as from top_rows; masked[r]: how many further tokens of weight
    zero the row counts (`full` support; 0 for `causal`); gaps[r]: delta^2, the smallest |x_i - x_j|^2 among the tokens
    that the row counts; dimension: d of the vectors.

    Returns (values, flags). values: (6, R, len(wanted)) float64: N_s/N, r, the Markov bound with xi_i, the Markov bound
    with sqrt(E Z_i^2), McDiarmid's upper bound, and how many selected tokens lie within 1e-6 of r; NaN where n <= N.
    flags: (R, flag_n) bool, flags[r, i]: the i-th selected token is told apart when N = flag_n. The comparison with r
    is made in float64.
    """
    rows = len(weights)
    values = np.full((6, rows, len(wanted)), np.nan)
    flags = np.zeros((rows, flag_n), dtype=np.bool_)
    for r in prange(rows):
        n = visible[r]
        a = weights[r]
        dots = np.zeros(n)
        hidden = np.zeros(n)  # infinity once token i is selected, so that the minimum passes it by
        s2 = 0.0
        column = 0
        for step in range(min(wanted[-1], n + masked[r] - 1)):
            if step < n:
                j = order[r, step]
                g = gram[j]
                s2 += 2.0 * a[j] * dots[j] + a[j] * a[j] * g[j]
                hidden[j] = np.inf
                for i in range(n):
                    dots[i] += a[j] * g[i]
            big_n = step + 1
            if big_n != wanted[column]:
                continue
            # Compared are |y_i - s|^2 - |s|^2: next to |s|^2 the difference of two light tokens would drown.
            nearest = 0.0 if n + masked[r] > max(n, big_n) else np.inf  # an unselected masked token: y = 0
            for i in range(n):
                nearest = min(nearest, a[i] * a[i] * gram[i, i] - 2.0 * a[i] * dots[i] + hidden[i])
            radius = np.sqrt(max(nearest + s2, 0.0))
            told, near = 0, 0
            for i in range(big_n):
                own = 0.0  # selected masked tokens (fewer keys than N) have y = 0 too
                if i < n:
                    j = order[r, i]
                    own = a[j] * a[j] * gram[j, j] - 2.0 * a[j] * dots[j]
                told += own < nearest
                near += abs(np.sqrt(max(own + s2, 0.0)) - radius) < NEAR
                if big_n == flag_n:
                    flags[r, i] = own < nearest
            values[0, r, column] = told / big_n
            values[1, r, column] = radius
            low, sharp, high = _bounds(a, order[r], min(big_n, n), big_n, radius, gaps[r], dimension)
            values[2, r, column] = low
            values[3, r, column] = sharp
            values[4, r, column] = high
            values[5, r, column] = near
            column += 1
            if column == len(wanted):
                break
    return values, flags


@njit(cache=True, fastmath=FAST)
def _bounds(a, order, held, big_n, r, gap, dimension):
    """Markov with xi_i, Markov with sqrt(E Z_i^2), McDiarmid; the first two at least 0, for M = 1.

    ``held`` of the ``big_n`` selected tokens are visible; the others weigh 0.
    """
    low, sharp, high = 0.0, 0.0, 0.0
    for place in range(big_n):
        s1, square, fourth = (
            0.0,
            0.0,
            0.0,
        )  # sums over the other selected tokens, so that a sink does not cancel
        for other in range(held):
            if other != place:
                w = a[order[other]]
                s1 += w
                square += w * w
                fourth += w * w * w * w
        low += np.sqrt(max(square + (1.0 - gap / 2.0) * (s1 * s1 - square), 0.0))
        sharp += np.sqrt(square)
        moment = square * square + 2.0 / dimension * (square * square - fourth)
        if moment > 0.0:  # 0 for N = 1, and where the other weights are too small to be squared twice
            excess = max(square**1.5 / np.sqrt(moment) - r, 0.0)
            high += np.exp(-excess * excess / (2.0 * square))
        else:
            high += 1.0
    if r == 0.0:
        return 0.0, 0.0, high / big_n
    return max(1.0 - low / (big_n * r), 0.0), max(1.0 - sharp / (big_n * r), 0.0), high / big_n
