"""Order, extremes and Jacobian norms of the rows of a block."""

from __future__ import annotations

import torch

from attention_limits.kernels.columns import columns_seen

Tensor = torch.Tensor


def top_rows(weights: Tensor, visible: Tensor, count: int) -> Tensor:
    """:func:`attention_limits.kernels.top_rows` by a stable sort."""
    ranked = weights.masked_fill(~columns_seen(weights, visible), -1.0)
    order = ranked.sort(dim=1, descending=True, stable=True).indices[:, :count]
    order = torch.nn.functional.pad(order, (0, count - order.shape[1]), value=-1)
    return order.masked_fill(torch.arange(count, device=weights.device) >= visible[:, None], -1)


def weight_rows(logits: Tensor, weights: Tensor, visible: Tensor) -> Tensor:
    """:func:`attention_limits.kernels.weight_rows`."""
    seen = columns_seen(weights, visible)
    ordered = weights.masked_fill(~seen, torch.inf).sort(dim=1).values
    middle = torch.stack(((visible - 1) // 2, visible // 2, visible - 1), dim=1)
    low, high, largest = ordered.gather(1, middle).unbind(dim=1)
    entropy = -torch.xlogy(weights, weights).sum(dim=1)
    top = logits.masked_fill(~seen, -torch.inf).amax(dim=1)
    spread = top - logits.masked_fill(~seen, torch.inf).amin(dim=1)
    return torch.stack((largest, 0.5 * (low + high), ordered[:, 0], entropy, spread))


def gradient_rows(weights: Tensor, visible: Tensor) -> Tensor:
    """:func:`attention_limits.kernels.gradient_rows`."""
    p, top = weights.max(dim=1, keepdim=True)
    others = weights.scatter(1, top, 0.0)
    second, rest = others.amax(dim=1, keepdim=True), others.sum(dim=1, keepdim=True)
    square = others.square().sum(dim=1, keepdim=True)
    own = (others * (1 - others)).square().sum(dim=1, keepdim=True)
    fourth = others.square().square().sum(dim=1, keepdim=True)
    corrected = torch.maximum(2 * p * rest, 2 * second * (1 - second))
    spectral = _largest_eigenvalue(others, p, rest, second, square, torch.minimum(p, corrected))
    frobenius = ((p * rest) ** 2 + own + 2 * p * p * square + (square * square - fourth).clamp(min=0)).sqrt()
    found = torch.stack((spectral, frobenius, corrected)).squeeze(2)
    return found.masked_fill(visible < 2, 0.0)


def _largest_eigenvalue(
    others: Tensor, p: Tensor, rest: Tensor, low: Tensor, square: Tensor, high: Tensor
) -> Tensor:
    """The iteration of the compiled path, on all rows until the last has settled or after 60 steps.

    Sixty are enough for bisection alone; no row is asked in between whether it has settled, which would wait for the
    device.
    """
    settled = high - low <= 1e-15 * high
    pole, end = low, low
    x = p * (rest + square / rest)
    x = torch.where((low < x) & (x < high), x, 0.5 * (low + high))
    for _ in range(60):
        part = others / (x - others)
        psi, slope = part.sum(dim=1, keepdim=True), (part / (x - others)).sum(dim=1, keepdim=True)
        gap = 1 / psi - 1 + x / p
        high, low = torch.where(gap > 0, x, high), torch.where(gap > 0, low, x)
        step = x - gap / (slope / (psi * psi) + 1 / p)
        step = torch.where((low <= step) & (step <= high), step, 0.5 * (low + high))
        now = ~settled & ((step - x).abs() <= 1e-8 * (x - pole))
        end = torch.where(now, step, end)
        settled = settled | now
        x = torch.where(settled, x, step)
    return torch.where(settled, end, x)
