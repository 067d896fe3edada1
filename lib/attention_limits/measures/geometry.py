"""Algorithm 4: how many of the selected tokens can be told apart (Theorem 2), and by how many heads together."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import torch

from attention_limits import kernels
from attention_limits.capture import SPACES, Capture

from .heads import SUPPORTS, TOLERANCE, Head, check_choice, check_numbers, each_head

_NUMBERS = ("ratio", "r", "lower", "lower_sharp", "upper")
_NO_RADIUS = 1e-7  # of vectors of length one: an r below is zero up to rounding, an unselected y where s is


def separability(
    capture: Capture,
    *,
    spaces: Sequence[str],
    supports: Sequence[str],
    top_ns: Sequence[int],
    group: int = 3,
    group_top_n: int = 16,
    stride: int = 1,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """N_s/N with Theorem 2's bounds for every head, and its union over groups of heads, for a whole window.

    Vectors are scaled to length one (M = 1), r is the distance of the nearest unselected token, S the top-N tokens.
    Rows with n <= N are left out; ``stride`` keeps the last of every ``stride`` tokens only.

    First table, per layer, head, space, support, top_n: means over tokens of N_s/N (``ratio``), ``r``, the Markov bound
    with xi_i (``lower``) and with sqrt(E Z_i^2) (``lower_sharp``), McDiarmid's bound (``upper``); ``near``, the share
    of selected tokens within 1e-6 of r; ``rows``; and ``violations``, rows with N_s/N below their own ``lower`` by more
    than 1e-9. That bound holds surely for each row with r > 0, here taken as r > 1e-7, beyond rounding; the two others
    are for the mean over random vectors at fixed r, while here r comes from the same vectors.

    Second table, per layer, space and group of ``group`` neighbouring heads (all heads of a layer that has fewer; heads
    left over at the end of a layer form no group), at N = ``group_top_n`` and the first support, over the rows with
    more than N keys: ``union``, the share of tokens selected by a head of the group that a head that selected them
    tells apart; ``shared``, the same among tokens that all of them selected (NaN where there is none);
    ``independent``, 1 - prod (1 - p_h), what the heads' own ratios p_h would give for shared tokens were they
    independent.
    """
    check_choice("spaces", spaces, SPACES)
    check_choice("supports", supports, SUPPORTS)
    top_ns = check_numbers("top_ns", top_ns, 1, capture.length - 1, "one token must stay unselected")
    if group_top_n not in top_ns:
        raise ValueError(f"group_top_n is {group_top_n}; it must be one of top_ns, {top_ns}")
    table, unions = [], []
    members: dict[str, list[tuple[torch.Tensor, torch.Tensor]]] = {}

    def measured(head: Head) -> tuple[Head, torch.Tensor, dict[str, tuple[torch.Tensor, torch.Tensor]]]:
        """One head with what `_rows` makes of it."""
        return head, *_rows(head, supports, top_ns, group_top_n, stride)

    for head, order, found in each_head(measured, capture, capture.length, spaces, unit=True, gaps=True):
        if head.head == 0:
            members = {space: [] for space in spaces}
        for space, (values, flags) in found.items():
            for kind, support in enumerate(supports):
                key = {"layer": head.layer, "head": head.head, "space": space, "support": support}
                table += _averages(values[kind], key, top_ns)
            more = group_top_n // stride  # the first row with n > N
            members[space].append((order[more:], flags[more:]))
            size = min(group, head.source.heads)
            if len(members[space]) == size:
                key = {"layer": head.layer, "first_head": head.head - size + 1, "space": space}
                unions.append(key | _union(members[space]))
                members[space] = []
    return pd.DataFrame(table), pd.DataFrame(unions)


def _rows(
    head: Head,
    supports: Sequence[str],
    top_ns: Sequence[int],
    flag_n: int,
    stride: int,
) -> tuple[torch.Tensor, dict[str, tuple[torch.Tensor, torch.Tensor]]]:
    """All blocks of one head: order (R, flag_n), and per space values (supports, 6, R, W) and flags (R, flag_n)."""
    orders: list[torch.Tensor] = []
    parts: dict[str, list[tuple[torch.Tensor, torch.Tensor]]] = {space: [] for space in head.grams}
    wanted = torch.tensor(top_ns)
    for visible, weights in head.blocks(stride, 6 * len(supports) * len(top_ns)):
        full = torch.tensor([support == "full" for support in supports], device=visible.device)[:, None]
        order = kernels.top_rows(weights, visible, top_ns[-1])
        orders.append(order[:, :flag_n])
        masked = torch.where(full, head.length - visible, 0)
        for space, gram in head.grams.items():
            smallest, size = head.gaps[space], head.vectors[space].shape[1]
            gap = torch.where(full, smallest[-1], smallest[visible - 1])
            found = kernels.geometry_rows(weights, visible, masked, order, wanted, gram, gap, size, flag_n)
            parts[space].append(found)
    whole = {}
    for space, blocks in parts.items():
        values, flags = zip(*blocks, strict=True)
        whole[space] = torch.cat(values, dim=2), torch.cat(flags)
    return torch.cat(orders), whole


def _averages(values: torch.Tensor, key: dict, top_ns: Sequence[int]) -> list[dict]:
    """Means over the rows of (6, R, W) that have an unselected token, one dict per N."""
    kept = ~values[0].isnan()
    rows = kept.sum(dim=0)
    means = (values.masked_fill(~kept, 0.0).sum(dim=1) / rows).cpu().numpy()
    broken = ((values[0] < values[2] - TOLERANCE) & (values[1] > _NO_RADIUS)).sum(dim=0).tolist()
    table = []
    for column, (top_n, count) in enumerate(zip(top_ns, rows.tolist(), strict=True)):
        if not count:
            continue
        numbers = dict(zip(_NUMBERS, means[:5, column].tolist(), strict=True))
        numbers |= {"near": float(means[5, column]) / top_n, "rows": count, "violations": broken[column]}
        table.append(key | {"top_n": top_n} | numbers)
    return table


def _union(members: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> dict[str, float]:
    """Coverage by a group of heads, each given by its selected positions and which of them it tells apart, both (R, N).

    See `separability`. A token that several heads selected appears several times in a row, and counts once.
    """
    tokens = torch.cat([order for order, _ in members], dim=1)
    told = torch.cat([flags for _, flags in members], dim=1)
    selected, covered, shared, shared_covered = 0.0, 0.0, 0, 0
    for some, flags in zip(tokens.split(1024), told.split(1024), strict=True):
        same = some[:, :, None] == some[:, None, :]
        times = same.sum(dim=2).double()
        found = (same & flags[:, None, :]).any(dim=2)
        selected += float((1 / times).sum())
        covered += float((found / times).sum())
        every = times == len(members)
        shared += int(every.sum()) // len(members)
        shared_covered += int((found & every).sum()) // len(members)
    ratios = torch.stack([flags.double().mean() for _, flags in members])
    return {
        "union": covered / selected if selected else float("nan"),
        "shared": shared_covered / shared if shared else float("nan"),
        "independent": float(1 - (1 - ratios).prod()),
        "mean_ratio": float(ratios.mean()),
        "shared_tokens": shared,
    }
