"""Theorem 1 on every row of a block, one step for each token that is taken in."""

from __future__ import annotations

import torch

from attention_limits.kernels.columns import columns_seen

Tensor = torch.Tensor


def distance_rows(
    weights: Tensor,
    visible: Tensor,
    order: Tensor,
    wanted: Tensor,
    totals: Tensor,
    gram: Tensor,
    projections: Tensor,
) -> Tensor:
    """:func:`attention_limits.kernels.distance_rows`; the recurrence is that of the compiled path."""
    rows, length = weights.shape
    sizes, targets = wanted.tolist(), totals.tolist()
    out = weights.new_full((5, rows, 1 + len(targets), len(sizes)), torch.nan)
    columns, seen = torch.arange(length, device=weights.device), columns_seen(weights, visible)
    squares, every = gram.diagonal(), torch.arange(rows, device=weights.device)
    norms = weights.square() * squares  # |y_i|^2, zero where a row does not see
    cross = weights * projections.masked_fill(~seen, 0.0)
    lengths = norms.sqrt()
    open_ = torch.ones_like(weights)
    dots, far = torch.zeros_like(weights), torch.zeros_like(weights)
    s2, d2 = weights.new_zeros(rows), weights.new_zeros(rows)
    supports = [visible.double(), *(s2.new_full((rows,), float(total)) for total in targets)]
    for step in range(min(sizes[-1], length - 1)):
        # A row with fewer keys than N goes on with masked columns: all weigh 0, the lowest position comes first.
        j = torch.where(step < visible, order[:, step], step)
        a, g, own = weights[every, j], gram[j], squares[j]
        s2 = s2 + 2 * a * dots[every, j] + a * a * own
        d2 = torch.maximum(d2, own)
        open_[every, j] = 0.0
        dots.addcmul_(a[:, None], g)
        far = torch.maximum(far, squares + own[:, None] - 2 * g)
        if (big_n := step + 1) not in sizes:
            continue
        column = sizes.index(big_n)
        s = s2.clamp(min=0).sqrt()
        each = (norms - 2 * weights * dots + s2[:, None]).clamp_(min=0).sqrt_()
        d = (each * open_ * seen).sum(dim=1)
        rest, slack = (open_ * weights).sum(dim=1), (open_ * lengths).sum(dim=1)
        for slot, total in enumerate(supports):
            valid = (big_n < total) & (total >= visible)
            counted = open_ * (columns < total[:, None])
            d1 = (far * counted).amax(dim=1)
            found = (
                d + (total - visible.clamp(min=big_n)) * s,
                _expected(norms, cross, seen, visible, big_n, total),
                rest * d1.sqrt() + ((total - big_n) * (1 - rest) - rest) * d2.sqrt(),
                s,
                slack,
            )
            out[:, :, slot, column] = torch.stack(found).masked_fill(~valid, torch.nan)
    return out


def _expected(
    norms: Tensor, cross: Tensor, seen: Tensor, visible: Tensor, big_n: int, total: Tensor
) -> Tensor:
    """E_J of Theorem 1 for random N-sets of ``total`` tokens, of which those not ``seen`` have y_i = 0."""
    q, y = norms.sum(dim=1), cross.sum(dim=1)
    one = big_n / (total - 1.0)
    two = one * (big_n - 1.0) / (total - 2.0) if big_n > 1 else torch.zeros_like(one)
    base = one * q + two * (y - q)
    first, second = (1 + one + 2 * two)[:, None], 2 * (one + two)[:, None]
    each = (norms * first - second * cross + base[:, None]).clamp_(min=0).sqrt_()
    summed = (each * seen).sum(dim=1) + (total - visible) * base.clamp(min=0).sqrt()
    return (total - big_n) / total * summed
