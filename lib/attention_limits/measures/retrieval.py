"""Geometric precision, recall and F of the selected tokens (arXiv:2602.01893), and the weight that they carry."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import torch

from attention_limits import kernels
from attention_limits.capture import SPACES, Capture

from .heads import Head, check_choice, check_numbers, head_table


def retrieval(
    capture: Capture,
    *,
    spaces: Sequence[str],
    top_ns: Sequence[int],
    stride: int = 1,
    unit: bool = False,
) -> pd.DataFrame:
    """How well the ball around s = sum over S of y_j tells the selected tokens from the others, for every head.

    S: the ``top_ns`` largest weights of a causal row, y_i = alpha_i x_i. ``precision``: N / (N + the number of
    unselected tokens that are no farther from s than the farthest selected one); ``recall``: the share of selected
    tokens that are closer to s than every unselected one, which is N_s/N of Theorem 2 if ``unit`` scales the x_i to
    length one (the follow-up does not); ``f``: the harmonic mean of both, 0 where the recall is. ``mass``: the weight
    of S, the same in every space.

    Columns: layer, head, space, top_n, those four as means over the rows with n > N, and ``rows``. ``stride`` keeps the
    last of every ``stride`` rows. An N without rows is left out. Raises ValueError for a space, N or stride that makes
    no sense.
    """
    check_choice("spaces", spaces, SPACES)
    top_ns = check_numbers("top_ns", top_ns, 1, capture.length - 1, "one token must stay unselected")
    numbers = ["precision", "recall", "f", "mass", "rows"]

    def measured(head: Head) -> list[dict]:
        """The rows of one head."""
        sums = {space: torch.tensor(0.0) for space in spaces}
        for visible, weights in head.blocks(stride, extra=5 * len(top_ns) * capture.length):
            # A stable sort, so that of equal weights the lower position comes first, and masked columns come last.
            order = weights.sort(dim=1, descending=True, stable=True).indices
            rank = torch.empty_like(order).scatter_(
                1, order, torch.arange(len(order[0]), device=order.device).expand_as(order)
            )
            for space in spaces:
                sums[space] = sums[space] + _sums(weights, rank, visible, head.grams[space], top_ns)
        table = []
        for space, total in sums.items():
            for top_n, (*totals, rows) in zip(top_ns, total.tolist(), strict=True):
                if rows:
                    means = dict(zip(numbers, [*(part / rows for part in totals), int(rows)], strict=True))
                    table.append(
                        {"layer": head.layer, "head": head.head, "space": space, "top_n": top_n} | means
                    )
        return table

    return head_table(measured, capture, capture.length, spaces, unit=unit)


def _sums(
    weights: torch.Tensor,
    rank: torch.Tensor,
    visible: torch.Tensor,
    gram: torch.Tensor,
    top_ns: Sequence[int],
) -> torch.Tensor:
    """Sums over a block's rows with n > N of precision, recall, F, mass and one: (number of N, 5)."""
    sizes = torch.tensor(top_ns, device=weights.device)[:, None, None]
    chosen = rank < sizes
    others = ~chosen & kernels.columns_seen(weights, visible)
    selected = weights * chosen
    # |y_i - s|^2 - |s|^2: the same order as the distances, and the digits of small weights survive.
    near = weights**2 * gram.diagonal() - 2 * weights * (selected @ gram)
    farthest = near.masked_fill(~chosen, -torch.inf).amax(2, keepdim=True)
    nearest_other = near.masked_fill(~others, torch.inf).amin(2, keepdim=True)
    inside = ((near <= farthest) & others).sum(2).to(weights)
    told = ((near < nearest_other) & chosen).sum(2).to(weights)
    precision, recall = sizes[..., 0] / (sizes[..., 0] + inside), told / sizes[..., 0]
    f = 2 * precision * recall / (precision + recall)
    values = torch.stack([precision, recall, f, selected.sum(2), torch.ones_like(f)], dim=2)
    return (values * (visible > sizes[..., 0])[..., None]).sum(1)
