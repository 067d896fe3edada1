"""The verdict on a head: rules in order, their thresholds and reasons, and what is close to a threshold or too sharp.

The paper names the quantities (watch entropy and N_s/N; avoid T < 0.1) and the number 0.8; the other thresholds and
the order of the rules are this companion's, and each says why.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

MARGIN = 0.05  # a head whose verdict would change if one of its numbers moved by this much is one to watch
SHARP_LARGEST = 0.9
SHARP_LOGIT_SD = 10.0
OTHERWISE = "selective"


@dataclass(frozen=True)
class Rule:
    """A head is ``verdict`` if its ``column`` is at least (or, with ``below``, less than) ``threshold``."""

    verdict: str
    column: str
    threshold: float
    below: bool
    why: str

    def holds(self, numbers: Mapping[str, float]) -> bool:
        """Whether a head with these numbers falls under the rule."""
        value = numbers[self.column]
        return value < self.threshold if self.below else value >= self.threshold

    def __str__(self) -> str:
        return f"{self.verdict}: {self.column} {'<' if self.below else '>='} {self.threshold}  ({self.why})"


RULES = (
    Rule(
        "sink",
        "first",
        0.5,
        False,
        "the first token gets more than all others together, so the head's other numbers are mostly about it",
    ),
    Rule(
        "diffuse",
        "entropy_share",
        0.9,
        False,
        "the effective support exp(entropy) is n^0.9 or more, half of the keys at n = 1024: nothing is selected",
    ),
    Rule(
        "saturated",
        "ratio",
        0.8,
        True,
        "the paper's number: with 0.8, three heads that err independently still cover 1 - 0.2^3 = 99.2 %",
    ),
)
VERDICTS = (OTHERWISE, "saturated", "diffuse", "sink")
WATCHED = tuple(rule.column for rule in RULES)


def verdict(numbers: Mapping[str, float]) -> str:
    """The verdict of the first of ``RULES`` that holds, ``selective`` where none does."""
    return next((rule.verdict for rule in RULES if rule.holds(numbers)), OTHERWISE)


def to_watch(numbers: Mapping[str, float]) -> bool:
    """Whether another verdict is near: one of the three numbers moved by ``MARGIN`` up or down would change it."""
    own = verdict(numbers)
    moved = ({**numbers, name: numbers[name] + by} for name in WATCHED for by in (-MARGIN, MARGIN))
    return any(verdict(other) != own for other in moved)


def too_sharp(numbers: Mapping[str, float]) -> bool:
    """Whether the softmax is close to a hard maximum: see :func:`sharp_rule`."""
    return numbers["largest"] >= SHARP_LARGEST or numbers["logit_sd"] > SHARP_LOGIT_SD


def watch_rule() -> str:
    """The rule of :func:`to_watch` in words."""
    return f"watch: {', '.join(WATCHED)} moved by {MARGIN} either way would change the verdict"


def sharp_rule() -> str:
    """The rule of :func:`too_sharp` in words, with its reasons."""
    return (
        f"sharp: largest >= {SHARP_LARGEST} or logit_sd > {SHARP_LOGIT_SD:g}  (a mean largest weight p leaves "
        f"|J|_2 <= 2 p (1 - p) <= {2 * SHARP_LARGEST * (1 - SHARP_LARGEST):.2f} on average, so little gradient passes; "
        f"logits of standard deviation {SHARP_LOGIT_SD:g} are unit ones at T = {1 / SHARP_LOGIT_SD:g}, "
        "the paper's limit)"
    )


def printed() -> str:
    """All rules as text, in the order in which they are tried."""
    lines = [f"{place}. {rule}" for place, rule in enumerate(RULES, 1)]
    return wrapped([*lines, f"{len(RULES) + 1}. {OTHERWISE}: otherwise", watch_rule(), sharp_rule()])


def wrapped(lines: Iterable[str]) -> str:
    """Lines of at most a hundred characters, what goes over on indented ones."""
    return "\n".join(textwrap.fill(line, 100, subsequent_indent="    ") for line in lines)
