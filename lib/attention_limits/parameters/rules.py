"""The rules: one per parameter name, and what single chapters mean differently."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import ge, gt, le, lt
from typing import Any

CONTEXT = "the model's context"
_KINDS = {int: ("a whole number", "whole numbers"), float: ("a number", "numbers"), str: ("a name", "names")}
_COUNTS = {2: "two", 3: "three", 4: "four"}


@dataclass(frozen=True)
class Rule:
    """What one parameter may be: a value of ``kind`` within the bounds, or with ``many`` a list of different ones.

    Bounds are numbers or expressions of other parameters; ``least`` and ``most`` may be reached, ``above`` and
    ``below`` may not. ``some_least`` and ``some_most`` bind only the largest and the smallest of a list. ``choices``
    are all the values there are, ``pattern`` is what any text must match, and ``says`` is that in words.
    """

    kind: type = int
    least: float | str | None = None
    above: float | None = None
    most: float | str | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()
    pattern: str = ""
    says: str = ""
    many: bool = False
    fewest: int = 1
    some_least: float | None = None
    some_most: str | None = None

    @property
    def words(self) -> str:
        """The allowed values, as the comment of a parameters cell and an error message say them."""
        if self.says or self.choices:
            return self.says or (
                "any of " + ", ".join(self.choices) if self.many else " | ".join(self.choices)
            )
        bounds = f"from {self.least} to {self.most}" if self.most is not None else f"at least {self.least}"
        if self.above is not None:
            bounds = f"above {self.above}" + (f" and below {self.below}" if self.below is not None else "")
        if not self.many:
            return bounds
        number = {0: "[] or ", 1: ""}.get(self.fewest, f"at least {_COUNTS.get(self.fewest, self.fewest)}, ")
        some = f"; the largest at least {self.some_least}" if self.some_least is not None else ""
        some += f"; the smallest at most {self.some_most}" if self.some_most is not None else ""
        return f"{number}each {bounds}{some}"

    @property
    def wanted(self) -> str:
        """What a message says after "it must be"."""
        if not self.many:
            return self.words if self.kind is str else f"{_KINDS[self.kind][0]} {self.words}"
        return f"a list of different {_KINDS[self.kind][1]}, {self.words}"

    def fits_kind(self, value: Any) -> bool:
        """Whether ``value`` has the type, the number of entries and the choices; bounds are another question."""
        if self.many:
            single = replace(self, many=False)
            return (
                isinstance(value, list | tuple)
                and len(value) >= self.fewest
                and all(single.fits_kind(entry) for entry in value)
                and len(set(value)) == len(value)
            )
        if self.kind is str:
            return isinstance(value, str) and (
                value in self.choices if self.choices else bool(re.fullmatch(self.pattern, value, re.DOTALL))
            )
        if isinstance(value, bool):  # which Python counts among the whole numbers
            return False
        if self.kind is int:
            return isinstance(value, int)
        return isinstance(value, int | float) and abs(value) <= sys.float_info.max  # neither NaN nor infinite

    def broken_bound(self, value: Any, given: Mapping[str, Any], context: int | None) -> str | None:
        """The first bound, "" for a plain number, that ``value`` of the right kind does not keep; None if none."""
        if self.kind is str:
            return None
        entries = list(value) if self.many else [value]
        if not entries:
            return None
        low, high = min(entries), max(entries)
        for bound, number, kept in (
            (self.least, low, ge),
            (self.above, low, gt),
            (self.most, high, le),
            (self.below, high, lt),
            (self.some_least, high, ge),
            (self.some_most, low, le),
        ):
            limit = _computed(bound, given, context)
            if limit is not None and not kept(number, limit):
                return f"{bound} is {limit:.12g}" if isinstance(bound, str) else ""
        return None


def _computed(bound: float | str | None, given: Mapping[str, Any], context: int | None) -> float | None:
    """The number that a bound is; None for no bound, and for one by what is not known or what a chapter has not."""
    if bound == CONTEXT:
        return context
    if not isinstance(bound, str):
        return bound
    # Only the expressions written in this module come here, never a value that somebody gave.
    try:
        return eval(bound, {"__builtins__": {}, "min": min, "max": max}, dict(given))
    except NameError:
        return None


_ANY_NAME = r".*\S.*"
_COUNT = Rule(least=1)
_LENGTHS = Rule(least=2, most=CONTEXT, many=True)
_SPACES = ("hidden", "embedding", "value")
_POSITIVE = Rule(float, above=0, many=True)

RULES: dict[str, Rule] = {
    "model": Rule(
        str, pattern=_ANY_NAME, says="auto | gpt2 | smollm2-135m | a model on the hub | a local folder"
    ),
    "models": Rule(
        str,
        pattern=r"(?!random:).*\S.*|random:(gpt2|llama)",
        says="names as of `model` | random:gpt2 | random:llama | shuffled",
        many=True,
        fewest=0,
    ),
    "text": Rule(
        str, pattern=_ANY_NAME, says="auto | war-and-peace | king-james | UTF-8 files or a folder by path"
    ),
    "device": Rule(str, choices=("auto", "cpu", "cuda", "mps")),
    "length": Rule(least=2, most=CONTEXT),
    "lengths": _LENGTHS,
    "long_lengths": replace(_LENGTHS, least="max(4, 2 * top_n)", most=None, fewest=0),
    "top_n": Rule(least=1, most="min(lengths) - 1"),
    "top_ns": Rule(least=1, most="length - 1", many=True),
    "largest_n": _COUNT,
    "head_n": Rule(least=1, most="min(lengths) - 1"),
    "targets": Rule(least=2, most="min(lengths) - 1"),
    "stride": Rule(least=1, most="length"),
    "windows": _COUNT,
    "apart": _COUNT,
    "group": _COUNT,
    "layer_step": _COUNT,
    "heads_per_layer": _COUNT,
    "layers": _COUNT,
    "space": Rule(str, choices=_SPACES),
    "spaces": Rule(str, choices=_SPACES, many=True),
    "supports": Rule(str, choices=("causal", "full"), many=True),
    "logits": Rule(str, choices=("model", "raw"), many=True),
    "temperatures": _POSITIVE,
    "epsilons": _POSITIVE,
    "scales": _POSITIVE,
    "tolerances": _POSITIVE,
    "levels": Rule(float, above=0, below=1, many=True),
    "growth_lengths": Rule(least=32, many=True, fewest=4),
    "growth_heads": Rule(least=1, many=True, fewest=4),
    "sample": Rule(least=2),
    "rows": Rule(least=10),
    "draws": Rule(least=20),
    "directions": Rule(least=100),
    "repeats": Rule(least=4),
    "tokens": Rule(least=16),
    "threads": _COUNT,  # of one notebook; a setting of the engine
    "seed": Rule(least=0, most="2**32 - 1"),
    "record": Rule(str, pattern=".*", says='file that the results are written to; "" writes none'),
    "report": Rule(str, pattern=".*", says='JSON file for the report of all heads; "" writes none'),
    "records": Rule(str, pattern=".*", says="folder with the records"),
    "reference": Rule(str, pattern=".*", says="build folder of the reference"),
    "executed": Rule(str, pattern=".*", says="folder with the executed notebooks"),
    "table": Rule(str, pattern=".*", says="results.csv of a sweep"),
}

OWN: dict[str, dict[str, Rule]] = {
    "weights": {"lengths": replace(_LENGTHS, some_least=8)},
    "algorithm-1": {"lengths": replace(_LENGTHS, fewest=3)},
    "algorithm-2": {"length": Rule(least=3, most=CONTEXT)},
    "algorithm-3": {"stride": _COUNT},
    "algorithm-4": {"length": Rule(least=3, most=CONTEXT)},
    "normalisers": {
        "top_ns": Rule(least=1, most="max(lengths) - 1", many=True),
        "stride": Rule(least=1, most="min(lengths) / 2"),
    },
    "selection": {
        "lengths": replace(_LENGTHS, least=3, fewest=2),
        "top_ns": Rule(least=1, many=True, some_most="min(lengths) - 1"),
        "stride": Rule(least=1, most="min(lengths)"),
    },
    "health": {"top_n": Rule(least=1, most="length / 2")},
    "models": {  # a length that a model cannot read is left out there, with the reason
        "lengths": Rule(least="max(4, 2 * top_n)", many=True),
        "top_n": _COUNT,
        "rows": _COUNT,
    },
    "cost": {"length": Rule(least=8, most=1024)},
    "vanishing": {"draws": Rule(least=4)},
}


def rule(chapter: str, name: str) -> Rule | None:
    """The rule for a parameter of a chapter (a notebook's name without suffix); None where there is none."""
    return OWN.get(chapter, {}).get(name) or RULES.get(name)
