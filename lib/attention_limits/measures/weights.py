"""Lemma 1 and Corollary 1 on a captured model: how the weights of every head change with the length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from attention_limits import kernels
from attention_limits.capture import Capture

from .heads import TINY, TOLERANCE, Head, check_numbers, head_table, logit_blocks, working


def weight_scaling(capture: Capture, *, lengths: Sequence[int]) -> pd.DataFrame:
    """Extremes, entropy and bounds of the weights at context lengths L, for every head.

    "At length L" means averaged over the rows with n in (L/2, L] visible keys. A power of n shows as that power of the
    same mean of n, the geometric one for weights; against L itself it is off by up to a tenth where L is small.

    Columns: layer, head, length; ``largest``, ``median``, ``smallest`` weight (geometric means); ``entropy`` (nats),
    ``entropy_share`` (entropy / log n), ``support`` (exp entropy, tokens); ``first`` (weight on the first token);
    ``log_crossover``, 2D/T with D/T = |q| max |k| / T: beyond exp of it Corollary 1 bounds a weight below one;
    ``tightness``, exact upper extreme / largest weight (geometric mean); ``rows``; and ``violations``, rows outside the
    exact extremes or outside Corollary 1's bounds beyond rounding.
    """
    lengths = check_numbers("lengths", lengths, 2, capture.length, "tokens in the window")

    def measured(head: Head) -> list[dict]:
        """The rows of one head."""
        table, rows = [], _row_values(head)
        for length in lengths:
            part = rows[(rows.n > length // 2) & (rows.n <= length)]
            logs = part[["largest", "median", "smallest", "tightness"]].clip(lower=TINY).apply(np.log)
            means = part[["entropy", "entropy_share", "support", "first", "log_crossover"]].mean()
            table.append(
                {"layer": head.layer, "head": head.head, "length": length}
                | np.exp(logs.mean()).to_dict()
                | means.to_dict()
                | {"rows": len(part), "violations": int(part.violated.sum())}
            )
        return table

    return head_table(measured, capture, lengths[-1])


def outside_extremes(
    largest: torch.Tensor,
    smallest: torch.Tensor,
    spread: torch.Tensor,
    visible: torch.Tensor,
    crossover: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The exact upper extreme of each row, and whether a weight of it breaks a bound beyond rounding; both (R,).

    Checked are the exact extremes 1 / (1 + (n - 1) exp(-+R/T)) (Corollary 1, re-derived) at the row's spread R/T of
    logits, and Corollary 1's exp(-+2D/T) / n, with 2D/T given as ``crossover``.
    """
    upper = 1 / (1 + (visible - 1) * (-spread).exp())
    lower = 1 / (1 + (visible - 1) * spread.exp())
    least, most = (-crossover).exp() / visible, crossover.exp() / visible
    # Below the smallest normal number the weight and its bounds have lost their digits: no verdict there.
    low = smallest * (1 + TOLERANCE) + torch.finfo(torch.float64).tiny
    above = largest > torch.minimum(upper, most) * (1 + TOLERANCE)
    return upper, above | (low < torch.maximum(lower, least))


def _row_values(head: Head) -> pd.DataFrame:
    """One line per row n of a head: what `weight_scaling` averages, and whether a bound is broken."""
    parts = []
    key_norms = _key_norms(head)
    for visible, logits in logit_blocks(head.source, head.head, head.length):
        weights = kernels.softmax_rows(logits, visible, 1.0)
        largest, median, smallest, entropy, spread = kernels.weight_rows(logits, weights, visible)
        query_norms = working(head.source.q[head.head])[visible - 1].norm(dim=1)
        crossover = 2 * query_norms * key_norms[visible - 1] * abs(head.source.scale)  # 2 D / T
        upper, broken = outside_extremes(largest, smallest, spread, visible, crossover)
        rows = {
            "n": visible,
            "largest": largest,
            "median": median,
            "smallest": smallest,
            "tightness": upper / largest,
            "entropy": entropy,
            "entropy_share": entropy / visible.clamp(min=2).double().log(),
            "support": entropy.exp(),
            "first": weights[:, 0],
            "log_crossover": crossover,
            "violated": broken,
        }
        parts.append(pd.DataFrame({name: part.cpu().numpy() for name, part in rows.items()}))
    return pd.concat(parts, ignore_index=True)


def _key_norms(head: Head) -> torch.Tensor:
    """max |k_i| over the first n keys, for n = 1..L."""
    keys = head.source.k[head.source.key_value_head(head.head), : head.length]
    return working(keys).norm(dim=1).cummax(dim=0).values
