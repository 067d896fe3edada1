"""Theorem 2 on every row of a head: which of the selected tokens can be told apart, and between which bounds."""

import numpy as np

from .jit import compiled

NEAR = 1e-6  # distances to s that differ by less could swap in float32


@compiled
def geometry_rows(weights, visible, masked, order, wanted, gram, gaps, dimension, flag_n):
    """:func:`attention_limits.kernels.geometry_rows`."""
    kinds, rows = masked.shape
    values = np.full((kinds, 6, rows, len(wanted)), np.nan)
    flags = np.zeros((rows, flag_n), dtype=np.bool_)
    squares = np.diag(gram).copy()  # |x_i|^2, side by side in memory
    for r in range(rows):
        n = visible[r]
        a = weights[r]
        dots = np.zeros(n)
        own = np.empty(n)  # |y_i|^2
        for i in range(n):
            own[i] = a[i] * a[i] * squares[i]
        hidden = np.zeros(n)  # infinity once token i is selected, so that the minimum passes it by
        s2 = 0.0
        column = 0
        for step in range(min(wanted[-1], n + masked[:, r].max() - 1)):
            if step < n:
                j = order[r, step]
                g = gram[j]
                s2 += 2.0 * a[j] * dots[j] + own[j]
                hidden[j] = np.inf
                for i in range(n):
                    dots[i] += a[j] * g[i]
            big_n = step + 1
            if big_n != wanted[column]:
                continue
            # Compared are |y_i - s|^2 - |s|^2: next to |s|^2 the difference of two light tokens would drown.
            closest = np.inf
            for i in range(n):
                closest = min(closest, own[i] - 2.0 * a[i] * dots[i] + hidden[i])
            for kind in range(kinds):
                if big_n >= n + masked[kind, r]:
                    continue
                # An unselected masked token has y = 0.
                nearest = min(closest, 0.0) if n + masked[kind, r] > max(n, big_n) else closest
                radius = np.sqrt(max(nearest + s2, 0.0))
                marks = flags[r] if kind == 0 and big_n == flag_n else flags[r, :0]
                told, near = _told(a, order[r], dots, own, n, big_n, nearest, s2, marks)
                values[kind, 0, r, column] = told / big_n
                values[kind, 1, r, column] = radius
                held = min(big_n, n)
                low, sharp, high = _bounds(a, order[r], held, big_n, radius, gaps[kind, r], dimension)
                values[kind, 2, r, column] = low
                values[kind, 3, r, column] = sharp
                values[kind, 4, r, column] = high
                values[kind, 5, r, column] = near
            column += 1
            if column == len(wanted):
                break
    return values, flags


@compiled
def _told(a, order, dots, own, n, big_n, nearest, s2, marks):
    """How many selected tokens are told apart and how many lie near r; ``marks`` gets which are, unless empty."""
    told, near = 0, 0
    radius = np.sqrt(max(nearest + s2, 0.0))
    for i in range(big_n):
        gap = 0.0  # selected masked tokens (fewer keys than N) have y = 0 too
        if i < n:
            j = order[i]
            gap = own[j] - 2.0 * a[j] * dots[j]
        told += gap < nearest
        near += abs(np.sqrt(max(gap + s2, 0.0)) - radius) < NEAR
        if len(marks):
            marks[i] = gap < nearest
    return told, near


@compiled
def _bounds(a, order, held, big_n, r, gap, dimension):
    """Markov with xi_i, Markov with sqrt(E Z_i^2), McDiarmid; the first two at least 0, for M = 1.

    ``held`` of the ``big_n`` selected tokens are visible; the others weigh 0.
    """
    low, sharp, high = 0.0, 0.0, 0.0
    # Sums over the other selected tokens are those before plus those after, so that a sink does not cancel.
    after = np.zeros((held + 1, 3))
    for place in range(held - 1, -1, -1):
        w = a[order[place]]
        after[place, 0] = after[place + 1, 0] + w
        after[place, 1] = after[place + 1, 1] + w * w
        after[place, 2] = after[place + 1, 2] + w * w * w * w
    before = np.zeros(3)
    for place in range(big_n):
        rest = min(place + 1, held)
        s1, square, fourth = (
            before[0] + after[rest, 0],
            before[1] + after[rest, 1],
            before[2] + after[rest, 2],
        )
        if place < held:
            w = a[order[place]]
            before[0] += w
            before[1] += w * w
            before[2] += w * w * w * w
        low += np.sqrt(max(square + (1.0 - gap / 2.0) * (s1 * s1 - square), 0.0))
        root = np.sqrt(square)
        sharp += root
        moment = square * square + 2.0 / dimension * (square * square - fourth)
        if moment > 0.0:  # 0 for N = 1, and where the other weights are too small to be squared twice
            excess = square * root / np.sqrt(moment) - r
            high += np.exp(-excess * excess / (2.0 * square)) if excess > 0.0 else 1.0
        else:
            high += 1.0
    if r == 0.0:
        return 0.0, 0.0, high / big_n
    return max(1.0 - low / (big_n * r), 0.0), max(1.0 - sharp / (big_n * r), 0.0), high / big_n
