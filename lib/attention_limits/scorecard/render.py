"""The scorecard as Markdown for the pages: a summary, one block per claim, the rules, and the runtimes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from attention_limits.charts import number
from attention_limits.provenance import escape, markdown_table
from attention_limits.scorecard.rules import RULES, VERDICTS
from attention_limits.scorecard.runtimes import PAPER_MACHINE, PAPER_SETTING, Runtime, in_words
from attention_limits.scorecard.score import Finding, Row, Use

MET, FAILED = "✓", "✗"
SUPPORTS = {True: "supports it", False: "does not"}


def anchor(claim: str) -> str:
    """Label of the claim's section on the scorecard page."""
    return f"scorecard-{claim.lower()}"


def summary(findings: Sequence[Finding]) -> str:
    """Every claim in a line: link, what it says, verdict."""
    rows = [[f"[{f.claim.id}](#{anchor(f.claim.id)})", f.claim.title, said(f)] for f in findings]
    return markdown_table(["", "The paper's claim", "Verdict"], rows)


def counts(findings: Sequence[Finding]) -> str:
    """How many claims got which verdict, as a sentence."""
    numbers = {word: sum(f.verdict == word for f in findings) for word in VERDICTS}
    return "; ".join(f"*{word}*: {count}" for word, count in numbers.items() if count)


def said(finding: Finding) -> str:
    """The verdict with how many readings support the claim, and whether a part is open."""
    words = f"**{finding.verdict}**"
    if len(finding.supports) > 1:
        words += f" ({sum(finding.supports.values())} of {len(finding.supports)})"
    return words + (" *in part*" if finding.claim.missing and finding.rows else "")


def block(finding: Finding) -> str:
    """All of one claim: words, verdict, what it is judged by, every number, the limits and the evidence."""
    claim = finding.claim
    parts = [f"**Claim.** {claim.words}", f"**Verdict:** {said(finding)}."]
    if finding.open:
        unjudged = ", ".join(f"*{RULES[key].what}*" for key in finding.open)
        parts.append(
            f"The settings of this run are too small to judge, for some or all readings: {unjudged}."
        )
    if claim.missing:
        parts.append(f"**Not measured here:** {claim.missing}")
    if finding.rows:
        parts += [_rules(finding), _numbers(finding)]
    parts += _readings(finding)
    if claim.limits:
        parts.append(f"**Mind:** {claim.limits}")
    if claim.evidence:
        parts.append("**Evidence:** " + ", ".join(link(label) for label in claim.evidence) + ".")
    return "\n\n".join(parts)


def link(label: str) -> str:
    """A reference to a figure, by chapter and name (every chapter has a Figure 1), or to a numbered statement."""
    figure = re.fullmatch(r"fig-([a-z]+(?:-\d)?)-(.+)", label)
    if not figure:
        return f"{{prf:ref}}`{label}`"
    chapter, name = (part.replace("-", " ") for part in figure.groups())
    return f"[{chapter.capitalize()}, {name}](#{label})"


def _readings(finding: Finding) -> list[str]:
    """Which readings support the claim, where they differ."""
    good = [reading(group) for group, met in finding.supports.items() if met]
    bad = [reading(group) for group, met in finding.supports.items() if not met]
    if not good or not bad:
        return []
    return [f"**Readings** that support it: {'; '.join(good)}. That do not: {'; '.join(bad)}."]


def _rules(finding: Finding) -> str:
    used = dict.fromkeys(use.rule for use in finding.claim.uses if use.rule)
    return "**Rule.** " + " ".join(f"*{RULES[key].what}*: {RULES[key].words()}." for key in used)


def _numbers(finding: Finding) -> str:
    """One line per number, its readings below each other in one cell: that fits a phone."""
    lines = []
    for use in finding.claim.uses:
        rows = [row for row in finding.rows if row.use is use]
        if rows:
            lines.append([meaning(rows, finding.claim.readings), needed(use), "<br>".join(measured(rows))])
    return markdown_table(["Number", "Needed", "Measured [95 % interval]"], lines)


def meaning(rows: Sequence[Row], readings: Sequence[str]) -> str:
    """What the number is, of which record, and what is the same for all readings: n, and where it was taken."""
    use, first = rows[0].use, rows[0].results[0]
    results = [r for row in rows for r in row.results]
    same = [
        (name, part)
        for name, part in first["reading"].items()
        if name not in readings and all(r["reading"].get(name) == part for r in results)
    ]
    notes = [f"[{use.record}](#{use.record})", *([reading(same)] if same else [])]
    if use.rule != "unbroken" and first["n"] and {r["n"] for r in results} == {first["n"]}:
        notes.append(f"n = {number(first['n'])}")
    return f"{escape(use.meaning or first['meaning'])} ({', '.join(notes)})"


def needed(use: Use) -> str:
    """The range that the number must lie in, in words; a dash for one that is only shown."""
    if not use.rule:
        return "–"
    return RULES[use.rule].words() + (" (corrected)" if use.corrected else "")


def reading(parts: Iterable[tuple[str, Any]]) -> str:
    """A reading in words: "hidden, causal"; numbers keep their names."""
    return ", ".join(escape(v) if isinstance(v, str) else f"{k.replace('_', ' ')} {v:g}" for k, v in parts)


def measured(rows: Sequence[Row]) -> list[str]:
    """One line per reading with its value; a single line where every reading says the same."""
    words = [value_words(row) for row in rows]
    if len(rows) > 1 and len(set(words)) == 1:
        return [f"all {len(rows)} readings: {words[0]}"]
    return [
        (f"{reading(row.reading)}: " if row.reading else "") + w for row, w in zip(rows, words, strict=True)
    ]


def value_words(row: Row) -> str:
    """Value with its interval, and whether the rule is met. Several numbers are given by their range."""
    low, high = (pick(r["value"] for r in row.results) for pick in (min, max))
    first, words = row.results[0], number(low)
    if len(row.results) > 1:
        words = (words if low == high else f"{words} to {number(high)}") + f" ({len(row.results)} numbers)"
    elif first["low"] is not None and first["high"] is not None:
        words += f" [{number(first['low'])}, {number(first['high'])}]"
    if row.use.rule == "unbroken" and all(r["n"] for r in row.results):
        words += f" of {number(sum(r['n'] for r in row.results))}"
    if row.met is not None:
        words += f" {MET if row.met else FAILED}" + (" (close call)" if row.close else "")
    return words


def matrix(findings: Sequence[Finding]) -> list[dict[str, str]]:
    """One row per claim and reading that has a space: what a picture of the verdicts by reading shows.

    ``column`` is the claim's id, with the last word of what else the reading says where that differs.
    """
    cells = []
    for finding in findings:
        split = [(dict(group), met) for group, met in finding.supports.items() if "space" in dict(group)]
        for said, met in split:
            where = ", ".join(str(said.pop(name)) for name in ("space", "support") if name in said)
            rest = reading(said.items())
            cells.append(
                {"claim": finding.claim.id, "rest": rest, "reading": where, "supports": SUPPORTS[met]}
            )
    several = {
        c["claim"] for c in cells for d in cells if c["claim"] == d["claim"] and c["rest"] != d["rest"]
    }
    for cell in cells:
        words = [cell["claim"], *(cell["rest"].split()[-1:] if cell["claim"] in several else [])]
        cell["column"] = " ".join(words)
    return cells


def rules_table() -> str:
    """Every rule with its range and the reason for it."""
    return markdown_table(
        ["A number of this kind", "supports a claim if it is", "Why there"],
        [[escape(rule.what), rule.words(), escape(rule.why)] for rule in RULES.values()],
    )


def runtimes_table(times: Sequence[Runtime], machine: str, setting: str) -> str:
    """The paper's runtimes beside ours; both settings are named in the head, since they differ."""
    rows = [
        [
            f"[{time.notebook.replace('algorithm-', 'Algorithm ')}](#{time.notebook})",
            in_words(60 * time.paper_minutes) + (" (parallel)" if time.notebook == "algorithm-3" else ""),
            "not run" if time.seconds is None else in_words(time.seconds),
        ]
        for time in times
    ]
    head = ["", f"Paper: {PAPER_SETTING}; {PAPER_MACHINE}", f"Here: {escape(setting)}; {escape(machine)}"]
    return markdown_table(head, rows)
