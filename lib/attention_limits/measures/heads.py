"""Walking over the heads of a capture: logits and weights in blocks of rows, Gram matrices of the vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import psutil
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from attention_limits import kernels
from attention_limits.capture import Capture, Layer

SUPPORTS = ("causal", "full")
# A row violates an inequality only beyond this relative rounding; the kernels work in float64 (2e-16).
TOLERANCE = 1e-9

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Head:
    """One head of a window: its place, its layer's tensors, and x_i . x_j of each space, (L, L) float64."""

    layer: int
    head: int
    source: Layer
    grams: dict[str, Floats]
    length: int

    def blocks(self, stride: int = 1) -> Iterator[tuple[Integers, Floats]]:
        """Blocks of (visible, weights): keys that each row sees (B,), and its weights (B, L), zeros after those."""
        for visible, logits in logit_blocks(self.source, self.head, self.length, stride):
            yield visible, kernels.softmax_rows(logits, visible, 1.0)


def heads(capture: Capture, length: int, spaces: Sequence[str] = (), *, unit: bool = False) -> Iterator[Head]:
    """Every head in order, reading the first ``length`` tokens; progress is shown.

    Gram matrices are made once per set of vectors: per window, layer or key/value head. ``unit`` scales the vectors
    to length one first.
    """
    with tqdm(total=sum(layer.heads for layer in capture.layers), desc="heads", mininterval=5) as progress:
        grams: dict[str, Floats] = {}
        if "embedding" in spaces:
            grams["embedding"] = gram(capture.embedding[:length], unit)
        for index, layer in enumerate(capture.layers):
            if "hidden" in spaces:
                grams["hidden"] = gram(layer.hidden[:length], unit)
            for head in range(layer.heads):
                first_reader = head == 0 or layer.key_value_head(head) != layer.key_value_head(head - 1)
                if "value" in spaces and first_reader:
                    grams["value"] = gram(layer.v[layer.key_value_head(head), :length], unit)
                yield Head(index, head, layer, dict(grams), length)
                progress.update()


def logit_blocks(layer: Layer, head: int, length: int, stride: int = 1) -> Iterator[tuple[Integers, Floats]]:
    """The model's logits q.k * scale of one head in blocks of rows: (visible (B,) int64, logits (B, length) float64).

    ``visible`` is the number of keys a row sees; columns from there on mean nothing. ``stride`` keeps the
    last of every ``stride`` rows. A block is as large as an eighth of the free memory allows, and small enough that
    most of the triangle above the diagonal is not computed.
    """
    free = psutil.virtual_memory().available // 8
    # Three float64 arrays of a block are alive at a time (logits, weights, projections).
    size = int(np.clip(free // (24 * length), 1, max(length // (8 * stride), 16)))
    # float64, so that the size of a block does not show in the result.
    queries = layer.q[head, :length].cpu().double()
    keys = layer.k[layer.key_value_head(head), :length].cpu().double()
    rows = np.arange(stride - 1, length, stride)
    for start in range(0, len(rows), size):
        block = rows[start : start + size]
        stop = block[-1] + 1
        logits = torch.zeros(len(block), length, dtype=torch.float64)
        logits[:, :stop] = queries[block] @ keys[:stop].T * layer.scale
        yield block + 1, logits.numpy()


def gram(vectors: torch.Tensor, unit: bool = False) -> Floats:
    """x_i . x_j in float64, so that |x_i - x_j|^2 survives the subtraction; (L, d) -> (L, L).

    ``unit`` scales each vector to length one first; a zero vector stays zero.
    """
    vectors = vectors.cpu().double()
    if unit:
        vectors = torch.nn.functional.normalize(vectors, dim=1, eps=1e-300)
    return (vectors @ vectors.T).numpy()


def projections(weights: Floats, gram: Floats, stop: int) -> Floats:
    """x_i . sum_j alpha_j x_j for every row of a block whose weights end before column ``stop``; zeros from there."""
    out = np.zeros_like(weights)
    # torch's matrix product, so that one library owns the threads.
    seen = torch.from_numpy(weights)[:, :stop] @ torch.from_numpy(gram)[:stop, :stop]
    out[:, :stop] = seen.numpy()
    return out


def check_choice(name: str, chosen: Sequence[str], allowed: Sequence[str]) -> None:
    """Raise ValueError unless ``chosen`` is a non-empty list of values from ``allowed``."""
    if isinstance(chosen, str) or not chosen or not set(chosen) <= set(allowed):
        raise ValueError(f"{name} is {chosen!r}; it must be a list of values out of {', '.join(allowed)}")


def check_numbers(name: str, numbers: Sequence[int], low: int, high: int, why: str) -> list[int]:
    """``numbers`` sorted and each once; ValueError unless there is one and all lie in [low, high], ``why``."""
    numbers = sorted(set(numbers))
    if not numbers or numbers[0] < low or numbers[-1] > high:
        raise ValueError(
            f"{name} are {numbers}; there must be one or more, each from {low} to {high} ({why})"
        )
    return numbers
