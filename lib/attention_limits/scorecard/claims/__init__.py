"""The paper's claims C1 to C14 in our words, and which recorded numbers judge each by which rule."""

from attention_limits.scorecard.score import Claim

from . import distance, geometry, gradients, practice

__all__ = ["CLAIMS"]

CLAIMS: tuple[Claim, ...] = (*distance.CLAIMS, *geometry.CLAIMS, *gradients.CLAIMS, *practice.CLAIMS)
