"""Controls for the measurements: the same model, or the same attention, without what training put into it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.nn.functional import normalize

from attention_limits.capture import Capture
from attention_limits.sources import Model, Provenance, pick_device


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
        """Random directions in the shape and type of ``tensor``."""
        drawn = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        return normalize(drawn, dim=-1).to(tensor)

    layers = tuple(replace(layer, hidden=like(layer.hidden), v=like(layer.v)) for layer in seen.layers)
    return replace(seen, embedding=like(seen.embedding), layers=layers)


# Architectures of about 124 million parameters: GPT-2's own, and Llama's parts (rotary positions, shared key/value
# heads) in the same size. What is not said here is the default of the library that builds them.
SHAPES: Mapping[str, Mapping[str, Any]] = {
    "gpt2": {"model_type": "gpt2"},
    "llama": {
        "model_type": "llama",
        "vocab_size": 50257,
        "num_hidden_layers": 12,
        "hidden_size": 768,
        "intermediate_size": 2048,
        "num_attention_heads": 12,
        "num_key_value_heads": 4,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    },
}


def untrained(shape: str, seed: int, *, tokenizer: Any = None, device: str = "auto", **changes: Any) -> Model:
    """A model of one of ``SHAPES`` with the random weights that training would begin with, in float32.

    ``changes`` overrides entries of its configuration. Without a ``tokenizer`` it reads token ids only; one with a
    smaller vocabulary than the model's may be lent to it. The weights depend on ``seed`` alone, not on the device.
    Raises ValueError for a shape that is not in ``SHAPES``.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    if shape not in SHAPES:
        raise ValueError(f"shape is {shape!r}; it must be one of {', '.join(SHAPES)}")
    config = AutoConfig.for_model(**{**SHAPES[shape], **changes})
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        module = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=torch.float32)
    where, name = pick_device(device), f"{shape} shape, random weights (seed {seed})"
    origin = "initialised here, not trained"
    provenance = Provenance("model", name, name, revision="", sha256="", size=0, licence="", origin=origin)
    return Model(module.eval().to(where), tokenizer, where, provenance)
