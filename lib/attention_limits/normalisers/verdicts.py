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
        "Length limits less where the largest weight falls more slowly. 0.1 is a factor of 1.4 where the length "
        "grows 32 times, the same tolerance as for claim C2.",
    ),
    "geometry": Threshold(
        "N_s/N minus softmax's at the same N, N = 16 (median over heads)",
        0.05,
        -0.05,
        "0.05 is a third of the paper's band of 0.70 to 0.85, and at N = 16 less than one token (0.0625).",
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
    """One line per rule, limit, space and selection: its number, 95 % interval over windows, and the word.

    Space and selection are "" but for geometry, which has two selections: ``top N`` compares N_s/N at N = ``top_n``;
    ``own support`` selects only tokens with a weight above zero, and takes softmax at that smaller number of tokens.

    The three tables are those of `compare` with a column ``window``. Columns: normaliser, limit, space, selection,
    number, low, high (NaN for one window), word. Fewer than three lengths give no power of L, and then no line for the
    length. Raises KeyError for a ``top_n`` or ``temperature`` that was not measured.
    """
    cold = norms[norms.temperature == temperature]
    chosen = geometry[geometry.top_n == top_n]
    if cold.empty or chosen.empty:
        raise KeyError(f"N = {top_n} or T = {temperature} was not measured")
    gains = []
    if weights.length.nunique() > 2:
        table = powers(weights)
        gains.append(("length", "", "", table.sub(table["softmax"], axis=0).groupby("window").median()))
    for space, part in chosen.groupby("space", sort=False):
        ratio = _heads_by_rule(part, "ratio")
        gain = {"top N": ratio.sub(ratio["softmax"], axis=0)}
        gain["own support"] = _heads_by_rule(part, "own") - _heads_by_rule(part, "matched")
        gains += [("geometry", space, name, table.groupby("window").median()) for name, table in gain.items()]
    means = _heads_by_rule(cold, "spectral").groupby("window").mean()
    gains.append(("gradient", "", "", means.div(means["softmax"], axis=0)))
    lines = []
    for limit, space, selection, by_window in gains:
        for name, values in by_window.items():
            number, low, high = statistics.interval(values)
            key = {"normaliser": name, "limit": limit, "space": space, "selection": selection}
            word = THRESHOLDS[limit].word(number)
            lines.append(key | {"number": number, "low": low, "high": high, "word": word})
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
    """``value`` with a row per window, layer and head and a column per rule, in the rules' order."""
    table = rows.pivot(index=["window", "layer", "head"], columns="normaliser", values=value)
    return table[rows.normaliser.unique()]
