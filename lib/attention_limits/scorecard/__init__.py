"""Scorecard: the paper's claims C1 to C14, judged by documented rules from the records of the chapters alone."""

from .claims import CLAIMS
from .rules import RULES, VERDICTS, Rule, verdict
from .score import Claim, Finding, ScorecardError, Use, load_all, score, score_all

__all__ = [
    "CLAIMS",
    "RULES",
    "VERDICTS",
    "Claim",
    "Finding",
    "Rule",
    "ScorecardError",
    "Use",
    "load_all",
    "score",
    "score_all",
    "verdict",
]
