"""Walking over the heads of a capture: logits and weights in blocks of rows, Gram matrices of the vectors."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeVar

import numpy as np
import pandas as pd
import psutil
import torch
from tqdm import tqdm

from attention_limits import kernels
from attention_limits.capture import Capture, Layer

Result = TypeVar("Result")

SUPPORTS = ("causal", "full")
# A row violates an inequality only beyond this relative rounding; the kernels work in float64 (2e-16).
TOLERANCE = 1e-9
TINY = 1e-300  # weights below are taken as this, so that their logarithm exists


@dataclass(frozen=True)
class Head:
    """One head of a window: its place, its layer's tensors, and per space the vectors x_i (L, d) and x_i . x_j (L, L).

    ``gaps``, where asked for: delta^2 among the first n tokens, n = 1..L, the smallest |x_i - x_j|^2 (infinity for
    n = 1). All are float64 on the device of the capture.
    """

    layer: int
    head: int
    source: Layer
    vectors: dict[str, torch.Tensor]
    grams: dict[str, torch.Tensor]
    gaps: dict[str, torch.Tensor]
    length: int

    def blocks(self, stride: int = 1, extra: int = 0) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Blocks of (visible, weights): keys that each row sees (B,), and its weights (B, L), zeros after those.

        ``extra``: how many further float64 numbers per row the caller will hold, beside whole rows of weights.
        """
        for visible, logits in logit_blocks(self.source, self.head, self.length, stride, extra):
            yield visible, kernels.softmax_rows(logits, visible, 1.0)

    def projections(self, space: str, weights: torch.Tensor, stop: int) -> torch.Tensor:
        """x_i . sum_j alpha_j x_j for every row of a block, whose weights end before column ``stop``; then zeros."""
        vectors, out = self.vectors[space], torch.zeros_like(weights)
        if 2 * vectors.shape[1] < stop:  # through sum_j alpha_j x_j: less work where the vectors are short
            out[:, :stop] = weights[:, :stop] @ vectors[:stop] @ vectors[:stop].T
        else:
            out[:, :stop] = weights[:, :stop] @ self.grams[space][:stop, :stop]
        return out


def each_head(
    work: Callable[[Head], Result],
    capture: Capture,
    length: int,
    spaces: Sequence[str] = (),
    *,
    unit: bool = False,
    gaps: bool = False,
) -> Iterator[Result]:
    """What ``work`` makes of every head, in their order; it reads the first ``length`` tokens. Progress is shown.

    On the CPU as many heads are worked on at once as PyTorch has threads, each on one thread: starting and joining
    threads in every kernel would cost as much as the arithmetic. An accelerator takes one head after the other.
    ``unit`` scales the vectors to length one first; a zero vector stays zero. ``gaps`` fills `Head.gaps`.
    """
    if capture.embedding.device.type == "mps":  # it has no float64
        capture = capture.to("cpu")
    threads = torch.get_num_threads()
    with tqdm(total=sum(layer.heads for layer in capture.layers), desc="heads") as progress:
        todo = _heads(capture, length, spaces, unit, gaps)
        if capture.embedding.device.type != "cpu":
            for head in todo:
                yield work(head)
                progress.update()
            return
        torch.set_num_threads(1)
        try:
            with ThreadPoolExecutor(threads) as pool:
                # One ahead, so that no thread waits; each of them may hold Gram matrices of its own.
                begun = deque(pool.submit(work, head) for head in islice(todo, threads + 1))
                while begun:
                    yield begun.popleft().result()
                    progress.update()
                    begun.extend(pool.submit(work, head) for head in islice(todo, 1))
        finally:
            torch.set_num_threads(threads)


def head_table(
    work: Callable[[Head], Sequence[dict]],
    capture: Capture,
    length: int,
    spaces: Sequence[str] = (),
    *,
    unit: bool = False,
) -> pd.DataFrame:
    """The rows that ``work`` makes of every head, in their order, as one table; arguments as of `each_head`."""
    return pd.DataFrame(list(chain.from_iterable(each_head(work, capture, length, spaces, unit=unit))))


def _heads(
    capture: Capture, length: int, spaces: Sequence[str], unit: bool, with_gaps: bool
) -> Iterator[Head]:
    """The heads; Gram matrices are made once per set of vectors: per window, layer or key/value head."""
    vectors: dict[str, torch.Tensor] = {}
    grams: dict[str, torch.Tensor] = {}
    gaps: dict[str, torch.Tensor] = {}
    shared: dict[str, tuple[int, ...]] = {}
    for index, head in capture.heads():
        layer = capture.layers[index]
        for space in spaces:
            if (reads := capture.reads(space, index, head)) != shared.get(space):
                shared[space] = reads
                vectors[space] = working(capture.vectors(space, index, head)[:length], unit)
                # In float64, so that |x_i - x_j|^2 survives the subtraction.
                grams[space] = vectors[space] @ vectors[space].T
                if with_gaps:
                    gaps[space] = _smallest_gaps(grams[space])
        yield Head(index, head, layer, dict(vectors), dict(grams), dict(gaps), length)


def _smallest_gaps(gram: torch.Tensor) -> torch.Tensor:
    """delta^2 among the first n tokens, n = 1..L: the smallest |x_i - x_j|^2, infinity for n = 1."""
    squares = gram.diagonal()
    # One row more at a time of the triangle below the diagonal; a block of rows, so that L x L is not held again.
    smallest = []
    for rows in torch.arange(len(gram), device=gram.device).split(256):
        gaps = squares[rows, None] + squares[None] - 2 * gram[rows]
        gaps.masked_fill_(torch.arange(len(gram), device=gram.device) >= rows[:, None], torch.inf)
        smallest.append(gaps.amin(dim=1))
    return torch.cat(smallest).cummin(dim=0).values.clamp(min=0)


def logit_blocks(
    layer: Layer, head: int, length: int, stride: int = 1, extra: int = 0
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The model's logits q.k * scale of one head in blocks of rows: (visible (B,) int64, logits (B, length) float64).

    ``visible`` is the number of keys a row sees; columns from there on mean nothing. ``stride`` keeps the last of every
    ``stride`` rows. Both are on the device of the capture. A block is as large as the free memory allows, counting the
    ``extra`` numbers per row that the caller holds, and small enough that most of the triangle above the diagonal is
    not computed. Raises ValueError for a stride outside 1 to ``length``.
    """
    if not 1 <= stride <= length:
        raise ValueError(f"stride is {stride}; it must be from 1 to {length}, the tokens that are read")
    # float64, so that the size of a block does not show in the result.
    queries = working(layer.q[head, :length])
    keys = working(layer.k[layer.key_value_head(head), :length])
    size = _rows_at_once(length, stride, extra, queries.device)
    rows = torch.arange(stride - 1, length, stride, device=queries.device)
    for block in rows.split(size):
        stop = int(block[-1]) + 1
        logits = queries.new_zeros(len(block), length)
        logits[:, :stop] = queries[block] @ keys[:stop].T * layer.scale
        yield block + 1, logits


def step_beyond(top_n: int, length: int, steps: Iterable[int]) -> int:
    """The first of ``steps`` of which the last of every so many rows leaves one with more than ``top_n`` keys."""
    return next(step for step in steps if length - length % step > top_n)


def _rows_at_once(length: int, stride: int, extra: int, device: torch.device) -> int:
    """How many rows an eighth of the device's free memory holds, at least one.

    The compiled kernels keep about four arrays of whole rows, on every core. No more than a quarter of the window is
    taken at once, and no array of more than 8 MiB, so that it stays in the processor's cache from one loop to the next;
    but so much that calling costs less than computing. Those of an accelerator keep about fourteen, and one block for
    all rows is the fastest there as long as it fits.
    """
    if device.type == "cpu":
        free, arrays, most = (
            psutil.virtual_memory().available // (psutil.cpu_count() or 1),
            4,
            max(min(length // (4 * stride), 2**20 // length), 2**16 // length),
        )
    else:
        free, arrays, most = torch.cuda.mem_get_info(device)[0], 14, length
    return int(np.clip(free // 8 // (8 * (arrays * length + extra)), 1, most))


def working(tensor: torch.Tensor, unit: bool = False) -> torch.Tensor:
    """``tensor`` in float64, on its own device unless that has none (mps); ``unit`` scales its rows to length one."""
    exact = (tensor.cpu() if tensor.device.type == "mps" else tensor).double()
    return torch.nn.functional.normalize(exact, dim=1, eps=1e-300) if unit else exact


def check_choice(name: str, chosen: Sequence[str], allowed: Sequence[str]) -> None:
    """Raise ValueError unless ``chosen`` is a non-empty list of values from ``allowed``."""
    if isinstance(chosen, str) or not chosen or not set(chosen) <= set(allowed):
        raise ValueError(f"{name} is {chosen!r}; it must be a list of values out of {', '.join(allowed)}")


def check_positive(name: str, numbers: Sequence[float]) -> None:
    """ValueError unless there are numbers and all are above zero."""
    if not numbers or min(numbers) <= 0:
        raise ValueError(f"{name} are {list(numbers)}; there must be one or more, all above zero")


def check_numbers(name: str, numbers: Sequence[int], low: int, high: int, why: str) -> list[int]:
    """``numbers`` sorted and each once; ValueError unless there is one and all lie in [low, high], ``why``."""
    numbers = sorted(set(numbers))
    if not numbers or numbers[0] < low or numbers[-1] > high:
        raise ValueError(
            f"{name} are {numbers}; there must be one or more, each from {low} to {high} ({why})"
        )
    return numbers
