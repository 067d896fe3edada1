"""Models side by side: which of a list can be had here, their headline numbers, and why the others are missing.

A name is one that `sources.load_model` takes, ``random:SHAPE`` (a shape of `controls.SHAPES` with random weights) or
``shuffled`` (the first model with the entries of its weight matrices permuted). One model is in memory at a time.
"""

from .heads import CHECKS, NUMBERS, Plan, headline, prefix, violations
from .run import Comparison, compare
from .shelf import Shelf, is_control
from .summary import against_controls, exponents, summarise

__all__ = [
    "CHECKS",
    "NUMBERS",
    "Comparison",
    "Plan",
    "Shelf",
    "against_controls",
    "compare",
    "exponents",
    "headline",
    "is_control",
    "prefix",
    "summarise",
    "violations",
]
