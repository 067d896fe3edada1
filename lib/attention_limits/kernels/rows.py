"""Softmax of a block of rows and of its shifted logits: one implementation for every device.

The exponential is what costs here, and PyTorch has a vectorised one on each device.
"""

from __future__ import annotations

import torch

_LOWEST = -690.0  # exp of it is 2e-300


def hide(logits: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
    """A copy of ``logits`` (R, L) with -infinity from column ``visible[r]`` on, so that no weight falls there."""
    return logits.masked_fill(_hidden(logits, visible), -torch.inf)


def softmax_rows(logits: torch.Tensor, visible: torch.Tensor, temperature: float) -> torch.Tensor:
    """softmax(logits / temperature) over the first ``visible[r]`` columns of each row, zeros after them.

    Weights below 2e-300 of the row's largest are that.
    logits: (R, L) float64; visible: (R,) int64; returns (R, L) float64.
    """
    hidden = _hidden(logits, visible)
    powers = _exponentials(logits.masked_fill(hidden, -torch.inf), temperature).masked_fill_(hidden, 0.0)
    return powers.mul_(1 / powers.sum(dim=1, keepdim=True))


def moved_rows(
    logits: torch.Tensor,
    weights: torch.Tensor,
    directions: torch.Tensor,
    temperature: float,
    epsilon: float,
) -> torch.Tensor:
    """g(T, eps) = |softmax((l + eps v) / T) - softmax(l / T)|_2 / eps on every row: (R,) float64  (Algorithm 5).

    logits: as `hide` returns them; weights: softmax(logits / T); directions: as `unit_rows` returns them.
    """
    powers = _exponentials(torch.add(logits, directions, alpha=epsilon), temperature)
    # What hidden columns hold, 2e-300, is lost in the sum and in the square.
    change = torch.addcmul(weights, powers, 1 / powers.sum(dim=1, keepdim=True), value=-1)
    return torch.linalg.vector_norm(change, dim=1) / epsilon


def unit_rows(directions: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
    """``directions`` (R, L), each row of length one over its first ``visible[r]`` columns, zeros after them."""
    seen = directions.masked_fill(_hidden(directions, visible), 0.0)
    return seen / torch.linalg.vector_norm(seen, dim=1, keepdim=True)


def _exponentials(scores: torch.Tensor, temperature: float) -> torch.Tensor:
    """exp((scores - max) / T) in the memory of ``scores``, never below 2e-300, which is what hidden columns get.

    A little lower lie the subnormal numbers, on which processors take a hundred times as long.
    """
    scores.sub_(scores.amax(dim=1, keepdim=True)).mul_(1 / temperature)
    return scores.clamp_(min=_LOWEST).exp_()


def _hidden(rows: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
    return torch.arange(rows.shape[1], device=rows.device) >= visible[:, None]
