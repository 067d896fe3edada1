"""How much weight one key can get at most, when the logits of a row of L keys lie within a spread R (T = 1)."""

from __future__ import annotations

import math

from .rules import Normaliser


def largest_weight(rule: Normaliser, length: int, spread: float) -> float:
    """The largest weight that any row of ``length`` keys and logit spread ``spread`` has; attained. (Re-derived.)

    One logit lies R above L - 1 equal ones, and under SA-Softmax above zero. length >= 2 keys, spread >= 0 in logits
    at temperature one. Raises ValueError for other arguments.
    """
    if length < 2 or not spread >= 0:
        raise ValueError(
            f"length is {length} and spread is {spread}; wanted at least 2 keys and a spread >= 0"
        )
    others = length - 1
    if rule.kind == "sparsemax":
        return min(1.0, (1 + others * spread) / length)
    if rule.kind == "1.5-entmax":
        root = others * spread + math.sqrt(max(4 * length - others * spread**2, 0.0))
        return 1.0 if spread >= 2 else (root / (2 * length)) ** 2
    reach = spread * rule.scale * math.log(length) if rule.kind == "SSMax" else spread
    return 1 / (1 + others * math.exp(-reach))


def limit_weight(rule: Normaliser, spread: float) -> float:
    """What `largest_weight` tends to as L grows without end at a fixed spread R. (Re-derived.)"""
    if rule.kind == "sparsemax":
        return min(1.0, spread)
    if rule.kind == "1.5-entmax":
        return min(1.0, spread**2 / 4)
    if rule.kind == "SSMax":
        reach = rule.scale * spread
        return 0.5 if reach == 1 else float(reach > 1)
    return 0.0
