"""When a limit counts as relaxed, unchanged or worse: one number a limit, compared with softmax on the same logits.

The thresholds were written down before the chapter's default run was looked at. Known then were softmax's own numbers
from the other chapters: among them, that its largest weight falls with a median exponent near -0.15 on SmolLM2-135M.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from attention_limits import statistics

RELAXED, UNCHANGED, WORSE = "relaxed", "unchanged", "worse"


@dataclass(frozen=True)
class Threshold:
    """``what`` the number is; at ``relaxed`` or beyond the limit is relaxed, at ``worse`` or beyond worse; ``why``."""

    what: str
    relaxed: float
    worse: float
    why: str

    def word(self, number: float) -> str:
        """The word for ``number``. Raises ValueError for NaN, which is no number to judge."""
        if math.isnan(number):
            raise ValueError(f"{self.what}: NaN cannot be judged")
        sign = 1 if self.relaxed > self.worse else -1
        if sign * number >= sign * self.relaxed:
            return RELAXED
        return WORSE if sign * number <= sign * self.worse else UNCHANGED


THRESHOLDS = {
    "length": Threshold(
        "exponent of the largest weight against L, minus softmax's (median over heads)",
        0.1,
        -0.1,
        "Length limits less where the largest weight falls more slowly. 0.1 is a factor of 1.4 over 32 times the "
        "length, the same tolerance as for claim C2.",
    ),
    "geometry": Threshold(
        "N_s/N minus softmax's, N = 16 (median over heads)",
        0.05,
        -0.05,
        "0.05 is a third of the paper's band of 0.70 to 0.85, and less than one token of sixteen (0.0625).",
    ),
    "gradient": Threshold(
        "mean norm of the Jacobian at T = 0.1, over softmax's",
        0.8,
        1.25,
        "A factor of 1.25 is what the tolerance of claim C12, 0.1 in the exponent, makes of a decade of T.",
    ),
}


def judge(
    weights: pd.DataFrame, geometry: pd.DataFrame, norms: pd.DataFrame, *, top_n: int, temperature: float
) -> pd.DataFrame:
    """One line per rule, limit and space (geometry only): its number, 95 % interval over windows, and the word.

    The three tables are those of `compare` with a column ``window``. ``top_n`` and ``temperature`` must be among the
    measured ones. Columns: normaliser, limit, space ("" but for geometry), number, low, high (NaN for one window),
    word. Fewer than three lengths give no power of L, and then no line for the length. Raises KeyError for an N or a
    temperature that was not measured.
    """
    found = [("length", "", powers(weights))] if weights.length.nunique() > 2 else []
    for space, part in geometry[geometry.top_n == top_n].groupby("space", sort=False):
        found.append(("geometry", space, _heads_by_rule(part, "ratio")))
    cold = _heads_by_rule(norms[norms.temperature == temperature], "spectral")
    if cold.empty or len(found) < 1 + (weights.length.nunique() > 2):
        raise KeyError(f"N = {top_n} or T = {temperature} was not measured")
    gains = [
        (limit, space, table.sub(table["softmax"], axis=0).groupby("window").median())
        for limit, space, table in found
    ]
    means = cold.groupby("window").mean()
    gains.append(("gradient", "", means.div(means["softmax"], axis=0)))
    lines = []
    for limit, space, by_window in gains:
        for name, values in by_window.items():
            number, low, high = statistics.interval(values)
            line = {
                "normaliser": name,
                "limit": limit,
                "space": space,
                "number": number,
                "low": low,
                "high": high,
            }
            lines.append(line | {"word": THRESHOLDS[limit].word(number)})
    return pd.DataFrame(lines)


def powers(weights: pd.DataFrame) -> pd.DataFrame:
    """Fitted exponent of the largest weight against the number of keys; a row per window and head, a column a rule.

    ``weights``: the table of `scaling` with a column ``window``. Least squares in log-log; needs two lengths or more.
    """
    columns = {}
    for name, part in weights.groupby("normaliser", sort=False):
        heads = part.pivot(index=["window", "layer", "head"], columns="length", values="largest")
        keys = part.groupby("length")["keys"].first()  # the same rows in every head
        slopes = np.polyfit(np.log(keys), np.log(heads.to_numpy()).T, 1)[0]
        columns[name] = pd.Series(slopes, index=heads.index)
    return pd.DataFrame(columns)


def _heads_by_rule(rows: pd.DataFrame, value: str) -> pd.DataFrame:
    """``value`` with a row per window, layer and head and a column per rule."""
    return rows.pivot(index=["window", "layer", "head"], columns="normaliser", values=value)
