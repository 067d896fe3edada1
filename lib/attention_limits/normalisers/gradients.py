"""The Jacobian's norm of every rule against temperature, on the same logits of every head of a window."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import torch

from attention_limits.capture import Capture
from attention_limits.measures.heads import TOLERANCE, Head, check_positive, head_table, logit_blocks

from .jacobians import spectral_norms
from .rules import Normaliser

STILL = 1e-3  # a row whose T |J|_2 is below does not react: a logit moved by T moves its weights by less than that


def sensitivity(
    capture: Capture,
    rules: Sequence[Normaliser],
    *,
    temperatures: Sequence[float],
    stride: int = 1,
) -> pd.DataFrame:
    """The Jacobian's spectral norm |J|_2 of every head and rule at each temperature, over rows with two or more keys.

    Columns: layer, head, normaliser, temperature; ``spectral`` (mean of |J|_2, per unit of the logits); ``worst``
    (largest T |J|_2); ``above``, rows with |J|_2 beyond 1/(2T), softmax's bound; ``beyond``, rows with |J|_2 beyond
    c sqrt(n) |alpha|_2 max alpha, which is Lemma 2 for F = exp(c l), c = 1/T (for SSMax its own s log(n)/T);
    ``still``, rows with T |J|_2 below 0.001; ``rows``; ``residual``, the largest of the power iteration (SA-Softmax).
    Raises ValueError for a temperature that is not above zero or a stride outside its range.
    """
    check_positive("temperatures", temperatures)

    def measured(head: Head) -> list[dict]:
        """The rows of one head."""
        table = []
        seen = list(logit_blocks(head.source, head.head, head.length, stride))
        visible, logits = (torch.cat(part) for part in zip(*seen, strict=True))
        visible, logits = visible[visible > 1], logits[visible > 1]
        for rule in rules:
            for temperature in temperatures:
                key = {"layer": head.layer, "head": head.head, "normaliser": rule.name}
                found = _norm_values(rule, logits, visible, temperature)
                table.append(key | {"temperature": temperature} | found)
        return table

    return head_table(measured, capture, capture.length)


def _norm_values(
    rule: Normaliser, logits: torch.Tensor, visible: torch.Tensor, temperature: float
) -> dict[str, float]:
    weights = rule.weights(logits, visible, temperature)
    norms, residual = spectral_norms(rule, logits, visible, temperature, weights)
    lemma_2 = rule.sharpness(visible, temperature) * visible.double().sqrt()
    lemma_2 = lemma_2 * torch.linalg.vector_norm(weights, dim=1) * weights.amax(1)
    slack = 1 + TOLERANCE
    return {
        "spectral": float(norms.mean()),
        "worst": float(norms.max()) * temperature,
        "above": int((norms > 0.5 / temperature * slack).sum()),
        "beyond": int((norms > lemma_2 * slack).sum()),
        "still": int((norms * temperature < STILL).sum()),
        "rows": len(visible),
        "residual": residual,
    }
