"""Theorem 1 on every row of a head: one walk down the sorted weights gives every N."""

import numpy as np
from numba import njit, prange

from .top import FAST, largest


@njit(parallel=True, cache=True, fastmath=FAST)
def distance_rows(weights, visible, order, wanted, totals, gram, projections):
    """:func:`attention_limits.kernels.distance_rows`.

    Taking in token j changes x_i.s by alpha_j x_i.x_j, one row of ``gram``, and |y_i - s|^2 is
    |y_i|^2 - 2 alpha_i x_i.s + |s|^2; float64 keeps what that subtraction cancels. Only the square root of the
    result is taken in float32 (three times as fast, 6e-8 relative), in units of the row's largest |y_i|, so that no
    square leaves float32's range.
    """
    rows = len(weights)
    out = np.full((5, rows, 1 + len(totals), len(wanted)), np.nan)
    last = totals[-1] if len(totals) else 0
    squares = np.diag(gram).copy()  # |x_i|^2, side by side in memory
    for r in prange(rows):
        n = visible[r]
        reach = max(n, last)
        a = weights[r, :n]
        dots = np.zeros(n)  # x_i . s
        far = np.zeros(reach)  # largest |x_i - x_j|^2 over selected j, 0 once token i is selected
        sides = squares[:reach].copy()  # |x_i|^2, so low once token i is selected that `far` stays 0
        open_ = np.ones(n)  # 1 while token i is unselected
        unit, norms, twice, cross, q, y = _row_terms(a, squares, projections[r])
        slack = 0.0  # sum of |y_i| over unselected i
        rest = 0.0  # sum of alpha_i over unselected i
        for i in range(n):
            slack += np.sqrt(norms[i])
            rest += a[i]
        s2 = 0.0
        d2 = 0.0
        column = 0
        for step in range(min(wanted[-1], reach - 1)):
            # A row with fewer keys than N goes on with masked columns: all weigh 0, the lowest position comes first.
            j = order[r, step] if step < n else step
            g = gram[j]
            own = squares[j]
            if step < n:
                s2 += twice[j] * dots[j] + norms[j]
                rest -= a[j]
                slack -= np.sqrt(norms[j])
                open_[j] = 0.0
            d2 = max(d2, own)
            far[j], sides[j] = 0.0, -np.inf
            _take_in(dots, far[:n], sides[:n], g[:n], a[j] if step < n else 0.0, own)
            _farthest(far[n:], sides[n:], g[n:], own)
            big_n = step + 1
            if big_n != wanted[column]:
                continue
            d = _sum_of_distances(norms, twice, dots, open_, s2)
            s = np.sqrt(max(s2, 0.0))
            d1 = largest(far[:n])
            at = n
            for slot in range(1 + len(totals)):
                total = n if slot == 0 else totals[slot - 1]
                if big_n >= total or total < n:
                    continue
                if total > at:
                    d1 = max(d1, largest(far[at:total]))
                    at = total
                left = total - big_n
                out[0, r, slot, column] = unit * (d + (total - max(n, big_n)) * s)
                out[1, r, slot, column] = unit * _expected(norms, cross, q, y, big_n, total)
                out[2, r, slot, column] = rest * np.sqrt(d1) + (left * (1.0 - rest) - rest) * np.sqrt(d2)
                out[3, r, slot, column] = unit * s
                out[4, r, slot, column] = unit * max(slack, 0.0)
            column += 1
            if column == len(wanted):
                break
    return out


@njit(cache=True, fastmath=FAST)
def _row_terms(a, squares, projection):
    """The largest |y_i|, and in its units |y_i|^2, 2 alpha_i (of x_i.s), y_i.Y, sum |y_i|^2, |Y|^2; Y = sum y_j."""
    n = len(a)
    norms = np.empty(n)
    largest = 0.0
    for i in range(n):
        norms[i] = a[i] * a[i] * squares[i]
        largest = max(largest, norms[i])
    scale = 1.0 / largest if largest > 0.0 else 1.0
    twice = np.empty(n)
    cross = np.empty(n)
    q = 0.0
    y = 0.0
    for i in range(n):
        norms[i] *= scale
        twice[i] = 2.0 * a[i] * scale
        cross[i] = a[i] * projection[i] * scale
        q += norms[i]
        y += cross[i]
    return np.sqrt(1.0 / scale), norms, twice, cross, q, y


# The loops below stand alone so that the compiler sees that their arrays do not overlap, and vectorises them.
@njit(cache=True, fastmath=FAST)
def _take_in(dots, far, sides, row, weight, own):
    for i in range(len(dots)):
        dots[i] += weight * row[i]
        square = sides[i] + own - 2.0 * row[i]
        far[i] = square if square > far[i] else far[i]


@njit(cache=True, fastmath=FAST)
def _farthest(far, sides, row, own):
    for i in range(len(far)):
        square = sides[i] + own - 2.0 * row[i]
        far[i] = square if square > far[i] else far[i]


@njit(cache=True, fastmath=FAST)
def _sum_of_distances(norms, twice, dots, open_, s2):
    d = 0.0
    for i in range(len(norms)):
        square = norms[i] - twice[i] * dots[i] + s2
        square = square if square > 0.0 else 0.0
        d += open_[i] * np.float64(np.sqrt(np.float32(square)))
    return d


@njit(cache=True, fastmath=FAST)
def _expected(norms, cross, q, y, big_n, total):
    """E_J of Theorem 1 for random N-sets of ``total`` tokens, of which those beyond len(norms) have y_i = 0."""
    one = big_n / (total - 1.0)
    two = one * (big_n - 1.0) / (total - 2.0) if big_n > 1 else 0.0
    base = one * q + two * (y - q)
    first, second = 1.0 + one + 2.0 * two, 2.0 * (one + two)
    e = (total - len(norms)) * np.sqrt(max(base, 0.0))
    for i in range(len(norms)):
        square = norms[i] * first - second * cross[i] + base
        square = square if square > 0.0 else 0.0
        e += np.float64(np.sqrt(np.float32(square)))
    return (total - big_n) / total * e
