"""Algorithms 1 to 3: distance between the selected and the other tokens (Theorem 1), for every head."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from attention_limits import kernels
from attention_limits.capture import SPACES, Capture

from .heads import SUPPORTS, TOLERANCE, Floats, Integers, check_choice, check_numbers, heads, projections

_NUMBERS = ("d", "expected", "bound", "s_norm", "count_term", "mean_distance", "tightness")


def distances(
    capture: Capture,
    *,
    spaces: Sequence[str],
    supports: Sequence[str],
    lengths: Sequence[int],
    top_ns: Sequence[int],
    stride: int = 1,
) -> pd.DataFrame:
    """Algorithms 1 to 3: distance, its random-set expectation and its bound (Theorem 1) for every head.

    ``lengths`` are context lengths L up to the window's; since a causal model's first L tokens do not depend on later
    ones, one window serves them all. Rows with n <= N are left out of the averages (n = L under `full`).

    Columns: layer, head, space, support, length, top_n; then means over tokens of d (``d``), E_J (``expected``), the
    bound (``bound``), |s| (``s_norm``), (n-N)|s| (``count_term``), d/(n-N) (``mean_distance``) and bound/d over
    tokens with d > 0 (``tightness``); ``rows``, the tokens averaged; ``violations``, tokens with d above the bound,
    and ``sandwich_violations``, tokens outside the sandwich, both beyond rounding (``TOLERANCE``, relative).

    ``stride`` averages over the last of every ``stride`` tokens only. Raises ValueError for a reading, length or N that
    makes no sense.
    """
    check_choice("spaces", spaces, SPACES)
    check_choice("supports", supports, SUPPORTS)
    lengths = check_numbers("lengths", lengths, 2, capture.length, "tokens in the window")
    top_ns = check_numbers("top_ns", top_ns, 1, lengths[-1] - 1, "one token must stay unselected")
    totals = np.array(lengths if "full" in supports else [], dtype=np.int64)
    wanted = np.array(top_ns, dtype=np.int64)
    table = []
    for head in heads(capture, lengths[-1], spaces):
        found = {space: [] for space in spaces}
        seen = []
        for visible, weights in head.blocks(stride):
            seen.append(visible)
            order = kernels.top_rows(weights, visible, top_ns[-1])
            for space in spaces:
                gram = head.grams[space]
                ahead = projections(weights, gram, visible[-1])
                found[space].append(
                    kernels.distance_rows(weights, visible, order, wanted, totals, gram, ahead)
                )
        for space in spaces:
            key = {"layer": head.layer, "head": head.head, "space": space}
            rows = np.concatenate(found[space], axis=1)
            table += _averages(rows, np.concatenate(seen), key, supports, lengths, top_ns)
    return pd.DataFrame(table)


def _averages(
    found: Floats,
    visible: Integers,
    key: dict,
    supports: Sequence[str],
    lengths: Sequence[int],
    top_ns: Sequence[int],
) -> list[dict]:
    """Average the kernel's (5, R, 1 + M, N) output over tokens, one dict per support, length and N."""
    table = []
    for support in supports:
        for slot, length in enumerate(lengths):
            for column, top_n in enumerate(top_ns):
                # n - N, the number of unselected tokens of each row.
                terms = (visible if support == "causal" else np.full_like(visible, length)) - top_n
                kept = (terms > 0) & (visible <= length)
                if not kept.any():
                    continue
                d, expected, bound, s_norm, slack = found[
                    :, kept, 0 if support == "causal" else slot + 1, column
                ]
                terms = terms[kept]
                count_term = terms * s_norm
                means = (d, expected, bound, s_norm, count_term, d / terms, bound[d > 0] / d[d > 0])
                outside = np.abs(d - count_term) > slack + TOLERANCE * (d + count_term)
                table.append(
                    key
                    | {"support": support, "length": length, "top_n": top_n}
                    | {name: float(part.mean()) for name, part in zip(_NUMBERS, means, strict=True)}
                    | {
                        "rows": int(kept.sum()),
                        "violations": int((d > bound * (1 + TOLERANCE)).sum()),
                        "sandwich_violations": int(outside.sum()),
                    }
                )
    return table
