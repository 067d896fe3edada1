"""``make bench``: the runtime table, memory and, where there is a GPU, the same on it; all measured now, here."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

import torch

from attention_limits import controls, provenance
from attention_limits.charts import number
from attention_limits.scorecard.runtimes import in_words

from . import largest_difference, peak_memory, plain_loop, run_protocol, runtime_table

GIB = 2**30


def main(arguments: list[str] | None = None) -> int:
    """Command line; prints the tables and returns 0."""
    parser = argparse.ArgumentParser(
        prog="python -m attention_limits.cost", description=__doc__.split("\n")[0]
    )
    for name, default, least, most, words in (
        ("--length", 1024, 8, 1024, "context length L in tokens, {} to {}"),
        ("--layers", 12, 1, 1000, "layers of the GPT-2 shape"),
        ("--sample", 40, 1, 10**6, "steps of each plain loop that are timed"),
        ("--seed", 0, 0, 2**32 - 1, "of weights, tokens and sampled steps"),
        ("--long", 0, 0, 10**7, "memory of --model at this context too (0: not)"),
        ("--long-stride", 32, 1, 10**7, "--long: the last of every so many tokens (1: all)"),
    ):
        kind = _whole(least, most)
        parser.add_argument(name, type=kind, default=default, metavar="N", help=words.format(least, most))
    parser.add_argument("--model", default="smollm2-135m", help="the model for --long")
    asked = parser.parse_args(arguments)
    for name, value in provenance.machine_rows(os.environ.get("ATTENTION_LIMITS_DEVICE", "cpu")):
        print(f"{name}: {value}")
    print(*(f"{name} {version}" for name, version in provenance.versions_rows()), sep=", ")
    _time(asked)
    _memory("gpt2-shape", asked.length, None, asked.layers, 1)
    if asked.long:
        three = ["algorithm-2", "algorithm-4", "algorithm-5"]
        _memory(asked.model, asked.long, three, 0, asked.long_stride)
    return 0


def _whole(least: int, most: int) -> Callable[[str], int]:
    """A whole number between two ends, as a type of argparse."""

    def read(text: str) -> int:
        """The number in ``text``."""
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} to {most}")
        return int(text)

    return read


def _time(asked: argparse.Namespace) -> None:
    ids = torch.randint(50257, (asked.length,), generator=torch.Generator().manual_seed(asked.seed))
    model = controls.untrained("gpt2", asked.seed, device="cpu", n_layer=asked.layers)
    timing, seen, found = run_protocol(model, ids)
    plain = plain_loop(seen, "hidden", asked.sample, asked.seed)
    print(f"\n{timing.heads} heads of the GPT-2 shape, random weights; L = {timing.length}")
    print(f"{torch.get_num_threads()} threads")
    print(f"Forward pass with capture: {in_words(timing.forward)}")
    print(runtime_table(timing, plain).to_string())
    if not torch.cuda.is_available():
        print("No CUDA device here: nothing to compare with.")
        return
    on_gpu, _, found_there = run_protocol(
        controls.untrained("gpt2", asked.seed, device="cuda", n_layer=asked.layers), ids
    )
    print(f"\nOn {torch.cuda.get_device_name()}: forward pass {in_words(on_gpu.forward)}")
    for name, seconds in on_gpu.algorithms.items():
        ratio, apart = timing.algorithms[name] / seconds, largest_difference(found[name], found_there[name])
        print(
            f"{name}: {in_words(seconds)}, {number(ratio)} times as fast as the CPU, largest difference {apart:.1e}"
        )


def _memory(model: str, length: int, algorithms: list[str] | None, layers: int, stride: int) -> None:
    memory = peak_memory(model, length, algorithms=algorithms, layers=layers, stride=stride)
    which = f", the last of every {stride} tokens" if stride > 1 else ""
    print(f"\nMemory of {model} at L = {length}{which}: {memory.loaded / GIB:.2f} GiB with the model loaded,")
    print("and the most beyond that:")
    for name, size in memory.beyond.items():
        print(f"{name}: {size / GIB:.2f} GiB")


if __name__ == "__main__":
    sys.exit(main())
