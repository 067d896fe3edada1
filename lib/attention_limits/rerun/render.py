"""The comparison as Markdown and as rows of a chart, for its page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from attention_limits.charts import number
from attention_limits.provenance import escape, files_table, markdown_table, sources_table
from attention_limits.rerun.compare import Judged, Pair, Run
from attention_limits.scorecard import render
from attention_limits.scorecard.score import Row

NO_REFERENCE = (
    "**There is no reference yet**, so nothing is compared on this page. The reference is the book that `make book` "
    "makes, with the paper's text or the embedded one. Run `make book` with the settings that this run had, then the "
    "command of this run again: it makes only this page anew."
)
NOTHING = "There is no reference."
KINDS = ("model", "text")


def setting(own: Run, reference: Run, label: str) -> str:
    """Which model and text each book was made with, and what a difference can come from; ``label`` is this book's."""
    names = [
        f"**{escape(run.sources['model']['name'])}** reading **{escape(run.sources['text']['name'])}**"
        for run in (own, reference)
    ]
    other = [kind for kind in KINDS if own.sources[kind]["sha256"] != reference.sources[kind]["sha256"]]
    same = "where the parameters are too, a difference comes from"
    reason = {
        (): f"Model and text are the same in both, byte for byte: {same} the machine.",
        ("text",): f"The model is the same in both: {same} the text.",
        ("model",): f"The text is the same in both: {same} the model.",
        KINDS: "Model and text both differ: no difference can be put down to one of them alone. "
        "A reference with this book's model would show what the text does: `make book MODEL=... OUT=_build/other`, "
        'and this run again with `ARGS="--config reference=_build/other"`.',
    }
    return f"This book, labelled *{escape(label)}*: {names[0]}. The reference: {names[1]}. {reason[tuple(other)]}"


def verdicts(judged: Sequence[Judged]) -> str:
    """Every claim with both verdicts; a changed one is marked."""
    rows = [
        [
            f"[{both.claim.id}](#{render.anchor(both.claim.id)}): {both.claim.title}",
            *(render.said(finding) if finding else "no verdict" for finding in (both.reference, both.own)),
            _change(both),
        ]
        for both in judged
    ]
    return markdown_table(["The paper's claim", "Reference", "This book", "Change"], rows)


def _change(both: Judged) -> str:
    if both.obstacle:
        return f"not comparable ({escape(both.obstacle)})"
    if both.changed is None:
        return "not comparable"
    if both.other_verdict:
        return "**changed verdict**"
    return "same verdict, other readings" if both.changed else "–"


def counts(judged: Sequence[Judged]) -> str:
    """How many verdicts changed, as a sentence."""
    compared = [both for both in judged if both.changed is not None]
    changed = [both.claim.id for both in compared if both.other_verdict]
    left = len(judged) - len(compared)
    return (
        f"Of {len(compared)} claim{'s' * (len(compared) != 1)} that can be compared, {len(changed)} changed the verdict"
        + (f": {', '.join(changed)}" if changed else "")
        + "."
        + (f" {left} of all {len(judged)} cannot be compared." if left else "")
    )


def numbers(pairs: Sequence[Pair]) -> str:
    """Every number of both scorecards with its interval, and the difference; readings below each other in one cell."""
    rows = []
    uses: dict[int, list[Pair]] = {}  # by identity: two claims may show the same number
    for pair in pairs:
        uses.setdefault(id(pair.use), []).append(pair)
    for same in uses.values():
        cells = [_readings(same, [render.value_words(row) for row in column]) for column in _columns(same)]
        meaning = render.meaning([pair.own for pair in same], same[0].claim.readings)
        rows.append(
            [f"{same[0].claim.id}: {meaning}", *cells, _readings(same, [difference(p) for p in same])]
        )
    return markdown_table(["Number", "Reference [95 % interval]", "This book", "Difference"], rows)


def _columns(pairs: Sequence[Pair]) -> tuple[list[Row], list[Row]]:
    return [pair.reference for pair in pairs], [pair.own for pair in pairs]


def _readings(pairs: Sequence[Pair], words: Sequence[str]) -> str:
    """A line per reading; a single one where every reading says the same."""
    if len(words) > 1 and len(set(words)) == 1:
        return f"all {len(words)} readings: {words[0]}"
    lines = zip(pairs, words, strict=True)
    return "<br>".join((f"{render.reading(p.reading)}: " if p.reading else "") + said for p, said in lines)


def difference(pair: Pair) -> str:
    """This book minus reference; the range where the row has several results. Marks intervals that lie apart."""
    low, high = (signed(end) for end in (min(pair.differences), max(pair.differences)))
    words = low if low == high else f"{low} to {high}"
    return words + (" (intervals apart)" if pair.apart else "") + (" **rule turned**" if pair.turned else "")


def signed(value: float) -> str:
    """A number with its sign; a plain 0 for none."""
    return ("+" if value > 0 else "") + number(value) if value else "0"


def obstacles(found: dict[str, str]) -> str:
    """What does not compare and why; a sentence where all does."""
    if not found:
        return "Every chapter ran with the same parameters in both books."
    rows = [[f"[{name}](#{name})", escape(why)] for name, why in found.items()]
    return markdown_table(["Chapter", "Why its results are not compared"], rows)


def origin(run: Run) -> str:
    """Where one book's model and text came from."""
    return sources_table(run.sources) + "\n\n" + files_table(run.sources)


def points(pairs: Sequence[Pair]) -> pd.DataFrame:
    """A row per matched result of a judged number: both values, their intervals. Counts of violations are left out.

    What two claims judge alike has one row, that of the first.
    """
    rows: dict[Any, dict[str, Any]] = {}
    for pair in pairs:
        if pair.use.rule in ("", "unbroken"):
            continue
        turned = "turned" if pair.turned else "as before"
        for reference, own in pair.results:
            row = {"claim": pair.claim.id, "number": pair.use.meaning or own["meaning"], "rule": turned}
            row["reading"] = ", ".join(f"{key} {value}" for key, value in own["reading"].items())
            which = (pair.use.record, own["id"], row["reading"], own["value"], turned)
            rows.setdefault(which, row | _ends("reference", reference) | _ends("own", own))
    # What turned is drawn last, above the rest.
    return pd.DataFrame(sorted(rows.values(), key=lambda row: row["rule"]))


def _ends(name: str, result: dict[str, Any]) -> dict[str, float]:
    """Value and interval of one result; where there is no interval its ends are the value."""
    low, high = (result["value"] if result[end] is None else result[end] for end in ("low", "high"))
    return {name: result["value"], f"{name}_low": low, f"{name}_high": high}
