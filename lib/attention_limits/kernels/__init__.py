"""What is computed on the rows of one attention head, on the CPU and on accelerators.

Shapes: R rows of one head, L tokens in the window, K the largest N. ``visible[r]`` is the number of keys that row r
sees; its weights are zero from there on. ``gram`` is x_i.x_j for all tokens, (L, L). All tensors are float64 (positions
and counts int64) and on one device, and so are the results; ``wanted`` and ``totals`` may stay on the CPU. Every row is
worked on by itself, so the result does not depend on how rows are split over threads or blocks. Nothing holds more than
one head.

A function that walks down the sorted weights has two paths: :mod:`.compiled` (Numba) for tensors in main memory,
:mod:`.batched` (PyTorch, all rows of a block at once) for those on an accelerator.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import torch

from . import batched, compiled
from .columns import columns_seen

__all__ = [
    "columns_seen",
    "distance_rows",
    "geometry_rows",
    "gradient_rows",
    "moved_rows",
    "softmax_rows",
    "top_rows",
    "unit_rows",
    "weight_rows",
]

Tensor = torch.Tensor


def softmax_rows(logits: Tensor, visible: Tensor, temperature: float) -> Tensor:
    """softmax(logits / temperature) over the first ``visible[r]`` columns of each row, zeros after them: (R, L).

    Weights below 2e-300 of the row's largest are that.
    """
    return _run("softmax_rows", logits, visible, temperature)


def moved_rows(
    logits: Tensor,
    weights: Tensor,
    directions: Tensor,
    visible: Tensor,
    temperature: float,
    epsilon: float,
    workspace: Tensor,
) -> Tensor:
    """g(T, eps) = |softmax((l + eps v) / T) - softmax(l / T)|_2 / eps on every row: (R,)  (Algorithm 5).

    weights: softmax(logits / T); directions: as `unit_rows` returns them; ``workspace``: memory of the same shape to
    work in, since fresh memory for each call would cost as much as the arithmetic.
    """
    return _run("moved_rows", logits, weights, directions, visible, temperature, epsilon, workspace)


def unit_rows(directions: Tensor, visible: Tensor) -> Tensor:
    """``directions`` (R, L), each row of length one over its first ``visible[r]`` columns, zeros after them."""
    seen = directions.masked_fill(~columns_seen(directions, visible), 0.0)
    return seen / torch.linalg.vector_norm(seen, dim=1, keepdim=True)


def top_rows(weights: Tensor, visible: Tensor, count: int) -> Tensor:
    """Positions of the ``count`` largest of the first ``visible[r]`` weights of each row, largest first.

    Of equal weights the lower position comes first. Returns (R, count) int64; -1 where a row has fewer keys.
    """
    return _run("top_rows", weights, visible, count)


def distance_rows(
    weights: Tensor,
    visible: Tensor,
    order: Tensor,
    wanted: Tensor,
    totals: Tensor,
    gram: Tensor,
    projections: Tensor,
) -> Tensor:
    """Theorem 1 on every row, for every N in ``wanted`` (ascending), in one walk down the sorted weights.

    projections: (R, L), projections[r, i] = x_i . sum_j y_j for the visible i; order: (R, K >= max wanted) from
    `top_rows`; totals: (M,) ascending, the n of the `full` support, whose masked columns weigh 0. Returns
    (5, R, 1 + M, len(wanted)): d, E_J, the bound, |s| and sum over unselected of |y_i|, first for the `causal`
    support (n = visible), then for each total; NaN where n <= N or a total is below visible[r]. Relative error of d
    and E_J: 1e-7.
    """
    return _run("distance_rows", weights, visible, order, wanted, totals, gram, projections)


def geometry_rows(
    weights: Tensor,
    visible: Tensor,
    masked: Tensor,
    order: Tensor,
    wanted: Tensor,
    gram: Tensor,
    gaps: Tensor,
    dimension: int,
    flag_n: int,
) -> tuple[Tensor, Tensor]:
    """N_s/N and Theorem 2's bounds for every N in ``wanted`` (ascending), in one walk down the sorted weights.

    gram: of vectors scaled to length one (M = 1); order as from `top_rows`; masked[k, r]: how many further tokens of
    weight zero row r counts under support k (0 for `causal`); gaps[k, r]: delta^2, the smallest |x_i - x_j|^2 among the
    tokens that it counts then; dimension: d of the vectors.

    Returns (values, flags). values: (supports, 6, R, len(wanted)): N_s/N, r, the Markov bound with xi_i, the Markov
    bound with sqrt(E Z_i^2), McDiarmid's upper bound, and how many selected tokens lie within 1e-6 of r; NaN where
    there is no unselected token. flags: (R, flag_n) bool, flags[r, i]: the i-th selected token is told apart under
    support 0 when N = flag_n. The comparison with r is made in float64.
    """
    return _run("geometry_rows", weights, visible, masked, order, wanted, gram, gaps, dimension, flag_n)


def gradient_rows(weights: Tensor, visible: Tensor) -> Tensor:
    """T times |J|_2, |J|_F and max_i 2 alpha_i (1 - alpha_i) of softmax weights: (3, R), 0 for one key."""
    return _run("gradient_rows", weights, visible)


def weight_rows(logits: Tensor, weights: Tensor, visible: Tensor) -> Tensor:
    """Extremes of every row: (5, R) with largest, median and smallest weight, entropy (nats), logit spread.

    weights: softmax(logits). The spread is max - min of the visible logits, R / T in the letters of Corollary 1.
    """
    return _run("weight_rows", logits, weights, visible)


def _path(device: torch.device) -> ModuleType:
    return compiled if device.type == "cpu" else batched


def _run(name: str, *arguments: Any) -> Any:
    """The function of that name in the path that fits the first tensor's device."""
    path = _path(arguments[0].device)
    if path is batched:
        return getattr(batched, name)(*arguments)
    plain = (part.numpy() if isinstance(part, Tensor) else part for part in arguments)
    found = getattr(compiled, name)(*plain)
    return torch.from_numpy(found) if isinstance(found, np.ndarray) else tuple(map(torch.from_numpy, found))
