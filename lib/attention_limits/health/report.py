"""The health report: a table of heads, the verdicts with their rules, guidelines, and one JSON file.

Format (schema 1)::

    {"schema": 1, "kind": "attention health",
     "settings": {"model": "name", "text": "name", "length": 256, "windows": 1, "rows": 32, "stride": 4, "top_n": 16,
                  "space": "hidden"},
     "rules": [{"verdict": "sink", "column": "first", "threshold": 0.5, "below": false, "why": "..."}, ...],
     "counts": {"selective": 3, "saturated": 2, "diffuse": 0, "sink": 3},
     "guidelines": {"top_k": 12, "top_k_most": 40, "growth": 0.7, "watch": [[layer, head], ...], "sharp": [...]},
     "heads": [{"layer": 0, "head": 0, "verdict": "sink", "watch": false, "sharp": false, "entropy": 1.2,
                "entropy_low": 1.1, "entropy_high": 1.3, ..., "critical_n": null}, ...]}

Heads have the numbers of ``NUMBERS`` (see :func:`.numbers.measure`); ``..._low`` and ``..._high`` are 95 % intervals
over windows, absent with one window; ``critical_n`` is null where no tried N is one. Numbers keep 8 significant digits,
verdicts are judged on these, and no time, path or machine is recorded.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from attention_limits import statistics
from attention_limits.atomic import write_text

from . import rules

SCHEMA, KIND = 1, "attention health"
SETTINGS = ("model", "text", "length", "windows", "rows", "stride", "top_n", "space")
# Column and what it says, for the printed table and for figures.
NUMBERS = {
    "entropy": "entropy (nats)",
    "entropy_share": "entropy / log n",
    "support": "effective support exp(entropy) (tokens)",
    "first": "weight on the first token",
    "ratio": "share told apart, Nₛ/N",
    "jacobian": "|J|₂ at the model's temperature",
    "crossover": "log10 of the crossover length",
    "largest": "largest weight",
    "logit_sd": "standard deviation of the logits",
    "mass90": "tokens with 90 % of the weight",
    "mass90_half": "the same at half the context length",
}
_SHOWN = 20  # heads that a printed report lists


@dataclass(frozen=True)
class Report:
    """Numbers and verdict of every head that was asked for.

    ``table``: a row per head with layer, head, verdict, watch, sharp, ``NUMBERS`` and ``critical_n`` (pandas NA where
    there is none). ``curves``: d and E_J against N (see :func:`.numbers.measure`); empty in a loaded report.
    """

    settings: dict[str, Any]
    table: pd.DataFrame
    curves: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False)

    @property
    def rules(self) -> str:
        """The rules of verdict, watch and sharp with thresholds and reasons."""
        return rules.printed()

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many heads have each verdict."""
        return {name: int((self.table.verdict == name).sum()) for name in rules.VERDICTS}

    @cached_property
    def guidelines(self) -> dict[str, Any]:
        """top_k, top_k_most, growth, and the heads to watch and too sharp: see :meth:`advice` for what they mean."""
        typical = self.table.mass90.median()
        growth = math.log2(typical / self.table.mass90_half.median())
        return {
            "top_k": math.ceil(typical),
            "top_k_most": math.ceil(self.table.mass90.quantile(0.9)),
            "growth": _rounded(growth),
            "watch": self._places("watch"),
            "sharp": self._places("sharp"),
        }

    @property
    def pace(self) -> str:
        """The growth in words; a power within 0.1 of one is about linear, since ``mass90`` counts whole tokens."""
        growth = self.guidelines["growth"]
        return (
            "about linear" if abs(growth - 1) <= 0.1 else "sub-linear" if growth < 1 else "faster than linear"
        )

    @property
    def advice(self) -> str:
        """The paper's three guidelines, applied: each says what is the paper's and what is ours."""
        found, length = self.guidelines, self.settings["length"]
        watched, sharp = found["watch"], found["sharp"]
        return rules.wrapped(
            [
                "The paper: keep the active set sub-linear in the context length.",
                f"  Measured: {found['top_k']} tokens hold 90 % of the weight in the median head at L = {length}, "
                f"{found['top_k_most']} in the head at the 90 % quantile. From L/2 to L the median grows like "
                f"L^{found['growth']:.2f} ({self.pace}).",
                f"  Suggested top-k (ours): {found['top_k']} for the median head, {found['top_k_most']} if one k "
                "serves nine heads in ten.",
                "The paper: watch entropy and N_s/N.",
                f"  Heads to watch, close to another verdict (ours): {_listed(watched)}.",
                "The paper: avoid T < 0.1.",
                f"  Heads too sharp (ours): {_listed(sharp)}.",
            ]
        )

    def save(self, path: str | os.PathLike) -> None:
        """Write the JSON file, whole or not at all; an empty ``path`` writes nothing. Raises `atomic.WriteError`."""
        if path:
            write_text(path, json.dumps(self.to_json(), indent=1, ensure_ascii=False, allow_nan=False) + "\n")

    def to_json(self) -> dict[str, Any]:
        """The report as plain JSON values (schema at the top of this module)."""
        heads = [
            {key: None if pd.isna(value) else value for key, value in row.items()}
            for row in self.table.astype(object).to_dict("records")
        ]
        return {
            "schema": SCHEMA,
            "kind": KIND,
            "settings": dict(self.settings),
            "rules": [asdict(rule) for rule in rules.RULES],
            "counts": self.counts,
            "guidelines": self.guidelines,
            "heads": heads,
        }

    def __str__(self) -> str:
        given, total = self.settings, len(self.table)
        columns = ["layer", "head", "verdict", "watch", "sharp", *NUMBERS, "critical_n"]
        shown = self.table.head(_SHOWN)[columns].astype({"critical_n": object}).fillna({"critical_n": "none"})
        left_out = f"\n... and {total - _SHOWN} more heads in .table" if total > _SHOWN else ""
        return "\n".join(
            [
                f"Attention health of {given['model']} reading {given['text']}: {total} heads, {given['windows']} "
                f"window(s) of {given['length']} tokens, {given['rows']} rows each, N = {given['top_n']}, "
                f"{given['space']}",
                ", ".join(f"{name} {count}" for name, count in self.counts.items()),
                "\nRules, the first that holds:",
                self.rules,
                "\nGuidelines:",
                self.advice,
                "",
                shown.to_string(index=False, float_format="%.3g") + left_out,
            ]
        )

    def _places(self, column: str) -> list[list[int]]:
        return self.table.loc[self.table[column], ["layer", "head"]].astype(int).values.tolist()


def judged(settings: dict[str, Any], measured: pd.DataFrame, curves: pd.DataFrame) -> Report:
    """Report from the two tables of :func:`.numbers.measure`, several windows stacked with a column ``window``."""
    key = ["layer", "head"]
    means = statistics.over_windows(measured, key, list(NUMBERS))
    if settings["windows"] == 1:  # one window has no interval
        means = means[[*key, *NUMBERS]]
    numbers = means.columns.difference(key, sort=False)
    means[numbers] = means[numbers].map(_rounded)
    curves = curves.groupby([*key, "top_n"], sort=False)[["d", "expected"]].mean().reset_index()
    critical = [
        statistics.crossing(part.top_n.tolist(), part.d.tolist(), part.expected.tolist())
        for _, part in curves.groupby(key, sort=False)
    ]
    rows = means.to_dict("records")
    judgement = {
        "verdict": [rules.verdict(row) for row in rows],
        "watch": [rules.to_watch(row) for row in rows],
        "sharp": [rules.too_sharp(row) for row in rows],
    }
    table = pd.concat([means[key], pd.DataFrame(judgement), means[numbers]], axis=1)
    return Report(settings, table.assign(critical_n=pd.array(critical, dtype="Int64")), curves)


def load(path: str | os.PathLike) -> Report:
    """Read and check a saved report. Raises ValueError that names the file and the first thing wrong with it."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        return from_json(content)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"health report {path}: {error}") from error


def from_json(content: Any) -> Report:
    """The report in ``content``; ValueError unless it follows the schema and its verdicts follow from its numbers."""
    if not isinstance(content, dict) or (content.get("schema"), content.get("kind")) != (SCHEMA, KIND):
        raise ValueError(f"not an {KIND} report of schema {SCHEMA}")
    if set(content) != {"schema", "kind", "settings", "rules", "counts", "guidelines", "heads"}:
        raise ValueError(f"unexpected or missing keys: {sorted(content)}")
    if set(content["settings"]) != set(SETTINGS):
        raise ValueError(f"settings must be {list(SETTINGS)}, got {sorted(content['settings'])}")
    if not content["heads"]:
        raise ValueError("there is no head")
    for row in content["heads"]:
        _check_head(row, content["settings"]["windows"])
    table = pd.DataFrame(content["heads"])
    report = Report(content["settings"], table.assign(critical_n=table.critical_n.astype("Int64")))
    for part in ("rules", "counts", "guidelines"):
        if content[part] != report.to_json()[part]:
            raise ValueError(f"{part} are not those that follow from the heads: {content[part]}")
    return report


def _check_head(row: dict[str, Any], windows: int) -> None:
    """Raise ValueError unless the row has all numbers, finite, and the verdict that follows from them."""
    place = f"layer {row.get('layer')}, head {row.get('head')}"
    ends = ("", "_low", "_high") if windows > 1 else ("",)
    wanted = [f"{name}{end}" for name in NUMBERS for end in ends]
    other = ("layer", "head", "verdict", "watch", "sharp", "critical_n")
    if set(row) != {*wanted, *other}:
        raise ValueError(f"{place}: unexpected or missing keys {sorted(set(row) ^ {*wanted, *other})}")
    for name in wanted:
        is_number = isinstance(row[name], int | float) and not isinstance(row[name], bool)
        if not is_number or not math.isfinite(row[name]):
            raise ValueError(f"{place}: {name} = {row[name]!r} is not a finite number")
    own = (rules.verdict(row), rules.to_watch(row), rules.too_sharp(row))
    if (row["verdict"], row["watch"], row["sharp"]) != own:
        raise ValueError(
            f"{place}: verdict {row['verdict']!r} does not follow from its numbers, {own[0]!r} does"
        )


def _rounded(value: float) -> float:
    return float(f"{value:.8g}")


def _listed(places: list[list[int]]) -> str:
    """Heads as layer.head, at most twenty of them."""
    names = [f"{layer}.{head}" for layer, head in places[:_SHOWN]]
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return f"{len(places)}" + (f" (layer.head: {', '.join(names)}{more})" if names else "")
