"""How much weight one key can get at most, when the logits of a row of L keys lie within a spread R (T = 1)."""

from __future__ import annotations

from .rules import KINDS, Normaliser


def largest_weight(rule: Normaliser, length: int, spread: float) -> float:
    """The largest weight that any row of ``length`` keys and logit spread ``spread`` has; attained.

    Source: Theorem thm-normaliser-extremes, re-derived.

    One logit lies R above L - 1 equal ones, and under SA-Softmax above zero. length >= 2 keys, spread >= 0 in logits
    at temperature one. Raises ValueError for other arguments.
    """
    if length < 2 or not spread >= 0:
        raise ValueError(
            f"length is {length} and spread is {spread}; wanted at least 2 keys and a spread >= 0"
        )
    return KINDS[rule.kind].largest(rule, length, spread)


def limit_weight(rule: Normaliser, spread: float) -> float:
    """What `largest_weight` tends to as L grows without end at a fixed spread R.

    Source: Theorem thm-normaliser-extremes, re-derived.
    """
    return KINDS[rule.kind].limit(rule, spread)
