"""Theorem 1 on every row of a head: one walk down the sorted weights gives every N."""

import numpy as np
from numba import njit, prange

from .rows import FAST


@njit(parallel=True, cache=True, fastmath=FAST)
def distance_rows(weights, visible, order, wanted, totals, gram, projections):
    """Theorem 1 on every row, for every N in ``wanted`` (ascending int64), in one walk down the sorted weights.

    weights, projections: (R, L) float64, projections[r, i] = x_i . sum_j y_j for the visible i; order: (R, K >= max
    wanted) from top_rows; totals: (M,) ascending int64, the n of the `full` support, whose masked columns weigh 0.
    Returns (5, R, 1 + M, len(wanted)) float64: d, E_J, the bound, |s| and sum over unselected of |y_i|, first for
    the `causal` support (n = visible), then for each total; NaN where n <= N or a total is below visible[r].

    Taking in token j changes x_i.s by alpha_j x_i.x_j, one row of ``gram``, and |y_i - s|^2 is
    |y_i|^2 - 2 alpha_i x_i.s + |s|^2; float64 keeps what that subtraction cancels.
    """
    rows = len(weights)
    out = np.full((5, rows, 1 + len(totals), len(wanted)), np.nan)
    last = totals[-1] if len(totals) else 0
    for r in prange(rows):
        n = visible[r]
        reach = max(n, last)
        a = weights[r]
        dots = np.zeros(n)  # x_i . s
        far = np.zeros(reach)  # largest |x_i - x_j|^2 over selected j
        open_ = np.ones(reach)  # 1 while token i is unselected
        norms, cross, q, y = _row_sums(a[:n], gram, projections[r])
        sizes = np.sqrt(norms)  # |y_i|
        s2 = 0.0
        d2 = 0.0
        column = 0
        for step in range(min(wanted[-1], reach - 1)):
            # A row with fewer keys than N goes on with masked columns: all weigh 0, the lowest position comes first.
            j = order[r, step] if step < n else step
            g = gram[j]
            if step < n:
                s2 += 2.0 * a[j] * dots[j] + a[j] * a[j] * g[j]
            d2 = max(d2, g[j])
            open_[j] = 0.0
            for i in range(n):
                dots[i] += a[j] * g[i]
            for i in range(reach):
                far[i] = max(far[i], gram[i, i] + g[j] - 2.0 * g[i])
            big_n = step + 1
            if big_n != wanted[column]:
                continue
            s = np.sqrt(max(s2, 0.0))
            d = 0.0
            rest = 0.0
            slack = 0.0
            d1 = 0.0
            for i in range(n):
                d += open_[i] * np.sqrt(max(norms[i] - 2.0 * a[i] * dots[i] + s2, 0.0))
                rest += open_[i] * a[i]
                slack += open_[i] * sizes[i]
                d1 = max(d1, open_[i] * far[i])
            at = n
            for slot in range(1 + len(totals)):
                total = n if slot == 0 else totals[slot - 1]
                if big_n >= total or total < n:
                    continue
                while at < total:
                    d1 = max(d1, open_[at] * far[at])
                    at += 1
                out[0, r, slot, column] = d + (total - max(n, big_n)) * s
                out[1, r, slot, column] = _expected(norms, cross, q, y, big_n, total)
                out[2, r, slot, column] = rest * np.sqrt(d1) + (
                    (total - big_n) * (1.0 - rest) - rest
                ) * np.sqrt(d2)
                out[3, r, slot, column] = s
                out[4, r, slot, column] = slack
            column += 1
            if column == len(wanted):
                break
    return out


@njit(cache=True, fastmath=FAST)
def _row_sums(a, gram, projection):
    """|y_i|^2 and y_i . Y of the visible tokens, with their sums sum |y_i|^2 and |Y|^2, where Y = sum_j y_j."""
    n = len(a)
    norms = np.empty(n)
    cross = np.empty(n)
    q = 0.0
    y = 0.0
    for i in range(n):
        norms[i] = a[i] * a[i] * gram[i, i]
        cross[i] = a[i] * projection[i]
        q += norms[i]
        y += cross[i]
    return norms, cross, q, y


@njit(cache=True, fastmath=FAST)
def _expected(norms, cross, q, y, big_n, total):
    """E_J of Theorem 1 for random N-sets of ``total`` tokens, of which those beyond len(norms) have y_i = 0."""
    one = big_n / (total - 1.0)
    two = one * (big_n - 1.0) / (total - 2.0) if big_n > 1 else 0.0
    base = one * q + two * (y - q)
    e = (total - len(norms)) * np.sqrt(max(base, 0.0))
    for i in range(len(norms)):
        e += np.sqrt(max(norms[i] * (1.0 + one + 2.0 * two) - 2.0 * (one + two) * cross[i] + base, 0.0))
    return (total - big_n) / total * e
