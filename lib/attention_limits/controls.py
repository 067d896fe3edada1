"""Controls for the measurements: the same model, or the same attention, without what training put into it."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from torch.nn.functional import normalize

from attention_limits.capture import Capture
from attention_limits.sources import Model


def shuffled(model: Model, seed: int) -> Model:
    """A copy of ``model`` with the entries of every weight matrix, embeddings included, permuted at random.

    Each matrix keeps its size and the distribution of its entries; what it computes is gone. Vectors (biases, the
    gains of normalisation layers) stay, since their entries belong to single coordinates. Tied matrices stay tied.
    What a measurement gives on this copy is counting; what it gives on top of that on ``model`` is training.
    The permutation depends on ``seed`` alone, not on the device. The name says what was done.
    """
    module = copy.deepcopy(model.module)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim >= 2:
                order = torch.randperm(parameter.numel(), generator=generator).to(parameter.device)
                parameter.copy_(parameter.flatten()[order].view_as(parameter))
    provenance = replace(model.provenance, name=f"{model.provenance.name}, weights shuffled (seed {seed})")
    return replace(model, module=module, provenance=provenance)


def random_directions(seen: Capture, seed: int) -> Capture:
    """``seen`` with the same queries and keys, and every vector x_i replaced by an independent random direction.

    Layer inputs, values and embeddings become independent draws, uniform on the unit sphere of their dimension: exactly
    Assumption 1 of Theorem 2 with the model's own weights. Vectors that heads share stay shared. float32, drawn in
    float64 from ``seed`` alone.
    """
    generator = torch.Generator().manual_seed(seed)

    def like(tensor: torch.Tensor) -> torch.Tensor:
        drawn = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        return normalize(drawn, dim=-1).to(tensor)

    layers = tuple(replace(layer, hidden=like(layer.hidden), v=like(layer.v)) for layer in seen.layers)
    return replace(seen, embedding=like(seen.embedding), layers=layers)
