"""What the health check reads off the heads of one captured window.

Torch in float64 on the capture's device, all rows of a head at once, and only the heads that are asked for: that is
what keeps a handful of heads cheap enough for a training loop. The definitions are those of :mod:`..measures`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd
import torch
from torch import Tensor

from attention_limits import kernels
from attention_limits.capture import Capture, Layer
from attention_limits.measures.heads import working

MASS = 0.9  # share of the weight that a suggested top-k keeps
SPARSE = 4  # d and E_J, which cost most and whose order hardly depends on the row, take every fourth row
_BLOCK = 2**22  # entries of the largest temporary array: 32 MiB in float64


@dataclass(frozen=True)
class Vectors:
    """The x_i of a head, (L, d) float64, their squared lengths (L,), and x_i scaled to length one (zero stays zero)."""

    x: Tensor
    squares: Tensor
    unit: Tensor

    @classmethod
    def of(cls, source: Tensor) -> Vectors:
        """From the captured float32."""
        x = working(source)
        squares = (x * x).sum(dim=1)
        return cls(x, squares, x / squares.sqrt().clamp(min=1e-300)[:, None])


def measure(
    seen: Capture, heads: Iterable[tuple[int, int]], *, top_n: int, space: str = "hidden", stride: int = 1
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Numbers of the chosen (layer, head) pairs at the window's length L, and their distances for many N.

    Averaged are the rows with n in (L/2, L] visible keys, the last of every ``stride`` counted from the end, so that
    "at this context length" means the same for every number. Needs 1 <= ``top_n`` <= L // 2.

    First table, a row per head: ``entropy`` (nats), ``entropy_share`` (entropy / log n), ``support`` (exp entropy,
    tokens), ``first`` (weight on the first token), ``largest`` weight, ``mass90`` (fewest tokens with 90 % of the
    weight) and ``mass90_half`` (the same over n in (L/4, L/2]), ``ratio`` (N_s/N at N = ``top_n``, unit vectors, as
    Algorithm 4), ``jacobian`` (|J|_2 at the model's own temperature, where T = 1 is the model), ``logit_sd`` (standard
    deviation of a row's logits), ``crossover`` (log10 of Corollary 1's crossover length exp(2D/T), D = |q| max |k|).

    Second table, a row per head and N of :func:`size_grid`: token means of ``d`` (Theorem 1) and of ``expected`` (E_J)
    over the rows with n > N, as Algorithm 3 compares them, on every fourth of the rows counted from the end.
    """
    rows = [rows_at(seen.length, stride), rows_at(seen.length // 2, max(1, stride // 2))]
    sizes = size_grid(seen.length, top_n)
    table, curves = [], []
    vectors: Vectors | None = None
    shared = None
    for layer, head in heads:
        part = seen.layers[layer]
        if vectors is None or seen.reads(space, layer, head) != shared:
            vectors, shared = Vectors.of(seen.vectors(space, layer, head)), seen.reads(space, layer, head)
        visible, shorter = (r.to(vectors.x.device) for r in rows)
        logits, weights = head_weights(part, head, visible)
        # Of equal weights the lower position comes first.
        ordered, order = weights.sort(dim=1, descending=True, stable=True)
        found = weight_numbers(logits, weights, ordered, visible)
        found["mass90_half"] = tokens_for(MASS, _ordered(head_weights(part, head, shorter)[1]))
        found["ratio"] = told_apart(weights, visible, order, vectors, top_n)
        found["crossover"] = log10_crossover(part, head, visible)
        key = {"layer": layer, "head": head}
        table.append(key | {name: float(values.double().mean()) for name, values in found.items()})
        few = torch.arange(len(visible) - 1, -1, -SPARSE, device=visible.device)
        d, expected = distances(weights[few], visible[few], order[few], vectors, sizes).tolist()
        curves += [
            key | {"top_n": n, "d": a, "expected": b} for n, a, b in zip(sizes, d, expected, strict=True)
        ]
    return pd.DataFrame(table), pd.DataFrame(curves)


def rows_at(length: int, stride: int) -> Tensor:
    """Visible keys n of the rows that stand for context length ``length``: every stride-th in (L/2, L], ascending."""
    return torch.arange(length, length // 2, -stride).flip(0)


def size_grid(length: int, top_n: int) -> list[int]:
    """N = 1, 2, 4, 8, ..., ``top_n``, and L - 1, the largest set that leaves a token out."""
    return sorted({2**power for power in range((length - 1).bit_length())} | {top_n, length - 1})


def head_weights(layer: Layer, head: int, visible: Tensor) -> tuple[Tensor, Tensor]:
    """Logits q.k * scale (-inf where masked) and softmax weights of some rows of a head: two (R, L) float64."""
    q, k = working(layer.q[head]), working(layer.k[layer.key_value_head(head)])
    stop = int(visible.max())
    logits = q[visible - 1] @ k[:stop].T * layer.scale
    logits.masked_fill_(~kernels.columns_seen(logits, visible), -torch.inf)
    return logits, logits.softmax(dim=1)


def weight_numbers(logits: Tensor, weights: Tensor, ordered: Tensor, visible: Tensor) -> dict[str, Tensor]:
    """What the weights alone say about each row, (R,) float64 each; ``ordered``: each row's weights, descending."""
    entropy = -torch.xlogy(weights, weights).sum(dim=1)
    seen = torch.isfinite(logits)
    mean = torch.where(seen, logits, 0.0).sum(dim=1) / visible
    spread = torch.where(seen, logits - mean[:, None], 0.0).square().sum(dim=1) / visible
    return {
        "entropy": entropy,
        "entropy_share": entropy / visible.double().log(),
        "support": entropy.exp(),
        "first": weights[:, 0],
        "largest": ordered[:, 0],
        "mass90": tokens_for(MASS, ordered),
        "jacobian": kernels.gradient_rows(weights, visible)[0],
        "logit_sd": spread.sqrt(),
    }


def tokens_for(share: float, ordered: Tensor) -> Tensor:
    """Fewest tokens of each row that hold ``share`` of the weight (beyond rounding): (R,) float64."""
    return 1.0 + (ordered.cumsum(dim=1) < share - 1e-12).sum(dim=1).double()


def log10_crossover(layer: Layer, head: int, visible: Tensor) -> Tensor:
    """log10 of exp(2D/T) with D/T = |q| max |k| * scale over the visible keys: (R,) float64."""
    q, k = working(layer.q[head]), working(layer.k[layer.key_value_head(head)])
    reach = k.norm(dim=1).cummax(dim=0).values[visible - 1] * q[visible - 1].norm(dim=1)
    return 2 * reach * abs(layer.scale) / math.log(10)


def told_apart(weights: Tensor, visible: Tensor, order: Tensor, vectors: Vectors, top_n: int) -> Tensor:
    """N_s/N of each row with n > N (Algorithm 4), for the vectors scaled to length one: (R,) float64.

    |y_i - s|^2 - |s|^2 is compared, as the compiled kernel does: next to |s|^2 light tokens would drown.
    """
    x = vectors.unit
    chosen = torch.zeros(order.shape, dtype=torch.bool, device=order.device).scatter_(
        1, order[:, :top_n], True
    )
    dots = torch.where(chosen, weights, 0.0) @ x @ x.T
    own = weights.square() * (vectors.squares > 0) - 2 * weights * dots  # |x_i| is one, or zero
    nearest = own.masked_fill(chosen | ~kernels.columns_seen(weights, visible), torch.inf).amin(dim=1)
    return ((own < nearest[:, None]) & chosen).sum(dim=1).double() / top_n


def distances(
    weights: Tensor, visible: Tensor, order: Tensor, vectors: Vectors, top_ns: Sequence[int]
) -> Tensor:
    """Token means of d and E_J (Theorem 1) for every N, each over the rows with n > N: (2, N) float64."""
    sizes = torch.tensor(top_ns, device=weights.device)[:, None]
    sums = torch.zeros(2, len(top_ns), dtype=torch.float64, device=weights.device)
    for rows in torch.arange(len(weights)).split(max(1, _BLOCK // (len(top_ns) * weights.shape[1]))):
        rows = rows.to(weights.device)
        n, w = visible[rows], weights[rows]
        kept = n > sizes
        d = torch.where(kept, _distance(w, n, order[rows], vectors, sizes), 0.0)
        expected = torch.where(kept, _expected(w, n, vectors, sizes), 0.0)
        sums += torch.stack([d.sum(dim=1), expected.sum(dim=1)])
    return sums / (visible > sizes).sum(dim=1)


def _distance(weights: Tensor, visible: Tensor, order: Tensor, vectors: Vectors, sizes: Tensor) -> Tensor:
    """d = sum over unselected of |y_i - s| for N sizes (N, 1) and R rows: (N, R), one matrix product for all N."""
    place = torch.empty_like(order).scatter_(
        1, order, torch.arange(order.shape[1], device=order.device).expand_as(order)
    )
    chosen = place < sizes[:, :, None]
    s = torch.where(chosen, weights, 0.0).flatten(0, 1) @ vectors.x
    dots = (s @ vectors.x.T).view(chosen.shape)
    # |y_i|^2 - 2 y_i.s + |s|^2; float64 keeps what this subtraction cancels.
    gaps = weights.square() * vectors.squares - 2 * weights * dots
    gaps += s.square().sum(dim=1).view(*chosen.shape[:2], 1)
    return (
        gaps.clamp_(min=0)
        .sqrt_()
        .masked_fill_(chosen | ~kernels.columns_seen(weights, visible), 0.0)
        .sum(dim=2)
    )


def _expected(weights: Tensor, visible: Tensor, vectors: Vectors, sizes: Tensor) -> Tensor:
    """E_J = (n - N)/n sum_i sqrt(m_i) (Theorem 1, re-derived) for N sizes (N, 1) and R rows: (N, R)."""
    square = weights.square() * vectors.squares  # |y_i|^2
    cross = weights * ((weights @ vectors.x) @ vectors.x.T)  # y_i . sum_j y_j
    q, total = square.sum(dim=1, keepdim=True), cross.sum(dim=1, keepdim=True)
    others, norm_others, q_others = cross - square, total - 2 * cross + square, q - square
    n = visible.double()
    one = sizes / (n - 1)
    two = torch.where(sizes > 1, one * (sizes - 1) / (n - 2).clamp(min=1), 0.0)
    one, two = one[:, :, None], two[:, :, None]
    moments = square - 2 * one * others + one * q_others + two * (norm_others - q_others)
    roots = (
        moments.clamp_(min=0).sqrt_().masked_fill_(~kernels.columns_seen(weights, visible), 0.0).sum(dim=2)
    )
    return (1 - sizes / n) * roots


def _ordered(weights: Tensor) -> Tensor:
    return weights.sort(dim=1, descending=True).values
