"""What the paper's algorithms count on a captured model, for every head and every token.

Each function takes one :class:`~attention_limits.capture.Capture` (one window of text) and returns a tidy
:class:`pandas.DataFrame`: a row per layer, head and reading, its numbers averaged over the tokens of the window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import psutil
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from attention_limits import kernels
from attention_limits.capture import SPACES, Capture, Layer

SUPPORTS = ("causal", "full")
# A row violates an inequality only beyond this relative rounding; the kernels work in float64 (2e-16).
TOLERANCE = 1e-9
_NUMBERS = ("d", "expected", "bound", "s_norm", "count_term", "mean_distance", "tightness")


def distances(
    capture: Capture,
    *,
    spaces: Sequence[str],
    supports: Sequence[str],
    lengths: Sequence[int],
    top_ns: Sequence[int],
) -> pd.DataFrame:
    """Algorithms 1 and 2: distance, its random-set expectation and its bound (Theorem 1) for every head.

    ``lengths`` are context lengths L up to the window's; since a causal model's first L tokens do not depend on later
    ones, one window serves them all. Rows with n <= N are left out of the averages (n = L under `full`).

    Columns: layer, head, space, support, length, top_n; then means over tokens of d (``d``), E_J (``expected``), the
    bound (``bound``), |s| (``s_norm``), (n-N)|s| (``count_term``), d/(n-N) (``mean_distance``) and bound/d over
    tokens with d > 0 (``tightness``); ``rows``, the tokens averaged; ``violations``, tokens with d above the bound,
    and ``sandwich_violations``, tokens outside the sandwich, both beyond rounding (``TOLERANCE``, relative).

    Raises ValueError for a reading, length or N that makes no sense.
    """
    lengths, top_ns = sorted(set(lengths)), sorted(set(top_ns))
    check_choice("spaces", spaces, SPACES)
    check_choice("supports", supports, SUPPORTS)
    if not lengths or lengths[0] < 2 or lengths[-1] > capture.length:
        raise ValueError(
            f"lengths are {lengths}; each must be from 2 to the window's {capture.length} tokens"
        )
    if not top_ns or top_ns[0] < 1 or top_ns[0] >= lengths[0]:
        raise ValueError(
            f"top_ns are {top_ns}; the smallest must be at least 1 and below the shortest length {lengths[0]}"
        )
    totals = np.array(lengths if "full" in supports else [], dtype=np.int64)
    wanted = np.array(top_ns, dtype=np.int64)
    table = []
    for layer, head, blocks, grams in _heads(capture, spaces, max(lengths)):
        found = {space: [] for space in spaces}
        for start, weights in blocks:
            visible = np.arange(start + 1, start + 1 + len(weights))
            order = kernels.top_rows(weights, visible, int(wanted[-1]))
            for space in spaces:
                projections = _projections(weights, grams[space], start + len(weights))
                found[space].append(
                    kernels.distance_rows(weights, visible, order, wanted, totals, grams[space], projections)
                )
        for space in spaces:
            key = {"layer": layer, "head": head, "space": space}
            table += _distance_rows(np.concatenate(found[space], axis=1), key, supports, lengths, top_ns)
    return pd.DataFrame(table)


def _distance_rows(
    found: NDArray[np.float64],
    key: dict,
    supports: Sequence[str],
    lengths: Sequence[int],
    top_ns: Sequence[int],
) -> list[dict]:
    """Average the kernel's (5, R, 1 + M, N) output over tokens, one dict per support, length and N."""
    table = []
    for support in supports:
        for slot, length in enumerate(lengths):
            for column, top_n in enumerate(top_ns):
                d, expected, bound, s_norm, slack = found[
                    :, :length, 0 if support == "causal" else slot + 1, column
                ]
                # n - N, the number of unselected tokens of each row.
                terms = (np.arange(1, length + 1) if support == "causal" else np.full(length, length)) - top_n
                kept = terms > 0
                if not kept.any():
                    continue
                d, expected, bound, s_norm, slack, terms = (
                    part[kept] for part in (d, expected, bound, s_norm, slack, terms)
                )
                count_term = terms * s_norm
                means = (d, expected, bound, s_norm, count_term, d / terms, bound[d > 0] / d[d > 0])
                outside = np.abs(d - count_term) > slack + TOLERANCE * (d + count_term)
                table.append(
                    key
                    | {"support": support, "length": length, "top_n": top_n}
                    | {name: float(part.mean()) for name, part in zip(_NUMBERS, means, strict=True)}
                    | {
                        "rows": int(kept.sum()),
                        "violations": int((d > bound * (1 + TOLERANCE)).sum()),
                        "sandwich_violations": int(outside.sum()),
                    }
                )
    return table


def check_choice(name: str, chosen: Sequence[str], allowed: Sequence[str]) -> None:
    """Raise ValueError unless ``chosen`` is a non-empty list of values from ``allowed``."""
    if isinstance(chosen, str) or not chosen or not set(chosen) <= set(allowed):
        raise ValueError(f"{name} is {chosen!r}; it must be a list of values out of {', '.join(allowed)}")


def _heads(capture: Capture, spaces: Sequence[str], length: int) -> Iterator[tuple]:
    """Every head's (layer, head, iterator over blocks of weights, Gram matrix of each space), with progress shown."""
    with tqdm(total=sum(layer.heads for layer in capture.layers), desc="heads", mininterval=5) as progress:
        embedding = _gram(capture.embedding[:length]) if "embedding" in spaces else None
        for index, layer in enumerate(capture.layers):
            hidden = _gram(layer.hidden[:length]) if "hidden" in spaces else None
            value, value_head = None, -1
            for head in range(layer.heads):
                if "value" in spaces and value_head != layer.key_value_head(head):
                    value_head = layer.key_value_head(head)
                    value = _gram(layer.v[value_head, :length])
                grams = {"hidden": hidden, "embedding": embedding, "value": value}
                yield index, head, weight_blocks(layer, head, length), grams
                progress.update()


def weight_blocks(
    layer: Layer, head: int, length: int, temperature: float = 1.0
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Attention weights of one head in blocks of rows: (first row, (B, length) float64), zeros right of the diagonal.

    ``temperature`` divides the model's own logits q.k * scale (1 is the model itself). A block is as large as an
    eighth of the free memory allows, and small enough that the triangle above the diagonal is not computed.
    """
    free = psutil.virtual_memory().available // 8
    # Three float64 arrays of a block are alive at a time (weights, projections, a copy).
    size = int(np.clip(free // (24 * length), 1, max(length // 8, 16)))
    # float64, so that the size of a block does not show in the result.
    keys = layer.k[layer.key_value_head(head), :length].cpu().double()
    for start in range(0, length, size):
        stop = min(start + size, length)
        logits = torch.zeros(stop - start, length, dtype=torch.float64)
        logits[:, :stop] = layer.q[head, start:stop].cpu().double() @ keys[:stop].T * layer.scale
        yield start, kernels.softmax_rows(logits.numpy(), np.arange(start + 1, stop + 1), temperature)


def _gram(vectors: torch.Tensor) -> NDArray[np.float64]:
    """x_i . x_j in float64, so that |x_i - x_j|^2 survives the subtraction; (L, d) -> (L, L)."""
    vectors = vectors.cpu().double()
    return (vectors @ vectors.T).numpy()


def _projections(weights: NDArray[np.float64], gram: NDArray[np.float64], stop: int) -> NDArray[np.float64]:
    """x_i . sum_j alpha_j x_j for every row of a block whose weights end before column ``stop``; zeros from there."""
    out = np.zeros_like(weights)
    # torch's matrix product, so that one library owns the threads.
    seen = torch.from_numpy(weights)[:, :stop] @ torch.from_numpy(gram)[:stop, :stop]
    out[:, :stop] = seen.numpy()
    return out
