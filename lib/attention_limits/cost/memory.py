"""The largest memory that a measurement takes beyond the loaded model, seen from a process of its own."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil
import torch

from attention_limits import capture, controls, sources

from .protocol import ALGORITHMS

_EVERY = 0.005  # seconds between two looks at the process


@dataclass(frozen=True)
class Memory:
    """Bytes of resident memory: the process with the model loaded, and the most that each part took beyond that."""

    loaded: int
    beyond: dict[str, int]

    @property
    def most(self) -> int:
        """The most bytes beyond the loaded model."""
        return max(self.beyond.values())


def peak_memory(
    model: str,
    length: int,
    *,
    algorithms: list[str] | None = None,
    layers: int = 12,
    space: str = "hidden",
    stride: int = 1,
    seed: int = 0,
) -> Memory:
    """Run the capture of one window of ``length`` random tokens and the algorithms in a process of their own.

    ``model``: `gpt2-shape` (random weights, ``layers`` layers), else anything that `sources.load_model` takes. The
    algorithms measure the last of every ``stride`` tokens.
    Raises RuntimeError when the process fails; what it said went to the terminal.
    """
    asked = {"model": model, "length": length, "layers": layers, "space": space, "seed": seed}
    asked["stride"] = stride
    asked["algorithms"] = list(ALGORITHMS) if algorithms is None else algorithms
    done = subprocess.run(
        [sys.executable, "-c", "from attention_limits.cost import memory; memory.child()", json.dumps(asked)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the process that measures memory ended with status {done.returncode}")
    return Memory(**json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def watched() -> Iterator[list[int]]:
    """Give a list whose only entry is, in the end, the largest resident memory of this process in bytes.

    Exact where that is more than the process ever had before, for the system notes it; else the most of many looks,
    which may miss a peak of a few milliseconds.
    """
    process, ended, before = psutil.Process(), threading.Event(), _ever()
    most = [process.memory_info().rss]

    def look() -> None:
        """Note the largest memory seen until the watch ends."""
        while not ended.wait(_EVERY):
            most[0] = max(most[0], process.memory_info().rss)

    looker = threading.Thread(target=look, daemon=True)
    looker.start()
    try:
        yield most
    finally:
        ended.set()
        looker.join()
        most[0] = max(most[0], process.memory_info().rss, _ever() if _ever() > before else 0)


def _ever() -> int:
    """The largest resident memory that this process has had, in bytes."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else 1024 * size


def _here(
    model: str, length: int, algorithms: list[str], layers: int, space: str, stride: int, seed: int
) -> Memory:
    """Measure in this process: compile on a short window, then note the memory, capture, and run."""
    if model == "gpt2-shape":
        loaded = controls.untrained("gpt2", seed, device="cpu", n_layer=layers)
    else:
        loaded = sources.load_model(model, device="cpu")
    vocabulary = loaded.module.config.get_text_config().vocab_size
    ids = torch.randint(vocabulary, (length,), generator=torch.Generator().manual_seed(seed))
    short = capture.capture(loaded, ids[:48])
    for name in algorithms:
        ALGORITHMS[name](short, space)
    begin, beyond = psutil.Process().memory_info().rss, {}
    with watched() as most:
        seen = capture.capture(loaded, ids)
    beyond["capture"] = most[0] - begin
    for name in algorithms:
        with watched() as most:
            ALGORITHMS[name](seen, space, stride)
        beyond[name] = most[0] - begin
    return Memory(begin, beyond)


def child() -> None:
    """What the process of `peak_memory` does: its settings are the first argument, its last line the answer."""
    found = _here(**json.loads(sys.argv[1]))
    print(json.dumps({"loaded": found.loaded, "beyond": found.beyond}))
