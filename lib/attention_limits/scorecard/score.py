"""From the records of the chapters to one scored claim: which numbers, under which reading, against which rule."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attention_limits import records
from attention_limits.scorecard.rules import RULES, verdict

Records = Mapping[str, dict[str, Any]]
Results = Sequence[dict[str, Any]]
Parameters = Mapping[str, Any]
Reading = tuple[tuple[str, Any], ...]  # names and values: (("space", "hidden"), ("support", "causal"))


class ScorecardError(Exception):
    """A record lacks what the scorecard needs; the message names record, result and claim."""


@dataclass(frozen=True)
class Use:
    """Results that a claim uses: those named ``id`` of ``record``, judged by ``rule`` (a key of RULES; "" only shows).

    ``derive`` computes results from those (a ratio of two points of a curve, say); they keep the record's format.
    It gets the record's parameters, and returns none where the settings of the run are too small to judge by.
    ``reading`` is added to what the results say themselves. ``corrected`` marks the corrected statement.
    ``bound`` names the field that is judged: "value", or "high" where the whole interval must lie below.
    ``presence``: "record" (default), the record must have the result; "reading", a reading without it is not judged,
    since it needs larger settings; "optional", another use judges that there was nothing to record.
    """

    record: str
    id: str
    rule: str = ""
    meaning: str = ""
    derive: Callable[[Results, Parameters], Results] | None = None
    reading: Mapping[str, str] = field(default_factory=dict)
    corrected: bool = False
    bound: str = "value"
    presence: str = "record"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper in our words, what it is judged by, and where the evidence is.

    ``readings`` names what the verdict is split by; ``evidence`` the labels of pages and figures; ``limits`` what
    a reader must know beside the verdict; ``missing`` the part of the claim that this book does not measure.
    """

    id: str
    title: str
    words: str
    readings: tuple[str, ...] = ()
    uses: tuple[Use, ...] = ()
    evidence: tuple[str, ...] = ()
    limits: str = ""
    missing: str = ""


@dataclass(frozen=True)
class Row:
    """All results of one use under one reading, and whether they meet its rule (None where there is none)."""

    use: Use
    reading: Reading
    results: Results
    met: bool | None
    close: bool


@dataclass(frozen=True)
class Finding:
    """A claim, its rows, the readings that were judged with whether each supports the claim, and the verdict.

    ``open`` names the rules that the run's settings were too small for, under some reading or all of them.
    """

    claim: Claim
    rows: tuple[Row, ...]
    supports: Mapping[Reading, bool]
    verdict: str
    open: tuple[str, ...] = ()


def load_all(folder: str | os.PathLike) -> dict[str, dict[str, Any]]:
    """All records of a folder by notebook. Raises ScorecardError when there is none, ValueError for a broken one."""
    found = {path.stem: records.load(path) for path in sorted(Path(folder).glob("*.json"))}
    if not found:
        raise ScorecardError(
            f"no records (*.json) in {str(folder)!r}: run the chapters first, or `make book`"
        )
    return found


def score(claim: Claim, found: Records) -> Finding:
    """Judge one claim. Raises ScorecardError when a record or result that it uses is missing."""
    rows = [row for use in claim.uses for row in _rows(claim, use, found)]
    printed = [row for row in rows if row.met is not None and not row.use.corrected]
    corrected = [bool(row.met) for row in rows if row.met is not None and row.use.corrected]
    supports: dict[Reading, bool] = {}
    by_reading, lacking = [], set()
    for group in _groups(printed):
        inside = [row for row in printed if _within(row.reading, group)]
        lacks = [u for u in claim.uses if u.presence == "reading" and u not in [row.use for row in inside]]
        if lacks:
            lacking |= {use.rule for use in lacks}
        else:
            by_reading.append([bool(row.met) for row in inside])
            supports[group] = all(by_reading[-1])
    lacking |= {
        u.rule for u in claim.uses if u.presence == "record" and u.rule and u not in [r.use for r in rows]
    }
    word = verdict(by_reading, corrected or None)
    return Finding(claim, tuple(rows), supports, word, tuple(sorted(lacking)))


def score_all(claims: Sequence[Claim], found: Records) -> list[Finding]:
    """All claims, in order."""
    return [score(claim, found) for claim in claims]


def _rows(claim: Claim, use: Use, found: Records) -> list[Row]:
    """One row for each reading of ``claim`` that the results of ``use`` tell apart, in the record's order."""
    if use.record not in found:
        raise ScorecardError(
            f"{claim.id}: there is no record {use.record}.json; found {', '.join(sorted(found))}"
        )
    record = found[use.record]
    results: Results = [r for r in record["results"] if r["id"] == use.id]
    if not results and use.presence == "record":
        raise ScorecardError(f"{claim.id}: record {use.record}.json has no result {use.id!r}")
    if use.derive:
        results = use.derive(results, record["parameters"])
    grouped: dict[Reading, list[dict[str, Any]]] = {}
    for result in results:
        said = {**result["reading"], **use.reading}
        key = tuple((name, said[name]) for name in claim.readings if name in said)
        grouped.setdefault(key, []).append(result)
    return [_row(use, key, part) for key, part in grouped.items()]


def _row(use: Use, reading: Reading, results: Results) -> Row:
    if not use.rule:
        return Row(use, reading, results, None, False)
    rule = RULES[use.rule]
    values = [r["value"] if r[use.bound] is None else r[use.bound] for r in results]
    met = all(rule.met(value) for value in values)
    close = use.bound == "value" and any(rule.close(r["value"], r["low"], r["high"]) for r in results)
    return Row(use, reading, results, met, close)


def _within(part: Reading, whole: Reading) -> bool:
    return set(part) <= set(whole)


def _groups(rows: Sequence[Row]) -> list[Reading]:
    """The readings that no other reading refines: a number given for all spaces counts for each of them."""
    keys = list(dict.fromkeys(row.reading for row in rows))
    return [key for key in keys if not any(_within(key, other) for other in keys if other != key)]
