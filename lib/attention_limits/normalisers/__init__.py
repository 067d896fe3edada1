"""Normalisers side by side: five rules from logits to weights, their Jacobians, and their measures on one capture.

softmax, sparsemax and 1.5-entmax, Scalable-Softmax (SSMax) and Self-Adjust Softmax (SA-Softmax), each on the same
captured logits. The model was made for softmax: another rule put in its place is measured, not a trained model.
"""

from .comparison import compare
from .extremes import largest_weight, limit_weight
from .geometry import separability
from .gradients import sensitivity
from .jacobians import jacobian, spectral_norms
from .rules import Normaliser, normalisers
from .verdicts import THRESHOLDS, Threshold, judge, powers
from .weights import scaling

__all__ = [
    "THRESHOLDS",
    "Normaliser",
    "Threshold",
    "compare",
    "jacobian",
    "judge",
    "largest_weight",
    "limit_weight",
    "normalisers",
    "powers",
    "scaling",
    "sensitivity",
    "separability",
    "spectral_norms",
]
