"""Theorem 1 on every row of a head: one walk down the sorted weights gives every N."""

import numpy as np

from .jit import compiled, largest

# So many tokens are taken in at once, so that what is kept for every token is read and written once for all of them.
AT_ONCE = 4  # as the loops below are written


@compiled
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
    for r in range(rows):
        n = visible[r]
        reach = max(n, last)
        a = weights[r, :n]
        unit, norms, twice, cross = _row_terms(a, squares, projections[r])
        dots = np.zeros(n)  # x_i . s
        far = np.zeros(reach)  # largest |x_i - x_j|^2 over selected j, 0 once token i is selected
        sides = squares[:reach].copy()  # |x_i|^2, so low once token i is selected that `far` stays 0
        left = norms.copy()  # |y_i|^2, so low once token i is selected that its distance is 0
        # After each of the tokens that are taken in at once: |s|^2, d, the largest of `far` over what is visible.
        s2, d, d1 = np.zeros(AT_ONCE), np.zeros(AT_ONCE), np.zeros(AT_ONCE)
        slack = np.sqrt(norms).sum()  # |y_i| over unselected i
        rest = a.sum()  # alpha_i over unselected i
        d2 = 0.0
        step, column = 0, 0
        stop = min(wanted[-1], reach - 1)
        while step < stop:
            size = AT_ONCE if step + AT_ONCE <= min(stop, n) else 1
            measured = step + size >= wanted[column]
            if size > 1:
                chosen = order[r, step : step + AT_ONCE]
                _take_in_several(dots, far, sides, left, twice, norms, a, chosen, gram, s2, d, d1, measured)
            else:
                # A row with fewer keys than N goes on with masked columns: all weigh 0, the lowest comes first.
                j = order[r, step] if step < n else step
                _take_in_one(dots, far, sides, left, twice, norms, a, j, gram, s2, d, d1, measured)
            for part in range(size):
                j = order[r, step] if step < n else step
                if step < n:
                    rest -= a[j]
                    slack -= np.sqrt(norms[j])
                d2 = max(d2, squares[j])
                if measured or size == 1:
                    _farthest(far[n:], sides[n:], gram[j, n:reach], squares[j])
                step += 1
                if step != wanted[column]:
                    continue
                s = np.sqrt(max(s2[part], 0.0))
                _write(
                    out[:, r, :, column], n, step, totals, far, unit, d[part], s, d1[part], d2, rest, slack
                )
                column += 1
        _expected(norms, cross, unit, wanted, n, totals, out[1, r])
    return out


@compiled
def _write(out, n, size, totals, far, unit, d, s, d1, d2, rest, slack):
    """All but E_J into ``out``, (5, 1 + M), for ``size`` selected tokens; ``d``, ``d1``: over what is visible."""
    at = n
    for slot in range(1 + len(totals)):
        total = n if slot == 0 else totals[slot - 1]
        if size >= total or total < n:
            continue
        if total > at:
            d1 = max(d1, largest(far[at:total]))
            at = total
        out[0, slot] = unit * (d + (total - max(n, size)) * s)
        out[2, slot] = rest * np.sqrt(d1) + ((total - size) * (1.0 - rest) - rest) * np.sqrt(d2)
        out[3, slot] = unit * s
        out[4, slot] = unit * max(slack, 0.0)


@compiled
def _row_terms(a, squares, projection):
    """The largest |y_i|, and in its units |y_i|^2, 2 alpha_i (of x_i.s), y_i.Y with Y = sum y_j."""
    n = len(a)
    norms = np.empty(n)
    for i in range(n):
        norms[i] = a[i] * a[i] * squares[i]
    most = largest(norms)
    scale = 1.0 / most if most > 0.0 else 1.0
    return np.sqrt(1.0 / scale), scale * norms, (2.0 * scale) * a, scale * (a * projection[:n])


# The loops below stand alone so that the compiler sees that their arrays do not overlap, and vectorises them.
@compiled
def _take_in(dots, far, sides, row, weight, own):
    for i in range(len(dots)):
        dots[i] += weight * row[i]
        square = sides[i] + own - 2.0 * row[i]
        far[i] = square if square > far[i] else far[i]


@compiled
def _farthest(far, sides, row, own):
    for i in range(len(far)):
        square = sides[i] + own - 2.0 * row[i]
        far[i] = square if square > far[i] else far[i]


@compiled
def _root(square):
    return np.float64(np.sqrt(np.float32(square if square > 0.0 else 0.0)))


@compiled
def _sum_of_distances(left, twice, dots, s2):
    d = 0.0
    for i in range(len(left)):
        d += _root(left[i] - twice[i] * dots[i] + s2)
    return d


@compiled
def _take_in_one(dots, far, sides, left, twice, norms, a, j, gram, s2, d, d1, measured):
    """Take in token ``j``, which may be masked. |s|^2 goes to all of ``s2``.

    ``measured``: d and the largest of `far` over what is visible go to the first of ``d`` and ``d1``.
    """
    n = len(dots)
    s2[:] = s2[-1]
    if j < n:
        s2 += twice[j] * dots[j] + norms[j]
        left[j] = -np.inf
    far[j], sides[j] = 0.0, -np.inf
    _take_in(dots, far[:n], sides[:n], gram[j, :n], a[j] if j < n else 0.0, gram[j, j])
    if measured:
        d[0], d1[0] = _sum_of_distances(left, twice, dots, s2[0]), largest(far[:n])


@compiled
def _take_in_several(dots, far, sides, left, twice, norms, a, chosen, gram, s2, d, d1, measured):
    """Take in the tokens ``chosen``, with |s|^2 after each.

    ``measured``: d and the largest of ``far`` over what is visible after each too; `far` of what is masked is then left
    to the caller.
    """
    n = len(dots)
    own, weight, now = np.empty(AT_ONCE), np.empty(AT_ONCE), s2[-1]
    for p in range(AT_ONCE):
        own[p], weight[p] = gram[chosen[p], chosen[p]], a[chosen[p]]
    # What each adds while it is not selected itself: they are no more than a handful.
    d[:], d1[:] = 0.0, 0.0
    for p in range(AT_ONCE):
        j = chosen[p]
        dot, most = dots[j], far[j]
        for before in range(p):
            dot += weight[before] * gram[chosen[before], j]
            most = max(most, own[p] + own[before] - 2.0 * gram[chosen[before], j])
            d[before] += _root(norms[j] - twice[j] * dot + s2[before])
            d1[before] = max(d1[before], most)
        now += twice[j] * dot + norms[j]
        s2[p] = now
    for j in chosen:
        far[j], sides[j], left[j] = 0.0, -np.inf, -np.inf
    reach = len(far)
    g0, g1 = gram[chosen[0], :reach], gram[chosen[1], :reach]
    g2, g3 = gram[chosen[2], :reach], gram[chosen[3], :reach]
    bits = far.view(np.int64)
    if not measured:
        _four_dots(dots, g0, g1, g2, g3, weight)
        _four_farthest(bits, sides, g0, g1, g2, g3, own)
        return
    sums = _four_distances(dots, left, twice, g0, g1, g2, g3, weight, s2)
    tops = _four_farthest(bits[:n], sides, g0, g1, g2, g3, own)
    for p in range(AT_ONCE):
        d[p] += sums[p]
        d1[p] = max(d1[p], np.int64(tops[p]).view(np.float64))


@compiled
def _four_dots(dots, g0, g1, g2, g3, weight):
    a0, a1, a2, a3 = weight[0], weight[1], weight[2], weight[3]
    for i in range(len(dots)):
        dots[i] = dots[i] + a0 * g0[i] + a1 * g1[i] + a2 * g2[i] + a3 * g3[i]


@compiled
def _four_distances(dots, left, twice, g0, g1, g2, g3, weight, s2):
    a0, a1, a2, a3 = weight[0], weight[1], weight[2], weight[3]
    t0, t1, t2, t3 = s2[0], s2[1], s2[2], s2[3]
    d0 = d1 = d2 = d3 = 0.0
    for i in range(len(dots)):
        x0 = dots[i] + a0 * g0[i]
        x1 = x0 + a1 * g1[i]
        x2 = x1 + a2 * g2[i]
        x3 = x2 + a3 * g3[i]
        dots[i] = x3
        d0 += _root(left[i] - twice[i] * x0 + t0)
        d1 += _root(left[i] - twice[i] * x1 + t1)
        d2 += _root(left[i] - twice[i] * x2 + t2)
        d3 += _root(left[i] - twice[i] * x3 + t3)
    return d0, d1, d2, d3


@compiled
def _bits(number):
    return np.float64(number).view(np.int64)


@compiled
def _four_farthest(far, sides, g0, g1, g2, g3, own):
    o0, o1, o2, o3 = own[0], own[1], own[2], own[3]
    m0 = m1 = m2 = m3 = np.int64(0)
    for i in range(len(far)):
        f0 = max(far[i], _bits(sides[i] + o0 - 2.0 * g0[i]))
        f1 = max(f0, _bits(sides[i] + o1 - 2.0 * g1[i]))
        f2 = max(f1, _bits(sides[i] + o2 - 2.0 * g2[i]))
        f3 = max(f2, _bits(sides[i] + o3 - 2.0 * g3[i]))
        far[i] = f3
        m0, m1, m2, m3 = max(m0, f0), max(m1, f1), max(m2, f2), max(m3, f3)
    return m0, m1, m2, m3


@compiled
def _expected(norms, cross, unit, wanted, n, totals, out):
    """E_J of Theorem 1 for random N-sets into ``out``, (1 + M, N): tokens beyond the ``n`` visible have y_i = 0."""
    q, y = norms.sum(), cross.sum()
    first, second, base = np.zeros(AT_ONCE), np.zeros(AT_ONCE), np.zeros(AT_ONCE)
    for slot in range(len(out)):
        total = n if slot == 0 else totals[slot - 1]
        if total < n:
            continue
        for begin in range(0, len(wanted), AT_ONCE):
            sizes = wanted[begin : begin + AT_ONCE]
            for p in range(len(sizes)):
                one = sizes[p] / (total - 1.0) if total > 1 else 0.0
                two = one * (sizes[p] - 1.0) / (total - 2.0) if sizes[p] > 1 and total > 2 else 0.0
                base[p] = one * q + two * (y - q)
                first[p], second[p] = 1.0 + one + 2.0 * two, 2.0 * (one + two)
            sums = _four_sums(norms, cross, first, second, base)
            for p in range(len(sizes)):
                if sizes[p] < total:
                    e = (total - n) * np.sqrt(max(base[p], 0.0)) + sums[p]
                    out[slot, begin + p] = unit * (total - sizes[p]) / total * e


@compiled
def _four_sums(norms, cross, first, second, base):
    f0, f1, f2, f3 = first[0], first[1], first[2], first[3]
    s0, s1, s2, s3 = second[0], second[1], second[2], second[3]
    b0, b1, b2, b3 = base[0], base[1], base[2], base[3]
    e0 = e1 = e2 = e3 = 0.0
    for i in range(len(norms)):
        e0 += _root(norms[i] * f0 - s0 * cross[i] + b0)
        e1 += _root(norms[i] * f1 - s1 * cross[i] + b1)
        e2 += _root(norms[i] * f2 - s2 * cross[i] + b2)
        e3 += _root(norms[i] * f3 - s3 * cross[i] + b3)
    return e0, e1, e2, e3
