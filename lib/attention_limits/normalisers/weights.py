"""Weights, support, entropy and mass on the top N of every rule, on the same logits of every head of a window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from attention_limits.capture import Capture
from attention_limits.kernels import columns_seen
from attention_limits.measures.heads import TINY, TOLERANCE, Head, check_numbers, head_table, logit_blocks

from .rules import Normaliser


def scaling(
    capture: Capture,
    rules: Sequence[Normaliser],
    *,
    lengths: Sequence[int],
    top_ns: Sequence[int],
    stride: int = 1,
) -> pd.DataFrame:
    """Weights, support, entropy and mass on the top N of every head and rule at context lengths L, at T = 1.

    "At length L" means averaged over the measured rows with n in (L/2, L] keys; ``stride`` measures the last of every
    ``stride`` rows. Shares are of the row's total, which is below one for SA-Softmax only.

    Columns: layer, head, normaliser, length; ``keys`` and ``largest`` (geometric means of n and of the largest
    weight); ``entropy_share`` (entropy / log n, of the weights over their total); ``effective`` (exp entropy, tokens);
    ``support`` (weights above zero, tokens) and ``support_share`` (over n); ``total`` (sum of the weights); mass_N for
    each N of ``top_ns``; ``rows``; ``zeros``, rows with a weight of zero, which no C1 / L bounds from below;
    ``beyond``, rows whose largest weight is above 1 / (1 + (n - 1) exp(-R)), softmax's exact upper extreme at their
    spread R.

    Raises ValueError for a length or N outside its range, and where a stride leaves no row at a length.
    """
    lengths = check_numbers("lengths", lengths, 2, capture.length, "tokens in the window")
    top_ns = check_numbers("top_ns", top_ns, 1, lengths[-1], "tokens in the window")
    check_stride(stride, lengths[0])

    def measured(head: Head) -> list[dict]:
        """The rows of one head."""
        table = []
        for name, rows in _weight_values(head, rules, top_ns, stride).items():
            key = {"layer": head.layer, "head": head.head, "normaliser": name}
            table += [key | {"length": length} | _means(rows, length) for length in lengths]
        return table

    return head_table(measured, capture, lengths[-1])


def _weight_values(
    head: Head, rules: Sequence[Normaliser], top_ns: list[int], stride: int
) -> dict[str, dict[str, np.ndarray]]:
    """For each rule, what `scaling` averages: a name and one number per row with two or more keys."""
    parts: dict[str, list[dict[str, torch.Tensor]]] = {rule.name: [] for rule in rules}
    for visible, block in logit_blocks(head.source, head.head, head.length, stride):
        kept = visible > 1
        logits, visible = block[kept, : int(visible[-1])], visible[kept]
        if not len(visible):
            continue
        hidden = ~columns_seen(logits, visible)
        # No rule changes the order of the logits, so the top N are the same tokens under each.
        top, order = logits.masked_fill(hidden, -torch.inf).topk(min(top_ns[-1], logits.shape[1]), dim=1)
        spread = top[:, 0] - logits.masked_fill(hidden, torch.inf).amin(1)
        for rule in rules:
            weights = rule.weights(logits, visible)
            found = _row_values(rule, weights, visible, weights.gather(1, order).cumsum(1), top_ns)
            extreme = 1 / (1 + (visible - 1) * torch.exp(-spread))
            found["beyond"] = (found["largest"] > extreme * (1 + TOLERANCE)).double()
            parts[rule.name].append(found)
    return {
        name: {key: torch.cat([block[key] for block in blocks]).cpu().numpy() for key in blocks[0]}
        for name, blocks in parts.items()
    }


def _row_values(
    rule: Normaliser, weights: torch.Tensor, visible: torch.Tensor, masses: torch.Tensor, top_ns: list[int]
) -> dict[str, torch.Tensor]:
    """Numbers of each row, (R,); ``masses``: (R, K) weight on the top 1, 2, ..., K tokens."""
    total = weights.sum(1)
    safe = total.clamp(min=TINY)
    # -sum w log w / t + log t is the entropy of the weights w over their total t.
    entropy = (torch.special.entr(weights).sum(1) / safe + safe.log()).clamp(min=0)
    # The weights of an exponential rule are never zero, even where they are too small for float64.
    support = visible if rule.positive else (weights > 0).sum(1)
    found = {
        "n": visible,
        "largest": weights.amax(1),
        "entropy_share": entropy / visible.double().log(),
        "effective": entropy.exp(),
        "support": support.double(),
        "support_share": support.double() / visible,
        "total": total,
        "zeros": (support < visible).double(),
    }
    for top_n in top_ns:
        held = masses[:, min(top_n, masses.shape[1]) - 1]
        found[f"mass_{top_n}"] = held / safe
    return found


def _means(rows: dict[str, np.ndarray], length: int) -> dict[str, float]:
    """Averages over the rows with n in (length/2, length]; counts are summed."""
    kept = (rows["n"] > length // 2) & (rows["n"] <= length)
    part = {name: values[kept] for name, values in rows.items() if name != "n"}
    counts = {name: int(part.pop(name).sum()) for name in ("zeros", "beyond")}
    part["keys"] = rows["n"][kept]
    geometric = {
        name: float(np.exp(np.log(part.pop(name).clip(TINY)).mean())) for name in ("keys", "largest")
    }
    means = {name: float(values.mean()) for name, values in part.items()}
    return geometric | means | {"rows": int(kept.sum())} | counts


def check_stride(stride: int, shortest: int) -> None:
    """ValueError unless every range (L/2, L] has a row at this stride; ``shortest`` is the smallest L."""
    most = shortest - shortest // 2
    if not 1 <= stride <= most:
        raise ValueError(f"stride is {stride}; with the length {shortest} it must be from 1 to {most}")
