"""Lemma 1 and Corollary 1 on a captured model: how the weights of every head change with the length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from attention_limits import kernels
from attention_limits.capture import Capture

from .heads import TOLERANCE, Floats, Head, check_numbers, heads, logit_blocks

_TINY = 1e-300  # weights below are taken as this, so that their logarithm exists
_SMALLEST_NORMAL = np.finfo(float).tiny


def weight_scaling(capture: Capture, *, lengths: Sequence[int]) -> pd.DataFrame:
    """Extremes, entropy and bounds of the weights at context lengths L, for every head.

    "At length L" means averaged over the rows with n in (L/2, L] visible keys: the same shape of average at every L, so
    that a power of n shows as that power of L.

    Columns: layer, head, length; ``largest``, ``median``, ``smallest`` weight (geometric means); ``entropy`` (nats),
    ``entropy_share`` (entropy / log n), ``support`` (exp entropy, tokens); ``first`` (weight on the first token);
    ``log_crossover``, 2D/T with D/T = |q| max |k| / T: beyond exp of it Corollary 1 bounds a weight below one;
    ``tightness``, exact upper extreme / largest weight (geometric mean); ``rows``; and ``violations``, rows outside the
    exact extremes or outside Corollary 1's bounds beyond rounding.
    """
    lengths = check_numbers("lengths", lengths, 2, capture.length, "tokens in the window")
    table = []
    for head in heads(capture, lengths[-1]):
        rows = _row_values(head)
        for length in lengths:
            part = rows[(rows.n > length // 2) & (rows.n <= length)]
            logs = part[["largest", "median", "smallest", "tightness"]].clip(lower=_TINY).apply(np.log)
            means = part[["entropy", "entropy_share", "support", "first", "log_crossover"]].mean()
            table.append(
                {"layer": head.layer, "head": head.head, "length": length}
                | np.exp(logs.mean()).to_dict()
                | means.to_dict()
                | {"rows": len(part), "violations": int(part.violated.sum())}
            )
    return pd.DataFrame(table)


def _row_values(head: Head) -> pd.DataFrame:
    """One line per row n of a head: what `weight_scaling` averages, and whether a bound is broken."""
    parts = []
    key_norms = _key_norms(head)
    for visible, logits in logit_blocks(head.source, head.head, head.length):
        weights = kernels.softmax_rows(logits, visible, 1.0)
        largest, median, smallest, entropy, spread = kernels.weight_rows(logits, weights, visible)
        query_norms = head.source.q[head.head, visible - 1].cpu().double().norm(dim=1).numpy()
        reach = query_norms * key_norms[visible - 1] * abs(head.source.scale)  # D / T
        # The exact extremes of a row whose logits spread over `spread` (Corollary 1, re-derived).
        upper = 1 / (1 + (visible - 1) * np.exp(-spread))
        with np.errstate(over="ignore"):
            lower = 1 / (1 + (visible - 1) * np.exp(spread))
            broad = (np.exp(-2 * reach) / visible, np.exp(2 * reach) / visible)
        # Below the smallest normal number the weight and its bounds have lost their digits: no verdict there.
        low = smallest * (1 + TOLERANCE) + _SMALLEST_NORMAL
        broken = (largest > np.minimum(upper, broad[1]) * (1 + TOLERANCE)) | (
            low < np.maximum(lower, broad[0])
        )
        parts.append(
            pd.DataFrame(
                {
                    "n": visible,
                    "largest": largest,
                    "median": median,
                    "smallest": smallest,
                    "tightness": upper / largest,
                    "entropy": entropy,
                    "entropy_share": entropy / np.log(np.maximum(visible, 2)),
                    "support": np.exp(entropy),
                    "first": weights[:, 0],
                    "log_crossover": 2 * reach,
                    "violated": broken,
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def _key_norms(head: Head) -> Floats:
    """max |k_i| over the first n keys, for n = 1..L."""
    keys = head.source.k[head.source.key_value_head(head.head), : head.length]
    return np.maximum.accumulate(keys.cpu().double().norm(dim=1).numpy())
