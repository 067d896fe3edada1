"""The headline numbers of every head of one captured window, on some of its rows, and the bounds checked on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

import pandas as pd
import torch

from attention_limits import kernels, measures, statistics
from attention_limits.capture import SPACES, Capture
from attention_limits.health import numbers
from attention_limits.measures.heads import TINY
from attention_limits.measures.weights import outside_extremes

NUMBERS: Mapping[str, str] = {
    "ratio": "N_s/N",
    "entropy_share": "entropy / log n",
    "first": "weight on the first token",
    "largest": "largest weight",
    "median_n": "median weight times n",
    "gap": "d / E_J",
    "jacobian": "|J|_2 at the model's temperature",
}
CHECKS: Mapping[str, str] = {
    "extremes": "Lemma 1 and Corollary 1",
    "distance": "Theorem 1, bound of d",
    "sandwich": "Theorem 1, sandwich of d",
    "gradient": "Corollary 3, corrected",
}
_HEAD = ["layer", "head"]


@dataclass(frozen=True)
class Plan:
    """What is measured of a model.

    ``lengths``: context lengths L, read from ``windows`` windows (controls: one window). ``long_lengths``: further,
    longer ones, one window, trained models only. ``rows``: at least so many rows of (L/2, L] are measured per window
    and length, evenly spaced (all, where there are fewer). ``top_n``: N of N_s/N and of Theorem 1's check. ``space``:
    what x_i is. ``seed``: of random and shuffled weights. Raises ValueError that names parameter, value and what is
    allowed.
    """

    lengths: Sequence[int]
    long_lengths: Sequence[int] = ()
    windows: int = 1
    rows: int = 16
    top_n: int = 16
    space: str = "hidden"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("windows", 1), ("rows", 1), ("top_n", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        if self.space not in SPACES:
            raise ValueError(f"space is {self.space!r}; it must be one of {', '.join(SPACES)}")
        least = max(4, 2 * self.top_n)
        if not self.lengths or min(self.lengths) < least:
            raise ValueError(
                f"lengths are {list(self.lengths)}; there must be one or more, each at least {least} (top_n is "
                f"{self.top_n}, and every row needs more keys)"
            )
        if self.long_lengths and min(self.long_lengths) < least:
            raise ValueError(f"long_lengths are {list(self.long_lengths)}; each must be at least {least}")

    def stride(self, length: int) -> int:
        """Every how-many-th row of (L/2, L] is measured at a context length."""
        return max(1, length // 2 // self.rows)


def prefix(seen: Capture, length: int) -> Capture:
    """The capture of the first ``length`` tokens: those of a causal model do not depend on later ones. No copies."""
    layers = tuple(
        replace(
            part,
            q=part.q[:, :length],
            k=part.k[:, :length],
            v=part.v[:, :length],
            hidden=part.hidden[:length],
        )
        for part in seen.layers
    )
    return Capture(seen.ids[:length], seen.embedding[:length], layers)


def headline(seen: Capture, plan: Plan) -> pd.DataFrame:
    """A row per head, means over every `plan.stride`-th row n of (L/2, L], L the window's length.

    Columns: layer, head; ``ratio`` (N_s/N at N = top_n, Algorithm 4), ``entropy_share`` (entropy / log n), ``first``
    (weight on the first token), ``largest`` and ``median`` weight and ``median_n``, the median weight times n
    (geometric means; equal weights give 1), ``gap`` (d / E_J at N = top_n; NaN where E_J is 0), ``critical_n`` (NaN:
    none; `statistics.crossing` over N = 1, 2, 4, ..., top_n and L - 1), ``jacobian`` (|J|_2 at the model's own
    temperature); ``rows``, and ``extremes``, how many of them break Lemma 1's exact extremes or Corollary 1 beyond
    rounding. d and E_J take every fourth of the rows, see `attention_limits.health.numbers.measure`.
    """
    stride = plan.stride(seen.length)
    table, curves = numbers.measure(seen, seen.heads(), top_n=plan.top_n, space=plan.space, stride=stride)
    critical = [
        (*key, statistics.crossing(part.top_n, part.d, part.expected)) for key, part in curves.groupby(_HEAD)
    ]
    here = curves[curves.top_n == plan.top_n]
    gaps = here.assign(gap=here.d / here.expected.where(here.expected > 0))[[*_HEAD, "gap"]]
    visible = numbers.rows_at(seen.length, stride)
    weights = pd.DataFrame([_weights(seen, layer, head, visible) for layer, head in seen.heads()])
    table = table[[*_HEAD, "ratio", "entropy_share", "first", "jacobian"]]
    critical = pd.DataFrame(critical, columns=[*_HEAD, "critical_n"]).astype({"critical_n": float})
    for part in (critical, gaps, weights):
        table = table.merge(part, on=_HEAD, validate="one_to_one")
    return table


def _geometric_mean(values: torch.Tensor) -> float:
    return float(values.clamp(min=TINY).log().mean().exp())


def _weights(seen: Capture, layer: int, head: int, visible: torch.Tensor) -> dict[str, float]:
    """Geometric means of a head's largest and median weight, and how many rows break their bounds."""
    part = seen.layers[layer]
    visible = visible.to("cpu" if part.q.device.type == "mps" else part.q.device)
    logits, weights = numbers.head_weights(part, head, visible)
    largest, median, smallest, _, spread = kernels.weight_rows(logits, weights, visible)
    twice = numbers.log10_crossover(part, head, visible) * log(10)  # 2D/T of Corollary 1
    _, broken = outside_extremes(largest, smallest, spread, visible, twice)
    means = {
        "largest": _geometric_mean(largest),
        "median": _geometric_mean(median),
        "median_n": _geometric_mean(median * visible),
    }
    return {"layer": layer, "head": head, **means, "rows": len(visible), "extremes": int(broken.sum())}


def violations(seen: Capture, plan: Plan) -> dict[str, int]:
    """How many rows of a window break Theorem 1 (bound, sandwich; N = top_n) and Corollary 3 (T = 1, eps = 0.1).

    Every L/(2 rows)-th row of the whole window, all heads: ``norm_rows`` of them for Corollary 3, ``distance_rows``
    (n > N) for Theorem 1. ``printed`` counts the rows above the paper's printed bound of |J|_2, min{1/(4T), sqrt 2}.
    """
    stride = plan.stride(seen.length)
    far = measures.distances(
        seen,
        spaces=[plan.space],
        supports=["causal"],
        lengths=[seen.length],
        top_ns=[plan.top_n],
        stride=stride,
    )
    steep = measures.sensitivity(
        seen, logits=["model"], temperatures=[1.0], epsilons=[0.1], seed=plan.seed, stride=stride
    )
    return {
        "distance_rows": int(far.rows.sum()),
        "distance": int(far.violations.sum()),
        "sandwich": int(far.sandwich_violations.sum()),
        "norm_rows": int(steep.rows.sum()),
        "gradient": int(steep.violations.sum()),
        "printed": int(steep.printed_violations.sum()),
    }
