"""Headline numbers of whole models out of those of their heads, and trained models against controls."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from attention_limits.statistics import fit_power, interval

_HEAD = ["model", "window", "layer", "head"]


def summarise(rows: pd.DataFrame, by: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """Median, quartiles and maximum over heads, in each window and then averaged over windows.

    ``rows`` has the columns ``by``, ``window`` and ``columns``, a row per head; NaN is left out. One line per group and
    column (``number``): ``median`` with its 95 % interval over windows (``low``, ``high``; NaN for one window),
    ``q25``, ``q75``, ``most`` (the largest head), ``heads`` (per window) and ``windows``. Groups without any value are
    left out.
    """
    table = []
    for key, part in rows.groupby(list(by), sort=False):
        for column in columns:
            windows = part.dropna(subset=[column]).groupby("window")[column]
            if not windows.ngroups:
                continue
            median, low, high = interval(windows.median())
            quartiles = {f"q{level}": windows.quantile(level / 100).mean() for level in (25, 75)}
            line = dict(zip(by, key, strict=True)) | {
                "number": column,
                "median": median,
                "low": low,
                "high": high,
            }
            line |= quartiles | {"most": windows.max().mean()}
            table.append(line | {"heads": int(windows.size().max()), "windows": windows.ngroups})
    return pd.DataFrame(table)


def exponents(heads: pd.DataFrame, lengths: Sequence[int]) -> pd.DataFrame:
    """Fitted powers b of L (weight ~ L^b) of the largest and the median weight of every head, in every window.

    ``heads``: as `compare` gives it; only rows at ``lengths`` are used. Columns: model, window, layer, head,
    ``largest_power``, ``median_power``. A model that was measured at fewer than three of the lengths is left out.
    """
    table = []
    for key, part in heads[heads.length.isin(lengths)].groupby(_HEAD, sort=False):
        if len(part) >= 3:
            powers = {
                f"{name}_power": fit_power(part.length, part[name]).exponent for name in ("largest", "median")
            }
            table.append(dict(zip(_HEAD, key, strict=True)) | powers)
    return pd.DataFrame(table, columns=[*_HEAD, "largest_power", "median_power"])


def against_controls(summary: pd.DataFrame, kinds: pd.Series) -> pd.DataFrame:
    """Do the numbers of the trained models lie apart from those of the controls?

    ``summary``: as `summarise` gives it, one row per model and number; ``kinds``: model -> trained, random or shuffled.
    One line per number that both groups have: ``trained_low``, ``trained_high``, ``control_low``, ``control_high``
    (smallest and largest median); ``word``: `above` or `below` if the medians of all trained models lie there of those
    of all controls, else `among`; ``quartiles``: True if, beyond that, no quartile range (over heads) of a trained
    model meets one of a control.
    """
    table = []
    for number, part in summary.groupby("number", sort=False):
        trained = part.model.map(kinds) == "trained"
        own, other = part[trained], part[~trained]
        if own.empty or other.empty:
            continue
        ends = [f(group["median"]) for group in (own, other) for f in (min, max)]
        word = "above" if ends[0] > ends[3] else "below" if ends[1] < ends[2] else "among"
        clear = min(own.q25) > max(other.q75) if word == "above" else max(own.q75) < min(other.q25)
        table.append((number, *ends, word, bool(word != "among" and clear)))
    names = ["number", "trained_low", "trained_high", "control_low", "control_high", "word", "quartiles"]
    return pd.DataFrame(table, columns=names)
