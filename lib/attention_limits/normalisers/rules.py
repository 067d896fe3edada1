"""The rules: from rows of logits to rows of weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import entmax
import torch

from attention_limits.kernels import columns_seen

KINDS = ("softmax", "sparsemax", "1.5-entmax", "SSMax", "SA-Softmax")
# At temperature one a token this far below the row's largest logit has weight zero under both sparse rules (they end at
# 1 and 2 below). Logits beyond are raised to here, which changes no weight and keeps the sums of squares small.
_ZERO_BELOW = 4.0


@dataclass(frozen=True)
class Normaliser:
    """One rule. ``kind`` is one of KINDS; ``scale`` is s of Scalable-Softmax and one for all others.

    Every rule gets the logits divided by the temperature: softmax(l / T), sparsemax(l / T), and so on; SSMax gets
    s log(n) l / T, n being the number of keys of the row. The factor of SA-Softmax does not depend on T.
    """

    kind: str
    scale: float = 1.0

    @property
    def name(self) -> str:
        """``kind``, with s in brackets for Scalable-Softmax."""
        return f"{self.kind}({self.scale:g})" if self.kind == "SSMax" else self.kind

    @property
    def positive(self) -> bool:
        """Whether every weight is above zero (softmax, SSMax)."""
        return _RULES[self.kind] is _exponential

    def weights(self, logits: torch.Tensor, visible: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
        """Weights of each row over its first ``visible[r]`` columns, zeros after them.

        logits: (R, L) float64; visible: (R,) int64, each at least one; returns (R, L) float64. Rows sum to one, but for
        SA-Softmax, whose rows sum to at most one. Raises ValueError for a temperature that is not above zero.
        """
        if not temperature > 0:
            raise ValueError(f"temperature is {temperature}; it must be above 0")
        hidden = ~columns_seen(logits, visible)
        return _RULES[self.kind](self, logits, hidden, temperature)

    def sharpness(self, visible: torch.Tensor, temperature: float) -> torch.Tensor:
        """What a row's logits are multiplied by: 1/T, for SSMax s log(n)/T; (R,) float64."""
        ones = torch.ones_like(visible, dtype=torch.float64)
        grown = self.scale * torch.log(visible.double()) if self.kind == "SSMax" else ones
        return grown / temperature


def normalisers(scales: Sequence[float]) -> list[Normaliser]:
    """Every rule, softmax first; Scalable-Softmax once per s in ``scales`` (ValueError unless all are above 0)."""
    if not scales or min(scales) <= 0 or len(set(scales)) < len(scales):
        raise ValueError(f"scales are {list(scales)}; there must be one or more, all above 0 and different")
    rules = []
    for kind in KINDS:
        rules += [Normaliser(kind, float(s)) for s in (scales if kind == "SSMax" else [1.0])]
    return rules


def _exponential(rule: Normaliser, logits: torch.Tensor, hidden: torch.Tensor, temperature: float):
    """softmax and SSMax: alpha_i = exp(c l_i) / sum_j exp(c l_j) with c from `sharpness`."""
    scores = logits * rule.sharpness((~hidden).sum(1), temperature)[:, None]
    return scores.masked_fill(hidden, -torch.inf).softmax(1)


def _sparse(rule: Normaliser, logits: torch.Tensor, hidden: torch.Tensor, temperature: float):
    """sparsemax: [z_i - tau]_+; 1.5-entmax: [z_i/2 - tau]_+^2; z = l/T, tau such that the row sums to one."""
    seen = logits.masked_fill(hidden, -torch.inf)
    scores = ((seen - seen.amax(1, keepdim=True)) / temperature).clamp(min=-_ZERO_BELOW)
    function = entmax.sparsemax if rule.kind == "sparsemax" else entmax.entmax15
    return function(
        scores, dim=-1, k=64
    )  # k: how many are sorted at first; more only where the support needs it


def _self_adjust(rule: Normaliser, logits: torch.Tensor, hidden: torch.Tensor, temperature: float):
    """softmax(l/T)_i * f_i with f_i = (l_i - min(l_min, 0)) / (max(l_max, 0) - min(l_min, 0)), between 0 and 1."""
    return _exponential(rule, logits, hidden, temperature) * factors(logits, hidden)


def factors(logits: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    """f_i of SA-Softmax, (R, L); zero where hidden. A row of zeros only, where f is 0/0, gets f = 1."""
    low, high = span(logits, hidden)
    width = high - low
    flat = width == 0
    found = torch.where(flat, 1.0, (logits - low) / torch.where(flat, 1.0, width))
    return found.masked_fill(hidden, 0.0)


def span(logits: torch.Tensor, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """min(l_min, 0) and max(l_max, 0) over the visible columns, each (R, 1)."""
    low = logits.masked_fill(hidden, torch.inf).amin(1, keepdim=True).clamp(max=0.0)
    high = logits.masked_fill(hidden, -torch.inf).amax(1, keepdim=True).clamp(min=0.0)
    return low, high


_RULES = {
    "softmax": _exponential,
    "sparsemax": _sparse,
    "1.5-entmax": _sparse,
    "SSMax": _exponential,
    "SA-Softmax": _self_adjust,
}
