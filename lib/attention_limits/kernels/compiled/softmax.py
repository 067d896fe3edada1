"""Softmax of rows, and how far it moves with its logits.

The exponentials are PyTorch's, which takes several at a time; Numba's own come one by one.
"""

import numpy as np
import torch

from .jit import compiled, largest

# exp of it is 2e-300; a little lower lie the subnormal numbers, on which processors take a hundred times as long.
LOWEST = -690.0


def softmax_rows(logits, visible, temperature):
    """:func:`attention_limits.kernels.softmax_rows`."""
    powers = np.empty(logits.shape)
    _exponentials(logits, logits, visible, temperature, 0.0, powers)
    _normalise(powers, visible)
    return powers


def moved_rows(logits, weights, directions, visible, temperature, epsilon, workspace):
    """:func:`attention_limits.kernels.moved_rows`."""
    _exponentials(logits, directions, visible, temperature, epsilon, workspace)
    return _change(workspace, weights, visible) / epsilon


def _exponentials(logits, directions, visible, temperature, epsilon, powers):
    """exp((l + eps v - max) / T) into ``powers``, which holds ones from each row's visible columns on."""
    _exponents(logits, directions, visible, 1.0 / temperature, epsilon, powers)
    torch.from_numpy(powers).exp_()


@compiled
def _exponents(logits, directions, visible, inverse, epsilon, out):
    for r in range(len(logits)):
        n = visible[r]
        row = out[r, :n]
        _add(logits[r, :n], directions[r, :n], epsilon, row)
        _scale(row, largest(row), inverse)
        out[r, n:] = 0.0


# The loops below stand alone so that the compiler sees that their arrays do not overlap, and vectorises them.
@compiled
def _add(logits, directions, epsilon, row):
    for i in range(len(row)):
        row[i] = logits[i] + epsilon * directions[i]


@compiled
def _scale(row, top, inverse):
    for i in range(len(row)):
        exponent = (row[i] - top) * inverse
        row[i] = exponent if exponent > LOWEST else LOWEST


@compiled
def _normalise(powers, visible):
    for r in range(len(powers)):
        n = visible[r]
        powers[r, :n] /= _sum(powers[r, :n])
        powers[r, n:] = 0.0


@compiled
def _sum(powers):
    total = 0.0
    for i in range(len(powers)):
        total += powers[i]
    return total


@compiled
def _change(powers, weights, visible):
    out = np.empty(len(powers))
    for r in range(len(powers)):
        n = visible[r]
        out[r] = _distance(powers[r, :n], weights[r, :n])
    return out


@compiled
def _distance(powers, weights):
    """|p / sum p - w|_2, by the sum and division of `softmax_rows`: a row that does not move gives exactly zero."""
    total, squares = _sum(powers), 0.0
    for i in range(len(powers)):
        gap = powers[i] / total - weights[i]
        squares += gap * gap
    return np.sqrt(squares)
