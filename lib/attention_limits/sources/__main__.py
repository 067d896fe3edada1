"""``python -m attention_limits.sources``: fetch a model and a text, and write down where they came from."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from attention_limits.atomic import WriteError, write_text
from attention_limits.sources import Provenance, SourceError, decide, fetch_model, load_text, pick_device
from attention_limits.sources.base import say
from attention_limits.sources.paths import STANDARD_INPUT
from attention_limits.sources.registry import MODELS, TEXTS


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return 0, or 1 after one sentence on standard error when something cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m attention_limits.sources", description=__doc__)
    parser.add_argument("--model", default="auto", help=f"auto, {', '.join(MODELS)}, a hub name, or a folder")
    parser.add_argument("--text", default="auto", help=f"auto, {', '.join(TEXTS)}, or paths (see README)")
    parser.add_argument(
        "--device", default="auto", help="auto, cpu, cuda or mps: refused here if it is missing"
    )
    parser.add_argument("--output", type=Path, required=True, help="JSON file to write")
    for kind in ("model", "text"):
        parser.add_argument(
            f"--requested-{kind}", help=f"what the reader asked for, if --{kind} was decided before"
        )
        parser.add_argument(
            f"--{kind}-notice", default="", help=f"why --{kind} differs from what was asked for"
        )
    options = parser.parse_args(arguments)
    try:
        # On a cluster the device belongs to the node that a chapter will run on, not to this machine.
        if options.device != "auto" and not os.environ.get("ATTENTION_LIMITS_ELSEWHERE"):
            pick_device(options.device)
        record = {kind: _bring(kind, options).to_json() for kind in ("model", "text")}
        write_text(options.output, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    except (SourceError, WriteError) as error:
        say(f"attention_limits.sources: {error}")
        return 1
    return 0


def _bring(kind: str, options: argparse.Namespace) -> Provenance:
    given = getattr(options, kind)
    name, notice = decide(kind, given)
    if notice:
        say(notice)
    notice = notice or getattr(options, f"{kind}_notice")  # whoever decided before has said it before
    provenance = fetch_model(name)[1] if kind == "model" else load_text(name).provenance
    requested = getattr(options, f"requested_{kind}") or given
    # The file that it was kept in is not where it came from.
    if kind == "text" and requested == STANDARD_INPUT:
        provenance = replace(provenance, origin="standard input")
    return provenance.asked(requested, notice)


if __name__ == "__main__":
    sys.exit(main())
