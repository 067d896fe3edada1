"""Softmax of the rows of a block, and how far it moves with its logits."""

from __future__ import annotations

import torch

from attention_limits.kernels.columns import columns_seen
from attention_limits.kernels.compiled.softmax import LOWEST

Tensor = torch.Tensor


def softmax_rows(logits: Tensor, visible: Tensor, temperature: float) -> Tensor:
    """:func:`attention_limits.kernels.softmax_rows`."""
    hidden = ~columns_seen(logits, visible)
    powers = _exponentials(logits.masked_fill(hidden, -torch.inf), temperature).masked_fill_(hidden, 0.0)
    return powers.div_(powers.sum(dim=1, keepdim=True))


def moved_rows(
    logits: Tensor,
    weights: Tensor,
    directions: Tensor,
    visible: Tensor,
    temperature: float,
    epsilon: float,
    workspace: Tensor,
) -> Tensor:
    """:func:`attention_limits.kernels.moved_rows`."""
    scores = torch.add(logits, directions, alpha=epsilon, out=workspace)
    powers = _exponentials(scores.masked_fill_(~columns_seen(logits, visible), -torch.inf), temperature)
    # What hidden columns hold, 2e-300, is lost in the sum and in the square.
    change = powers.div_(powers.sum(dim=1, keepdim=True)).sub_(weights)
    return torch.linalg.vector_norm(change, dim=1) / epsilon


def _exponentials(scores: Tensor, temperature: float) -> Tensor:
    """exp((scores - max) / T) in the memory of ``scores``, cut off below at the lowest exponent."""
    scores.sub_(scores.amax(dim=1, keepdim=True)).mul_(1 / temperature)
    return scores.clamp_(min=LOWEST).exp_()
