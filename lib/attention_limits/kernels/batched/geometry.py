"""Theorem 2 on every row of a block, one step for each token that is taken in."""

from __future__ import annotations

import torch

from attention_limits.kernels.columns import columns_seen
from attention_limits.kernels.compiled.geometry import NEAR

Tensor = torch.Tensor


def geometry_rows(
    weights: Tensor,
    visible: Tensor,
    masked: Tensor,
    order: Tensor,
    wanted: Tensor,
    gram: Tensor,
    gaps: Tensor,
    dimension: int,
    flag_n: int,
) -> tuple[Tensor, Tensor]:
    """:func:`attention_limits.kernels.geometry_rows`; the recurrence is that of the compiled path."""
    (rows, length), sizes = weights.shape, wanted.tolist()
    values = weights.new_full((len(masked), 6, rows, len(sizes)), torch.nan)
    flags = torch.zeros(rows, flag_n, dtype=torch.bool, device=weights.device)
    every, seen = torch.arange(rows, device=weights.device), columns_seen(weights, visible)
    own = weights.square() * gram.diagonal()  # |y_i|^2
    # Infinity where a token is selected or not seen, so that the minimum passes it by.
    taken = torch.zeros_like(weights).masked_fill_(~seen, torch.inf)
    dots, s2 = torch.zeros_like(weights), weights.new_zeros(rows)
    for step in range(min(sizes[-1], length + int(masked.max()) - 1, order.shape[1])):
        j = order[:, step].clamp(min=0)
        inside = step < visible
        a = weights[every, j] * inside
        s2 = s2 + 2 * a * dots[every, j] + own[every, j] * inside
        taken[every, j] = torch.where(inside, torch.inf, taken[every, j])
        dots.addcmul_(a[:, None], gram[j])
        if (big_n := step + 1) not in sizes:
            continue
        column = sizes.index(big_n)
        # Compared are |y_i - s|^2 - |s|^2: next to |s|^2 the difference of two light tokens would drown.
        gap = own - 2 * weights * dots
        closest = (gap + taken).amin(dim=1)
        chosen = order[:, :big_n].clamp(min=0)
        held = torch.arange(big_n, device=weights.device) < visible[:, None]
        picked = gap.gather(1, chosen) * held  # selected masked tokens (fewer keys than N) have y = 0 too
        heavy = weights.gather(1, chosen) * held
        for kind, more in enumerate(masked):
            # An unselected masked token has y = 0.
            beyond = visible + more > visible.clamp(min=big_n)
            nearest = torch.where(beyond, closest.clamp(max=0), closest)
            radius = (nearest + s2).clamp(min=0).sqrt()
            told = picked < nearest[:, None]
            near = ((picked + s2[:, None]).clamp(min=0).sqrt() - radius[:, None]).abs() < NEAR
            if kind == 0 and big_n == flag_n:
                flags = told & (big_n < visible + more)[:, None]
            bounds = _bounds(heavy, radius, gaps[kind], dimension)
            found = torch.stack((told.double().mean(dim=1), radius, *bounds, near.double().sum(dim=1)))
            valid = big_n < visible + more
            values[kind, :, :, column] = found.masked_fill(~valid, torch.nan)
    return values, flags


def _bounds(heavy: Tensor, r: Tensor, gap: Tensor, dimension: int) -> tuple[Tensor, Tensor, Tensor]:
    """Markov with xi_i, Markov with sqrt(E Z_i^2), McDiarmid, for M = 1; the first two at least 0. heavy: (R, N)."""
    s1, square, fourth = (_sum_of_others(heavy**power) for power in (1, 2, 4))
    low = (square + (1 - gap[:, None] / 2) * (s1 * s1 - square)).clamp(min=0).sqrt().mean(dim=1)
    sharp = square.sqrt().mean(dim=1)
    moment = square * square + 2 / dimension * (square * square - fourth)
    excess = (square**1.5 / moment.sqrt() - r[:, None]).clamp(min=0)
    # 0 for N = 1, and where the other weights are too small to be squared twice
    high = torch.where(moment > 0, (-excess * excess / (2 * square)).exp(), 1.0).mean(dim=1)
    low, sharp = ((1 - part / r).clamp(min=0).masked_fill(r == 0, 0.0) for part in (low, sharp))
    return low, sharp, high


def _sum_of_others(parts: Tensor) -> Tensor:
    """The sum of the others in its row, for each entry: before plus after, so that a sink does not cancel."""
    before = parts.cumsum(dim=1).roll(1, dims=1)
    before[:, 0] = 0.0
    after = parts.flip(1).cumsum(dim=1).roll(1, dims=1)
    after[:, 0] = 0.0
    return before + after.flip(1)
