"""Geometric precision, recall and F of the selected tokens (arXiv:2602.01893), and the weight that they carry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd
import torch

from attention_limits.capture import SPACES, Capture

from .heads import Head, check_choice, check_numbers, heads

_NUMBERS = ("precision", "recall", "f", "mass")


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
    last of every ``stride`` rows. An N without rows is left out. Raises ValueError for a space or N that makes no
    sense.
    """
    check_choice("spaces", spaces, SPACES)
    top_ns = check_numbers("top_ns", top_ns, 1, capture.length - 1, "one token must stay unselected")
    table = []
    for head in heads(capture, capture.length):
        sums: dict[tuple[str, int], torch.Tensor] = {}
        for space, top_n, values in _rows(capture, head, spaces, top_ns, stride, unit):
            total = torch.cat([values.sum(1), values.new_tensor([values.shape[1]])])
            sums[space, top_n] = sums.get((space, top_n), 0) + total
        for space in spaces:
            for top_n in top_ns:
                *totals, rows = sums[space, top_n].tolist() if (space, top_n) in sums else [0]
                if rows:
                    means = {name: total / rows for name, total in zip(_NUMBERS, totals, strict=True)}
                    key = {"layer": head.layer, "head": head.head, "space": space, "top_n": top_n}
                    table.append(key | means | {"rows": int(rows)})
    return pd.DataFrame(table)


def _rows(
    capture: Capture, head: Head, spaces: Sequence[str], top_ns: Sequence[int], stride: int, unit: bool
) -> Iterator[tuple[str, int, torch.Tensor]]:
    """Per block, space and N: precision, recall, F and mass of the block's rows with n > N, (4, rows)."""
    for visible, weights in head.blocks(stride):
        # Before and after the move of the kernels to torch.
        visible, weights = torch.as_tensor(visible), torch.as_tensor(weights)
        seen = torch.arange(weights.shape[1], device=weights.device) < visible[:, None]
        # Columns after the visible ones are zero: a stable sort leaves them behind a visible weight of zero.
        order = weights.sort(dim=1, descending=True, stable=True).indices
        for space in spaces:
            x = capture.vectors(space, head.layer, head.head).to(weights)
            if unit:
                x = torch.nn.functional.normalize(x, dim=1, eps=1e-300)
            for top_n in top_ns:
                kept = visible > top_n
                if kept.any():
                    chosen = torch.zeros_like(seen).scatter_(1, order[:, :top_n], True)
                    yield space, top_n, _scores(weights[kept], chosen[kept], seen[kept], x, top_n)


def _scores(weights, chosen, seen, x, top_n: int) -> torch.Tensor:
    selected = weights * chosen
    s = selected @ x
    # |y_i - s|^2 - |s|^2: the same order as the distances, and the digits of small weights survive.
    near = weights**2 * (x**2).sum(1) - 2 * weights * (s @ x.T)
    farthest = near.masked_fill(~chosen, -torch.inf).amax(1, keepdim=True)
    nearest_other = near.masked_fill(chosen | ~seen, torch.inf).amin(1, keepdim=True)
    inside = (near <= farthest) & seen & ~chosen
    precision = top_n / (top_n + inside.sum(1).to(weights))
    recall = ((near < nearest_other) & chosen).sum(1).to(weights) / top_n
    f = 2 * precision * recall / (precision + recall)
    return torch.stack([precision, recall, f, selected.sum(1)])
