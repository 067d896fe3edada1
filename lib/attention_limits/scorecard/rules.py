"""Verdicts and the rules that give them: pure functions of numbers, with every threshold in one table.

A rule is a closed range. A number supports a claim when it lies in its rule's range; a reading supports a claim when
all of its numbers do; and :func:`verdict` turns the readings into one of the words below. Where the paper prints the
number itself (0.70 to 0.85, 99 %), it counts to half a unit of its last digit. The others are argued in ``why``.

They were not all chosen blind. R^2 was set after a small run of Algorithm 1 was seen, the half unit of the share told
apart with a pilot's values known, and the search for the critical N was extended beyond the exact one after that had
found none in a small run. The other ranges were written down before the results that they judge.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

HOLDS = "holds"
CORRECTED = "holds with a corrected constant"
SOME = "holds under some readings"
NOT = "not reproduced"
UNMEASURED = "not measured here"
VERDICTS = (HOLDS, CORRECTED, SOME, NOT, UNMEASURED)


@dataclass(frozen=True)
class Rule:
    """A number between ``low`` and ``high``, ends included, supports the claim; ``why`` argues the two ends."""

    what: str
    low: float
    high: float
    why: str

    def met(self, value: float) -> bool:
        """Whether ``value`` lies in the range. Raises ValueError for NaN, which is no number to judge."""
        if math.isnan(value):
            raise ValueError(f"rule {self.what!r}: NaN cannot be judged")
        return self.low <= value <= self.high

    def close(self, value: float, low: float | None, high: float | None) -> bool:
        """Whether some number between the interval's ends would be judged otherwise than ``value``: a close call.

        An end that is None counts as ``value``.
        """
        low, high = (value if end is None else end for end in (low, high))
        if self.met(value):
            return not (self.met(low) and self.met(high))
        return low <= self.high and high >= self.low

    def words(self) -> str:
        """The range as a reader sees it: "0", "at least 0.995", "0.7 to 0.85"."""
        low, high = (f"{end:g}".replace("-", "−") for end in (self.low, self.high))
        if self.low == self.high:
            return low
        if math.isinf(self.high):
            return f"at least {low}"
        return f"at most {high}" if math.isinf(self.low) else f"{low} to {high}"


INF = math.inf
RULES: Mapping[str, Rule] = {
    "unbroken": Rule(
        "rows or settings that break an inequality",
        0,
        0,
        "One row that breaks an inequality beyond rounding makes it false.",
    ),
    "falls as 1/L": Rule(
        "exponent of a weight against L",
        -INF,
        -0.9,
        "O(1/L) is an upper bound, so falling faster is allowed. The tolerance of 0.1 is a factor of 1.4 over 32 times "
        "the length, which the few lengths of a fit cannot exclude.",
    ),
    "straight line": Rule(
        "R² of d = a + b L for the median head",
        0.995,
        1,
        "On the lengths 32 to 1024 a power of L passes only with an exponent between about 0.81 and 1.22. "
        "With fewer than four lengths almost any curve passes: the claim then counts as not measured.",
    ),
    "plateau": Rule(
        "d at the largest N (100 in the paper) over d at N = 20",
        0.9,
        1.1,
        "A plateau is a curve that changes by no more than a tenth while N grows several times.",
    ),
    "collapse": Rule(
        "d at N near L over d at N = 20",
        0,
        0.1,
        "A curve has collapsed when a tenth or less is left of it.",
    ),
    "found": Rule(
        "share of the lengths at which a critical N exists",
        1,
        1,
        "Where no N that was tried is critical, the critical N is not 0.06 L.",
    ),
    "about 0.06 L": Rule(
        "critical N over L, at every length",
        0.03,
        0.12,
        "Within a factor of two of the printed 0.06 on either side: 'about' cannot mean more.",
    ),
    "below linear": Rule(
        "exponent of the critical N against L, upper end of its interval",
        -INF,
        0.99,
        "Sub-linear means an exponent below one, and the whole 95 % interval must say so.",
    ),
    "falls": Rule(
        "median N_s/N at N = 16 over its value at the smallest N",
        0,
        0.999,
        "Falling means a ratio below one, up to the third digit that near-ties can move.",
    ),
    "0.70 to 0.85": Rule(
        "median over heads of N_s/N, at every N from 16 on",
        0.695,
        0.855,
        "The range is the paper's own, to half a unit of its last digit. A curve that goes on falling leaves it.",
    ),
    "99 %": Rule(
        "share of the tokens told apart by one of three heads",
        0.985,
        1,
        "The paper's number, to half a per cent.",
    ),
    "1/T": Rule(
        "exponent of g against T below T = 0.1",
        -1.1,
        -0.9,
        "1/T is the exponent −1; the tolerance of 0.1 is a factor of 1.26 over the decade of the fit.",
    ),
    "two orders": Rule(
        "orders of magnitude by which g falls until T = 1",
        1.5,
        INF,
        "Two orders of magnitude, to half a unit, or more.",
    ),
    "one order": Rule(
        "orders of magnitude by which g at the lowest T exceeds g at T = 1",
        1,
        INF,
        "Advice against low temperatures is worth giving where they make a difference of ten times.",
    ),
    "relaxes one": Rule(
        "how many of the three limits a normaliser relaxes",
        1,
        3,
        "The claim is that each relaxes one; more are allowed. When a limit counts as relaxed stands in the chapter.",
    ),
}


def verdict(readings: Iterable[Iterable[bool]], corrected: Iterable[bool] | None = None) -> str:
    """The word for a claim.

    ``readings`` holds, for each reading, whether each of its numbers meets its rule; ``corrected`` the same for
    the corrected statement where there is one. All readings support the claim as printed: *holds*. Else, all
    numbers of the corrected statement do: *holds with a corrected constant*. Else some reading does: *holds
    under some readings*. Else *not reproduced*. No reading at all: *not measured here*. Raises ValueError for a
    reading or a correction without any number, which would support everything.
    """
    judged = [list(reading) for reading in readings]
    fixed = None if corrected is None else list(corrected)
    if not all(judged) or fixed == []:
        raise ValueError("a reading or a corrected statement without numbers cannot be judged")
    if not judged:
        return UNMEASURED
    if all(map(all, judged)):
        return HOLDS
    if fixed is not None and all(fixed):
        return CORRECTED
    return SOME if any(map(all, judged)) else NOT
