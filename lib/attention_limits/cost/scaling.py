"""How the time of the algorithms grows with the context length and with the number of heads."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pandas as pd
import torch

from attention_limits import measures
from attention_limits.capture import Capture, Layer
from attention_limits.measures.heads import check_numbers

_DIMENSION, _HEAD_DIMENSION = 768, 64  # of GPT-2 124M
TASKS = {
    "distance (N = 5)": lambda seen: measures.distances(
        seen, spaces=["hidden"], supports=["causal"], lengths=[seen.length], top_ns=[5]
    ),
    "distance (every N to 16)": lambda seen: measures.distances(
        seen,
        spaces=["hidden"],
        supports=["causal"],
        lengths=[seen.length],
        top_ns=range(1, 17),
    ),
    "gradient (one T, one step)": lambda seen: measures.sensitivity(
        seen, logits=["model"], temperatures=[1.0], epsilons=[0.1], seed=0
    ),
    "weights": lambda seen: measures.weight_scaling(seen, lengths=[seen.length]),
}


def growth(
    lengths: Sequence[int], heads: Sequence[int], *, device: str = "cpu", seed: int = 0
) -> pd.DataFrame:
    """Seconds of four measurements on one layer of random queries, keys and vectors in the shape of GPT-2 124M.

    Every length with the smallest number of heads, every number of heads at the length in the middle. Columns: task,
    length, heads, seconds. The fastest of three runs, since what else the machine does only ever adds; a run of more
    than a second is not repeated. Raises ValueError for a length below 32 or no head.
    """
    lengths = check_numbers("lengths", lengths, 32, 2**17, "long enough for every measurement")
    heads = check_numbers("heads", heads, 1, 2**10, "heads of one layer")
    settings = [(length, heads[0]) for length in lengths]
    settings += [(lengths[len(lengths) // 2], count) for count in heads[1:]]
    _measure(random_capture(32, 1, device, seed))  # compiles what is compiled on first use
    table = []
    for length, count in settings:
        seen = random_capture(length, count, device, seed)
        for task, seconds in _measure(seen).items():
            table.append({"task": task, "length": length, "heads": count, "seconds": seconds})
    return pd.DataFrame(table)


def random_capture(length: int, heads: int, device: str = "cpu", seed: int = 0) -> Capture:
    """A capture of one layer whose queries, keys and vectors are standard normal: the cost hardly depends on them."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(3, heads, length, _HEAD_DIMENSION, generator=generator).to(device)
    hidden = torch.randn(length, _DIMENSION, generator=generator).to(device)
    return Capture(torch.arange(length), hidden, (Layer(q, k, v, hidden, _HEAD_DIMENSION**-0.5),))


def _measure(seen: Capture) -> dict[str, float]:
    found = {}
    for name, task in TASKS.items():
        took: list[float] = []
        while len(took) < 3 and (not took or took[0] < 1):
            begin = time.perf_counter()
            task(seen)
            took.append(time.perf_counter() - begin)
        found[name] = min(took)
    return found
