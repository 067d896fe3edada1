"""The rules: from rows of logits to rows of weights. Adding one is adding one entry to `KINDS`, at the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import entmax
import torch

from attention_limits.kernels import columns_seen

# At temperature one a token this far below the row's largest logit has weight zero under both sparse rules (they end at
# 1 and 2 below). Logits beyond are raised to here, which changes no weight and keeps the sums of squares small.
_ZERO_BELOW = 4.0


@dataclass(frozen=True)
class Kind:
    """All that the comparison asks of one kind of rule; l are logits of a row, n of its keys are visible.

    - ``weights(rule, logits, hidden, temperature)``: weights (R, L) float64, zero where ``hidden`` (R, L) is true.
    - ``largest(rule, L, R)``: the largest weight of any row of L keys and logit spread R at T = 1. It must be attained
      by one logit R above L - 1 logits of zero.
    - ``limit(rule, R)``: what that tends to as L grows.
    - ``slopes``: g as a function of the weights where J = c (diag(g) - g g^T / sum g), c as in `Normaliser.sharpness`;
      None leaves the Jacobian to autograd.
    - ``positive``: no weight is ever zero. ``scaled``: the rule takes the factor s.
    """

    weights: Callable[[Normaliser, torch.Tensor, torch.Tensor, float], torch.Tensor]
    largest: Callable[[Normaliser, int, float], float]
    limit: Callable[[Normaliser, float], float]
    slopes: Callable[[torch.Tensor], torch.Tensor] | None = None
    positive: bool = False
    scaled: bool = False


@dataclass(frozen=True)
class Normaliser:
    """One rule. ``kind`` is a name in `KINDS`; ``scale`` is s of Scalable-Softmax and one for all others.

    Every rule gets the logits divided by the temperature: softmax(l / T), sparsemax(l / T), and so on; SSMax gets
    s log(n) l / T, n being the number of keys of the row. The factor of SA-Softmax does not depend on T.
    """

    kind: str
    scale: float = 1.0

    @property
    def name(self) -> str:
        """``kind``, with s in brackets for Scalable-Softmax."""
        return f"{self.kind}({self.scale:g})" if KINDS[self.kind].scaled else self.kind

    @property
    def positive(self) -> bool:
        """Whether every weight is above zero (softmax, SSMax)."""
        return KINDS[self.kind].positive

    @property
    def exponential(self) -> bool:
        """Whether the weights are exp(c l) over their sum, c from `sharpness` (softmax, SSMax)."""
        return KINDS[self.kind].weights is _exponential

    @property
    def sparse(self) -> bool:
        """Whether weights sum to one and can be zero (sparsemax, 1.5-entmax)."""
        return KINDS[self.kind].weights is _sparse

    def weights(self, logits: torch.Tensor, visible: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
        """Weights of each row over its first ``visible[r]`` columns, zeros after them.

        logits: (R, L) float64; visible: (R,) int64, each at least one; returns (R, L) float64. Rows sum to one, but for
        SA-Softmax, whose rows sum to at most one. Raises ValueError for a temperature that is not above zero.
        """
        if not temperature > 0:
            raise ValueError(f"temperature is {temperature}; it must be above 0")
        hidden = ~columns_seen(logits, visible)
        return KINDS[self.kind].weights(self, logits, hidden, temperature)

    def sharpness(self, visible: torch.Tensor, temperature: float) -> torch.Tensor:
        """What a row's logits are multiplied by: 1/T, for SSMax s log(n)/T; (R,) float64."""
        ones = torch.ones_like(visible, dtype=torch.float64)
        grown = self.scale * torch.log(visible.double()) if KINDS[self.kind].scaled else ones
        return grown / temperature


def normalisers(scales: Sequence[float]) -> list[Normaliser]:
    """Every rule, softmax first; Scalable-Softmax once per s in ``scales`` (ValueError unless all are above 0)."""
    if not scales or min(scales) <= 0 or len(set(scales)) < len(scales):
        raise ValueError(f"scales are {list(scales)}; there must be one or more, all above 0 and different")
    rules = []
    for name, kind in KINDS.items():
        rules += [Normaliser(name, float(s)) for s in (scales if kind.scaled else [1.0])]
    return rules


def _exponential(
    rule: Normaliser, logits: torch.Tensor, hidden: torch.Tensor, temperature: float
) -> torch.Tensor:
    """softmax and SSMax: alpha_i = exp(c l_i) / sum_j exp(c l_j) with c from `sharpness`."""
    scores = logits * rule.sharpness((~hidden).sum(1), temperature)[:, None]
    return scores.masked_fill(hidden, -torch.inf).softmax(1)


def _sparse(rule: Normaliser, logits: torch.Tensor, hidden: torch.Tensor, temperature: float) -> torch.Tensor:
    """sparsemax: [z_i - tau]_+; 1.5-entmax: [z_i/2 - tau]_+^2; z = l/T, tau such that the row sums to one."""
    seen = logits.masked_fill(hidden, -torch.inf)
    scores = ((seen - seen.amax(1, keepdim=True)) / temperature).clamp(min=-_ZERO_BELOW)
    function = entmax.sparsemax if rule.kind == "sparsemax" else entmax.entmax15
    # k: how many are sorted at first; more only where the support needs it.
    return function(scores, dim=-1, k=64)


def _self_adjust(
    rule: Normaliser, logits: torch.Tensor, hidden: torch.Tensor, temperature: float
) -> torch.Tensor:
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


def _exponential_largest(rule: Normaliser, length: int, spread: float) -> float:
    reach = spread * rule.scale * (math.log(length) if KINDS[rule.kind].scaled else 1.0)
    return 1 / (1 + (length - 1) * math.exp(-reach))


def _scaled_limit(rule: Normaliser, spread: float) -> float:
    reach = rule.scale * spread
    return 0.5 if reach == 1 else float(reach > 1)


def _entmax15_largest(rule: Normaliser, length: int, spread: float) -> float:
    root = (length - 1) * spread + math.sqrt(max(4 * length - (length - 1) * spread**2, 0.0))
    return 1.0 if spread >= 2 else (root / (2 * length)) ** 2


KINDS: dict[str, Kind] = {
    "softmax": Kind(_exponential, _exponential_largest, lambda rule, spread: 0.0, lambda w: w, positive=True),
    "sparsemax": Kind(
        _sparse,
        lambda rule, length, spread: min(1.0, (1 + (length - 1) * spread) / length),
        lambda rule, spread: min(1.0, spread),
        lambda w: (w > 0).double(),
    ),
    "1.5-entmax": Kind(_sparse, _entmax15_largest, lambda rule, spread: min(1.0, spread**2 / 4), torch.sqrt),
    "SSMax": Kind(_exponential, _exponential_largest, _scaled_limit, lambda w: w, positive=True, scaled=True),
    # Its Jacobian has a form of its own, in `jacobians`; f is one where the largest weight is attained.
    "SA-Softmax": Kind(_self_adjust, _exponential_largest, lambda rule, spread: 0.0),
}
