"""Algorithm 5: how strongly the weights of every head react to their logits (Lemma 2, Corollary 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd
import torch

from attention_limits import kernels
from attention_limits.capture import Capture

from .heads import TOLERANCE, Head, check_choice, check_positive, head_table, logit_blocks

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

    def measured(head: Head) -> list[dict]:
        """The rows of one head."""
        rng = np.random.default_rng([seed, head.layer, head.head])
        sums = torch.zeros(len(logits), len(temperatures), len(epsilons), 8, dtype=torch.float64)
        for visible, own in logit_blocks(head.source, head.head, head.length, stride):
            # Drawn on the CPU, so that every device sees the same directions.
            directions = torch.from_numpy(rng.standard_normal(own.shape)).to(own.device)
            kept = visible > 1
            # Columns that no row of the block sees are left out.
            stop = int(visible[-1])
            visible, own, directions = visible[kept], own[kept, :stop], directions[kept, :stop]
            directions = kernels.unit_rows(directions, visible)
            for place, kind in enumerate(logits):
                scores = own if kind == "model" else own / head.source.scale
                sums[place] += _block(scores, directions, visible, temperatures, epsilons).cpu()
        names = ("g", "spectral", "frobenius", "direction_rms", "row_bound")
        found = sums.flatten(0, 2).tolist()
        return [
            {"layer": head.layer, "head": head.head, "logits": kind}
            | {"temperature": temperature, "epsilon": epsilon}
            | {name: value / total[5] for name, value in zip(names, total[:5], strict=True)}
            | {"rows": int(total[5]), "violations": int(total[6]), "printed_violations": int(total[7])}
            for (kind, temperature, epsilon), total in zip(
                product(logits, temperatures, epsilons), found, strict=True
            )
        ]

    return head_table(measured, capture, capture.length)


def _block(
    scores: torch.Tensor,
    directions: torch.Tensor,
    visible: torch.Tensor,
    temperatures: Sequence[float],
    epsilons: Sequence[float],
) -> torch.Tensor:
    """Sums over a block's rows for each T and eps: five numbers, the rows, both counts of violations; (T, eps, 8)."""
    workspace, norms, moved = torch.empty_like(scores), [], []
    for t in temperatures:
        weights = kernels.softmax_rows(scores, visible, t)
        norms.append(kernels.gradient_rows(weights, visible) / t)
        moved += [
            kernels.moved_rows(scores, weights, directions, visible, t, epsilon, workspace)
            for epsilon in epsilons
        ]
    g = torch.stack(moved).unflatten(0, (len(temperatures), len(epsilons)))  # (T, eps, R)
    spectral, frobenius, corrected = torch.stack(norms, dim=1)[:, :, None]  # (T, 1, R) each
    eps, temperature = g.new_tensor(epsilons)[:, None], g.new_tensor(temperatures)[:, None, None]
    most, slack = 0.5 / temperature, 1 + TOLERANCE
    # The difference of two weights near one carries 1e-16 / eps of rounding.
    broken = g > torch.minimum(most, math.sqrt(2) / eps) * slack + 1e-15 / eps
    broken |= (spectral > corrected * slack) | (frobenius > most * slack)
    printed = spectral > (0.25 / temperature).clamp(max=math.sqrt(2)) * slack
    rms = frobenius / visible.double().sqrt()
    numbers = (g, spectral, frobenius, rms, corrected, torch.ones_like(g), broken, printed)
    return torch.stack([part.double().expand_as(g).sum(dim=2) for part in numbers], dim=2)
