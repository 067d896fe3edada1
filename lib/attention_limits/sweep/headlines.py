"""Which of a sweep's numbers are drawn against the length."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

# For each chapter: a result's id, what its reading must be, and its name in the figure.
HEADLINES: dict[str, list[tuple[str, dict[str, Any], str]]] = {
    "algorithm-1": [
        ("bound.tightness", {}, "bound / d"),
        ("growth.mean_d_end", {}, "d per unselected token"),
        ("growth.count_share", {}, "share of the number of terms in d"),
        ("growth.r2", {}, "R² of d = a + b L"),
    ],
    "algorithm-2": [
        ("curve.tightness", {"top_n": 5}, "bound / d at N = 5"),
        ("curve.expected_over_d", {"top_n": 5}, "random sets / d at N = 5"),
    ],
    "algorithm-4": [
        ("ratio.median", {"top_n": 16}, "share told apart at N = 16, median head"),
        ("coverage.union", {"heads": 3, "top_n": 16}, "share told apart by three heads at N = 16"),
        (
            "coverage.shared",
            {"heads": 3, "top_n": 16},
            "share told apart of the tokens that all three heads selected, N = 16",
        ),
    ],
    "algorithm-5": [
        ("fit.exponent_spectral", {}, "power of T in the Jacobian's norm, largest head"),
        ("heads.exponent_median", {"epsilon": 0.001}, "power of T in g, median head"),
        ("printed.share", {"temperature": 1.0}, "share of rows above the printed bound at T = 1"),
    ],
    "health": [
        ("heads.selective", {}, "selective heads"),
        ("heads.saturated", {}, "saturated heads"),
        ("heads.diffuse", {}, "diffuse heads"),
        ("heads.sink", {}, "sink heads"),
        ("median.entropy_share", {}, "entropy / log n, median head"),
        ("median.first", {}, "weight on the first token, median head"),
        ("median.mass90", {}, "tokens with 90 % of the weight, median head"),
    ],
}
_PLAIN = ("space", "support", "logits")  # readings whose values speak for themselves


def headlines(results: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """The numbers worth drawing, tidy: number, series (model, text and further settings), length, value, low, high.

    They are those of HEADLINES; of a chapter that has none there, its first three results. Raises ValueError where
    there is no result at all.
    """
    import pandas as pd

    if results.empty:
        raise ValueError("The sweep has no result yet: no job is done; cells.csv says why.")

    others = dict(zip(cells.label, cells.others, strict=True))
    called = {kind: _called(cells, kind) for kind in ("model", "text")}
    rows = []
    for line in results.itertuples():
        for id, needed, name in HEADLINES.get(line.chapter) or _first(results, line.chapter):
            if line.id != id or not needed.items() <= line.reading.items():
                continue
            kept = ((key, part) for key, part in line.reading.items() if key not in needed)
            rest = ", ".join(str(part) if key in _PLAIN else f"{key} = {part}" for key, part in kept)
            series = ", ".join(called[kind][line.label] for kind in called)
            series += f", {_settings(others[line.label])}" if others[line.label] else ""
            number = f"{line.chapter}: {name}" + (f" ({rest})" if rest else "")
            rows.append([number, series, line.length, line.value, line.low, line.high])
    frame = pd.DataFrame(rows, columns=["number", "series", "length", "value", "low", "high"])
    return frame.drop_duplicates(["number", "series", "length"]).sort_values(
        "length", kind="stable", ignore_index=True
    )


def _called(cells: pd.DataFrame, kind: str) -> dict[str, str]:
    """What the model or text of each label is called: its name, with its hash where others have that name."""
    known = cells.drop_duplicates("label").set_index("label")
    hashes = known.groupby(kind)[f"{kind}_sha256"].transform("nunique")
    marked = known[kind] + " (" + known[f"{kind}_sha256"].str[:7] + ")"
    return known[kind].where(hashes < 2, marked).to_dict()


def _first(results: pd.DataFrame, chapter: str) -> list[tuple[str, dict[str, Any], str]]:
    return [(id, {}, id) for id in results[results.chapter == chapter].id.unique()[:3]]


def _settings(others: str) -> str:
    return ", ".join(f"{name} = {value}" for name, value in json.loads(others).items())
