"""Algorithm 5: how strongly the weights of every head react to their logits (Lemma 2, Corollary 3)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import torch

from attention_limits import kernels
from attention_limits.capture import Capture

from .heads import TOLERANCE, check_choice, check_positive, heads, logit_blocks

LOGITS = ("model", "raw")


def sensitivity(
    capture: Capture,
    *,
    logits: Sequence[str],
    temperatures: Sequence[float],
    epsilons: Sequence[float],
    seed: int,
    stride: int = 1,
) -> pd.DataFrame:
    """Algorithm 5 with exact Jacobian norms beside it, for every head of a whole window.

    ``logits``: `model` (q.k * scale, T = 1 is the model itself) or `raw` (q.k, so that T = 1/scale is). For each row
    one direction v, uniform on the unit sphere, is drawn from ``seed`` and kept for every temperature and eps. Rows
    with one key are left out; ``stride`` keeps the last of every ``stride`` rows.

    Columns: layer, head, logits, temperature, epsilon; means over tokens of g(T, eps) (``g``), |J|_2 (``spectral``),
    |J|_F (``frobenius``), |J|_F / sqrt(n) (``direction_rms``: what a random direction sees as eps -> 0) and of the
    bound max 2 a (1-a) / T (``row_bound``); ``rows``; ``violations``: rows where g > min{1/(2T), sqrt 2 / eps}, or
    |J|_2 > row bound, or |J|_F > 1/(2T), beyond rounding; ``printed_violations``: rows where
    |J|_2 > min{1/(4T), sqrt 2}, the bound as printed.
    """
    check_choice("logits", logits, LOGITS)
    check_positive("temperatures", temperatures)
    check_positive("epsilons", epsilons)
    table = []
    for head in heads(capture, capture.length):
        rng = np.random.default_rng([seed, head.layer, head.head])
        sums: dict[tuple, torch.Tensor] = {}
        for visible, own in logit_blocks(head.source, head.head, head.length, stride):
            # Drawn on the CPU, so that every device sees the same directions.
            directions = torch.from_numpy(rng.standard_normal(own.shape)).to(own.device)
            kept = visible > 1
            # Columns that no row of the block sees are left out.
            stop = int(visible[-1])
            visible, own, directions = visible[kept], own[kept, :stop], directions[kept, :stop]
            directions = kernels.unit_rows(directions, visible)
            for kind in logits:
                scores = own if kind == "model" else own / head.source.scale
                for temperature in temperatures:
                    for epsilon, totals in _block(scores, directions, visible, temperature, epsilons):
                        key = (kind, temperature, epsilon)
                        sums[key] = sums.get(key, 0) + totals
        for (kind, temperature, epsilon), total in sums.items():
            total = total.cpu()
            names = ("g", "spectral", "frobenius", "direction_rms", "row_bound")
            table.append(
                {"layer": head.layer, "head": head.head, "logits": kind}
                | {"temperature": temperature, "epsilon": epsilon}
                | dict(zip(names, (total[:5] / total[5]).tolist(), strict=True))
                | {"rows": int(total[5]), "violations": int(total[6]), "printed_violations": int(total[7])}
            )
    return pd.DataFrame(table)


def _block(
    scores: torch.Tensor,
    directions: torch.Tensor,
    visible: torch.Tensor,
    temperature: float,
    epsilons: Sequence[float],
) -> Iterator[tuple[float, torch.Tensor]]:
    """Sums over the rows of a block, per eps: five numbers, the rows, and both counts of violations, (8,) float64."""
    weights = kernels.softmax_rows(scores, visible, temperature)
    norms = kernels.gradient_rows(weights, visible) / temperature
    spectral, frobenius, corrected = norms
    most, slack = 0.5 / temperature, 1 + TOLERANCE
    over = (spectral > corrected * slack) | (frobenius > most * slack)
    printed = (spectral > min(0.25 / temperature, math.sqrt(2)) * slack).sum()
    sums = torch.stack((spectral, frobenius, frobenius / visible.double().sqrt(), corrected)).sum(dim=1)
    workspace = torch.empty_like(scores)
    for epsilon in epsilons:
        g = kernels.moved_rows(scores, weights, directions, visible, temperature, epsilon, workspace)
        # The difference of two weights near one carries 1e-16 / eps of rounding.
        broken = (over | (g > min(most, math.sqrt(2) / epsilon) * slack + 1e-15 / epsilon)).sum()
        counts = torch.stack((torch.full_like(broken, len(visible)), broken, printed))
        yield epsilon, torch.cat((g.sum()[None], sums, counts))
