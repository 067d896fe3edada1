"""Algorithm 4: how many of the selected tokens can be told apart (Theorem 2), and by how many heads together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attention_limits import kernels
from attention_limits.capture import SPACES, Capture

from .heads import SUPPORTS, TOLERANCE, Floats, Head, check_choice, check_numbers, heads

_NUMBERS = ("ratio", "r", "lower", "lower_sharp", "upper")


def separability(
    capture: Capture,
    *,
    spaces: Sequence[str],
    supports: Sequence[str],
    top_ns: Sequence[int],
    group: int = 3,
    group_top_n: int = 16,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """N_s/N with Theorem 2's bounds for every head, and its union over groups of heads, for a whole window.

    Vectors are scaled to length one (M = 1), r is the distance of the nearest unselected token, S the top-N tokens.
    Rows with n <= N are left out.

    First table, per layer, head, space, support, top_n: means over tokens of N_s/N (``ratio``), ``r``, the Markov bound
    with xi_i (``lower``) and with sqrt(E Z_i^2) (``lower_sharp``), McDiarmid's bound (``upper``); ``near``, the share
    of selected tokens within 1e-6 of r; ``rows``; and ``violations``, rows with N_s/N below their own ``lower`` by more
    than 1e-9. That bound holds surely for each row; the two others are for the mean over random vectors at fixed r,
    while here r comes from the same vectors.

    Second table, per layer, space and group of ``group`` neighbouring heads (all heads of a layer that has fewer; heads
    left over at the end of a layer form no group), at N = ``group_top_n`` and the first support: ``union``, the share
    of tokens selected by a head of the group that a head that selected them tells apart; ``shared``, the same among
    tokens that all of them selected (NaN where there is none); ``independent``, 1 - prod (1 - p_h), what the heads' own
    ratios p_h would give for shared tokens were they independent.
    """
    check_choice("spaces", spaces, SPACES)
    check_choice("supports", supports, SUPPORTS)
    top_ns = check_numbers("top_ns", top_ns, 1, capture.length - 1, "one token must stay unselected")
    if group_top_n not in top_ns:
        raise ValueError(f"group_top_n is {group_top_n}; it must be one of top_ns, {top_ns}")
    wanted, table, unions = np.array(top_ns, dtype=np.int64), [], []
    members: dict[str, list[tuple[NDArray, NDArray]]] = {}
    gaps: dict[str, tuple[Floats, Floats]] = {}
    for head in heads(capture, capture.length, spaces, unit=True):
        if head.head == 0:
            members = {space: [] for space in spaces}
        for space in spaces:
            if space not in gaps or gaps[space][0] is not head.grams[space]:  # heads share vectors
                gaps[space] = head.grams[space], _smallest_gaps(head.grams[space])
        sizes = {space: capture.vectors(space, head.layer, head.head).shape[1] for space in spaces}
        smallest = {space: gaps[space][1] for space in spaces}
        order, found = _rows(head, supports, wanted, smallest, sizes, group_top_n)
        for space, (values, flags) in found.items():
            for kind, support in enumerate(supports):
                key = {"layer": head.layer, "head": head.head, "space": space, "support": support}
                table += _averages(values[kind], key, top_ns)
            members[space].append((order[:, :group_top_n], flags))
            size = min(group, head.source.heads)
            if len(members[space]) == size:
                key = {"layer": head.layer, "first_head": head.head - size + 1, "space": space}
                unions.append(key | _union(members[space], capture.length))
                members[space] = []
    return pd.DataFrame(table), pd.DataFrame(unions)


def _rows(
    head: Head,
    supports: Sequence[str],
    wanted: NDArray,
    gaps: dict[str, Floats],
    sizes: dict[str, int],
    flag_n: int,
) -> tuple[NDArray, dict[str, tuple[Floats, NDArray]]]:
    """All blocks of one head: order (L, K), and per space values (supports, 6, L, W) and flags (L, flag_n)."""
    orders: list[NDArray] = []
    parts: dict[str, list[tuple[Floats, NDArray]]] = {space: [] for space in sizes}
    full = np.array([support == "full" for support in supports])[:, None]
    for visible, weights in head.blocks():
        orders.append(kernels.top_rows(weights, visible, int(wanted[-1])))
        masked = np.where(full, head.length - visible, 0)
        for space, size in sizes.items():
            gap = np.where(full, gaps[space][-1], gaps[space][visible - 1])
            gram = head.grams[space]
            found = kernels.geometry_rows(
                weights, visible, masked, orders[-1], wanted, gram, gap, size, flag_n
            )
            parts[space].append(found)
    whole = {}
    for space, blocks in parts.items():
        values, flags = zip(*blocks, strict=True)
        whole[space] = np.concatenate(values, axis=2), np.concatenate(flags)
    return np.concatenate(orders), whole


def _averages(values: Floats, key: dict, top_ns: Sequence[int]) -> list[dict]:
    table = []
    for column, top_n in enumerate(top_ns):
        part = values[:, ~np.isnan(values[0, :, column]), column]
        if not part.shape[1]:
            continue
        means = dict(zip(_NUMBERS, part[:5].mean(axis=1).tolist(), strict=True))
        near = float(part[5].mean() / top_n)
        counts = {"rows": part.shape[1], "violations": int((part[0] < part[2] - TOLERANCE).sum())}
        table.append(key | {"top_n": top_n} | means | {"near": near} | counts)
    return table


def _smallest_gaps(gram: Floats) -> Floats:
    """delta^2 among the first n tokens, n = 1..L: the smallest |x_i - x_j|^2, infinity for n = 1."""
    squares = np.diag(gram)
    gaps = squares[:, None] + squares[None] - 2 * gram
    gaps[np.triu_indices(len(gram))] = np.inf
    return np.maximum(np.minimum.accumulate(gaps.min(axis=1)), 0.0)


def _union(members: list[tuple[NDArray, NDArray]], length: int) -> dict[str, float]:
    """Coverage by a group of heads over the rows where each has more than N keys; see `separability`."""
    top_n = members[0][0].shape[1]
    rows = np.arange(top_n, length)[:, None]  # n = row + 1 > N
    chosen = np.zeros((len(members), length, length), dtype=bool)
    told = np.zeros_like(chosen)
    for index, (order, flags) in enumerate(members):
        chosen[index, rows, order[top_n:]] = True
        told[index, rows, order[top_n:]] = flags[top_n:]
    some, shared = chosen.any(axis=0), chosen.all(axis=0)
    covered = told.any(axis=0)
    ratios = [flags[top_n:].mean() for _, flags in members]
    return {
        "union": float(covered[some].mean()),
        "shared": float(covered[shared].mean()) if shared.any() else float("nan"),
        "independent": float(1 - np.prod([1 - ratio for ratio in ratios])),
        "mean_ratio": float(np.mean(ratios)),
        "shared_tokens": int(shared.sum()),
    }
