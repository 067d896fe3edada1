"""The paper's five algorithms at its full protocol, timed from one captured window on, and the plain loop beside them.

The protocol (theory: "Experiments"): L = 32, 64, ..., 1024, N = 5 (Algorithm 1); N in {1, 5, 10, 20, 100} at the
longest L (2); every N from 1 to 128 at every L, with the KS tests at both levels (3); N_s/N with all bounds (4); 13
temperatures and 3 steps (5). All heads, every token, one space, `causal` support. On a shorter window the lengths and N
that do not fit are left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from attention_limits import capture, measures, statistics
from attention_limits.capture import Capture
from attention_limits.sources import Model
from attention_limits.theory import distance

LENGTHS = (32, 64, 128, 256, 512, 1024)
LARGEST_N = 128
LEVELS = (0.01, 0.05)
SIZES_2 = (1, 5, 10, 20, 100)
SIZES_4 = (1, 2, 4, 5, 8, 10, 16, 20, 32, 64, 100, 128)
TEMPERATURES = tuple(np.geomspace(0.01, 10, 13).tolist())
EPSILONS = (1e-3, 0.1, 10.0)


def _lengths(seen: Capture) -> list[int]:
    return sorted({min(length, seen.length) for length in LENGTHS})


def _distances(
    seen: Capture, space: str, stride: int, lengths: list[int], sizes: Iterable[int]
) -> pd.DataFrame:
    kept = [n for n in sizes if n < max(lengths)]
    return measures.distances(
        seen, spaces=[space], supports=["causal"], lengths=lengths, top_ns=kept, stride=stride
    )


def algorithm_1(seen: Capture, space: str, stride: int = 1) -> pd.DataFrame:
    """d, E_J and the bound at N = 5 and every length."""
    return _distances(seen, space, stride, _lengths(seen), [5])


def algorithm_2(seen: Capture, space: str, stride: int = 1) -> pd.DataFrame:
    """d, E_J and the bound at five N and the longest length."""
    return _distances(seen, space, stride, [seen.length], SIZES_2)


def algorithm_3(seen: Capture, space: str, stride: int = 1) -> pd.DataFrame:
    """The critical N of every length at both levels, out of every N up to the largest (NaN: none of them)."""
    found = _distances(seen, space, stride, _lengths(seen), range(1, LARGEST_N + 1))
    tests = statistics.ks_tests(found, ["length", "top_n"], "d", "expected")
    table = [
        {"length": length, "level": level, "N": statistics.critical_n(part.top_n, part.p_value, level)}
        for length, part in tests.groupby("length")
        for level in LEVELS
    ]
    return pd.DataFrame(table).astype({"N": float})


def algorithm_4(seen: Capture, space: str, stride: int = 1) -> pd.DataFrame:
    """N_s/N with Theorem 2's bounds (and the coverage by three heads, which is not returned)."""
    kept = [n for n in SIZES_4 if n < seen.length]
    group = max(n for n in kept if n <= 16)
    found = measures.separability(
        seen, spaces=[space], supports=["causal"], top_ns=kept, group_top_n=group, stride=stride
    )
    return found[0]


def algorithm_5(seen: Capture, space: str, stride: int = 1) -> pd.DataFrame:
    """g(T, eps) with exact Jacobian norms; no vectors are in it."""
    return measures.sensitivity(
        seen, logits=["model"], temperatures=TEMPERATURES, epsilons=EPSILONS, seed=0, stride=stride
    )


# By name: a function of a capture, a space and, unless every token is measured, a stride.
ALGORITHMS: Mapping[str, Callable[..., pd.DataFrame]] = {
    "algorithm-1": algorithm_1,
    "algorithm-2": algorithm_2,
    "algorithm-3": algorithm_3,
    "algorithm-4": algorithm_4,
    "algorithm-5": algorithm_5,
}


@dataclass(frozen=True)
class Timing:
    """Seconds of one run: the forward pass with its capture (the fastest of three), and each algorithm after it."""

    heads: int
    length: int
    forward: float
    algorithms: Mapping[str, float]

    @property
    def total(self) -> float:
        """Seconds of all five algorithms, beyond the forward pass.

        Algorithm 3 finds d, E_J and the bound at every length and N, those of Algorithms 1 and 2 among them: nothing is
        computed twice when it stands for all three.
        """
        return sum(self.algorithms[f"algorithm-{k}"] for k in (3, 4, 5))


def run_protocol(
    model: Model, ids: torch.Tensor, space: str = "hidden"
) -> tuple[Timing, Capture, dict[str, pd.DataFrame]]:
    """Capture the window ``ids`` (L,) and run the five algorithms on it, each timed alone, with its progress shown.

    What is compiled on first use is compiled before, on the first tokens of the window. Also returns the capture, and
    what each algorithm found.
    """
    short = capture.capture(model, ids[: min(len(ids), 48)])
    for algorithm in ALGORITHMS.values():
        algorithm(short, space)
    passes = []
    for _ in range(3):
        seconds, seen = _timed(model.device, lambda: capture.capture(model, ids))
        passes.append(seconds)
    took, found = {}, {}
    for name, algorithm in ALGORITHMS.items():
        took[name], found[name] = _timed(model.device, partial(algorithm, seen, space))
    heads = sum(layer.heads for layer in seen.layers)
    return Timing(heads, len(ids), min(passes), took), seen, found


def _timed(device: torch.device, task: Callable[[], Any]) -> tuple[float, Any]:
    """Wall-clock seconds of ``task``, to the end of what it gave the device to do."""
    begin = time.perf_counter()
    found = task()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - begin, found


@dataclass(frozen=True)
class PlainLoop:
    """The extrapolated seconds of one algorithm as a plain loop: mean seconds of a step times the number of steps.

    ``error`` is the standard error that the ``sample`` steps leave.
    """

    seconds: float
    error: float
    steps: int
    sample: int


def plain_loop(seen: Capture, space: str, sample: int, seed: int) -> dict[str, PlainLoop]:
    """Algorithms 1 to 3 read word by word: a NumPy loop over heads, lengths, tokens and N, extrapolated.

    A step is one head, length, token and N: its softmax, its top-N set, d, E_J, and in Algorithms 1 and 2 the bound.
    ``sample`` steps of each algorithm, drawn uniformly from all of its steps with ``seed``, are done and timed.
    """
    rng = np.random.default_rng(seed)
    lengths, top = np.array(_lengths(seen)), seen.length
    work = {
        "algorithm-1": (lengths, np.array([5])),
        "algorithm-2": (np.array([top]), np.array([n for n in SIZES_2 if n < top])),
        "algorithm-3": (lengths, np.arange(1, min(LARGEST_N, top - 1) + 1)),
    }
    places = list(seen.heads())
    found = {}
    for name, (within, sizes) in work.items():
        # Every (token, N) of every length with more keys than N.
        rows = np.concatenate([np.arange(1, length + 1) for length in within])
        pairs = np.argwhere(rows[:, None] > sizes[None])
        took = []
        for pick in rng.integers(len(pairs), size=sample):
            row, column = pairs[pick]
            layer, head = places[rng.integers(len(places))]
            begin = time.perf_counter()
            plain_step(
                seen, space, layer, head, int(rows[row]), int(sizes[column]), bound=name != "algorithm-3"
            )
            took.append(time.perf_counter() - begin)
        steps = len(pairs) * len(places)
        error = float(np.std(took, ddof=1)) / np.sqrt(sample) if sample > 1 else float("nan")
        found[name] = PlainLoop(steps * float(np.mean(took)), steps * error, steps, sample)
    return found


def plain_step(
    seen: Capture, space: str, layer: int, head: int, n: int, top_n: int, *, bound: bool
) -> list[float]:
    """One head, token and N in float64 NumPy: d, E_J and, if asked for, the bound."""
    part = seen.layers[layer]
    query = part.q[head, n - 1].cpu().numpy().astype(float)
    keys = part.k[part.key_value_head(head), :n].cpu().numpy().astype(float)
    x = seen.vectors(space, layer, head)[:n].cpu().numpy().astype(float)
    logits = keys @ query * part.scale
    weights = np.exp(logits - logits.max())
    weights /= weights.sum()
    chosen = distance.top_set(weights, top_n)
    numbers = [
        distance.cumulative_distance(weights, x, chosen),
        distance.expected_distance_bound(weights, x, top_n),
    ]
    return [*numbers, distance.fixed_set_bound(weights, x, chosen)] if bound else numbers
