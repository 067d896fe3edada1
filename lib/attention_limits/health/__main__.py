"""Check the attention heads of a model from the command line.

python -m attention_limits.health --model gpt2 --text my-text.txt --length 1024 --output report.json
"""

from __future__ import annotations

import argparse
import sys

from attention_limits.capture import SPACES
from attention_limits.parameters import check as check_parameters
from attention_limits.sources import DEVICES, SourceError, check_size
from attention_limits.sources.base import say
from attention_limits.sources.registry import MODELS, TEXTS

from .run import check


def main(arguments: list[str] | None = None) -> int:
    """Print the report and write it; return 0, or 1 after one sentence on standard error where something is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m attention_limits.health", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--model", default="auto", help=f"auto, {', '.join(MODELS)}, a hub name, or a folder")
    parser.add_argument("--text", default="auto", help=f"auto, {', '.join(TEXTS)}, or a path")
    parser.add_argument("--device", default="auto", choices=DEVICES)
    parser.add_argument("--length", type=int, default=256, help="tokens in a window")
    parser.add_argument(
        "--windows", type=int, default=1, help="consecutive windows; intervals need 2 or more"
    )
    parser.add_argument("--top-n", type=int, default=16, help="N of N_s/N, at most half of the window")
    parser.add_argument(
        "--stride", type=int, help="keep the last of every so many rows (default: 32 rows are left)"
    )
    parser.add_argument("--space", default="hidden", choices=SPACES, help="what x_i is")
    parser.add_argument("--heads", nargs="+", type=_place, metavar="LAYER.HEAD", help="only these heads")
    parser.add_argument("--output", default="", help="JSON file to write")
    options = vars(parser.parse_args(arguments))
    output = options.pop("output")
    try:
        # What is wrong with these is said before the model loads.
        check_parameters("health", {name: options[name] for name in ("model", "length")})
        check_size(options["text"], options["length"] * options["windows"])
        report = check(options.pop("model"), options.pop("text"), **options)
        report.save(output)
    except (SourceError, ValueError, OSError) as error:
        say(f"attention_limits.health: {str(error).removeprefix('health: ')}")
        return 1
    print(report)
    return 0


def _place(written: str) -> tuple[int, int]:
    """(layer, head) from ``3.1``."""
    layer, dot, head = written.partition(".")
    if not (dot and layer.isdigit() and head.isdigit()):
        raise argparse.ArgumentTypeError(f"{written!r} is not LAYER.HEAD, such as 3.1")
    return int(layer), int(head)


if __name__ == "__main__":
    sys.exit(main())
