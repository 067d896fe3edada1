"""Two books' records side by side: what may be compared, whose verdict changed, which number moved by how much."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attention_limits import records
from attention_limits.scorecard import CLAIMS, Claim, Finding, ScorecardError, Use, score
from attention_limits.scorecard.score import Reading, Row

Result = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """What a book left behind: its records by notebook, its sources, and what is wrong with records not among them."""

    records: dict[str, dict[str, Any]]
    sources: dict[str, dict[str, Any]]
    faults: dict[str, str]


@dataclass(frozen=True)
class Judged:
    """One claim judged from each book's records (None: they do not allow it), and why the two do not compare."""

    claim: Claim
    reference: Finding | None
    own: Finding | None
    obstacle: str = ""

    @property
    def changed(self) -> bool | None:
        """Whether the verdict or a reading's support differs; None where the two do not compare."""
        if self.obstacle or not self.reference or not self.own:
            return None
        return (self.reference.verdict, self.reference.supports) != (self.own.verdict, self.own.supports)

    @property
    def other_verdict(self) -> bool:
        """Whether the two compare and the verdict itself differs."""
        return bool(
            self.changed and self.reference and self.own and self.reference.verdict != self.own.verdict
        )


@dataclass(frozen=True)
class Pair:
    """A number of both scorecards under one reading: the rows, and their results matched one to one."""

    claim: Claim
    reference: Row
    own: Row
    results: tuple[tuple[Result, Result], ...]

    @property
    def use(self) -> Use:
        """What is judged or shown, and by which rule."""
        return self.own.use

    @property
    def turned(self) -> bool:
        """Whether one book's number meets its rule and the other's does not."""
        return self.reference.met != self.own.met

    @property
    def reading(self) -> Reading:
        """The reading of both."""
        return self.own.reading

    @property
    def differences(self) -> list[float]:
        """Own value minus reference value of each result, in the number's own unit."""
        return [own["value"] - reference["value"] for reference, own in self.results]

    @property
    def apart(self) -> bool:
        """Whether there is one result whose two 95 % intervals have no point in common."""
        (reference, own), *more = self.results
        ends = [reference["low"], reference["high"], own["low"], own["high"]]
        return not more and None not in ends and (ends[0] > ends[3] or ends[2] > ends[1])


def load_run(folder: str | os.PathLike) -> Run | None:
    """Read ``records/*.json`` and ``sources.json`` of a build folder; None where one of the two is not there.

    Raises ValueError for a ``sources.json`` that is damaged; without it nobody knows what the records are of.
    """
    folder = Path(folder)
    paths, sources = sorted(folder.glob("records/*.json")), folder / "sources.json"
    if not paths or not sources.is_file():
        return None
    found, faults = {}, {}
    for path in paths:
        try:
            found[path.stem] = records.load(path)
        except ValueError as error:
            faults[path.stem] = f"damaged: {str(error).removeprefix(f'record {path}: ')}"
    said = _sources(sources)
    for name, record in list(found.items()):
        if other := records.strange(record, said):
            faults[name] = f"not made with what sources.json names: {' and '.join(other)}"
            del found[name]
    return Run(found, said, faults)


def _sources(path: Path) -> dict[str, dict[str, Any]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        for kind in ("model", "text"):
            content[kind]["name"], content[kind]["sha256"]
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(
            f"{path}: not a sources file ({error!r}); delete it and make that book again"
        ) from None
    return content


def obstacles(own: Run, reference: Run) -> dict[str, str]:
    """Why a notebook's results do not compare, by its name: one is missing or damaged, or parameters differ."""
    found = {}
    for name in sorted({*own.records, *own.faults, *reference.records, *reference.faults}):
        for run, whose in ((own, "here"), (reference, "in the reference")):
            if name in run.faults:
                found[name] = f"its record {whose} is {run.faults[name]}"
            elif name not in run.records:
                found[name] = f"there is no record of it {whose}"
        if name not in found and (
            different := _different(*(r.records[name]["parameters"] for r in (own, reference)))
        ):
            found[name] = different
    return found


def _different(own: dict[str, Any], reference: dict[str, Any]) -> str:
    """The parameters that differ, with both values; "" where none does."""
    lacking = object()
    words = []
    for key in sorted(own.keys() | reference.keys()):
        values = [parameters.get(key, lacking) for parameters in (own, reference)]
        if values[0] != values[1]:
            here, there = ("absent" if value is lacking else json.dumps(value) for value in values)
            words.append(f"{key} = {here} here, {there} in the reference")
    return "; ".join(words)


def judge(own: Run, reference: Run, claims: Sequence[Claim] = CLAIMS) -> list[Judged]:
    """Every claim, judged from each book's records alone."""
    against = obstacles(own, reference)
    return [
        Judged(claim, _score(claim, reference), _score(claim, own), _obstacle(claim, against))
        for claim in claims
    ]


def _obstacle(claim: Claim, against: dict[str, str]) -> str:
    return ", ".join(name for name in dict.fromkeys(use.record for use in claim.uses) if name in against)


def _score(claim: Claim, run: Run) -> Finding | None:
    """The finding; None where a record that it needs is missing, or is of another version of this book."""
    try:
        return score(claim, run.records)
    except (ScorecardError, LookupError, ValueError):
        return None


def pairs(own: Run, reference: Run, judged: Sequence[Judged]) -> list[Pair]:
    """Every number of the two scorecards, judged or only shown, where its notebook's parameters are the same."""
    against = obstacles(own, reference)
    found = []
    for both in judged:
        if not both.own or not both.reference:
            continue
        there = {(id(row.use), row.reading): row for row in both.reference.rows}
        for row in both.own.rows:
            other = there.get((id(row.use), row.reading))
            if other and row.use.record not in against and (matched := _matched(other, row)):
                found.append(Pair(both.claim, other, row, matched))
    return found


def _matched(reference: Row, own: Row) -> tuple[tuple[Result, Result], ...]:
    """Results of the same id and reading."""
    there = {_key(result): result for result in reference.results}
    return tuple((there[_key(result)], result) for result in own.results if _key(result) in there)


def _key(result: Result) -> str:
    return json.dumps([result["id"], result["reading"]], sort_keys=True)
