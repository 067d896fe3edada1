"""What each parameter of the chapters may be, kept by the engine and by the chapters themselves before a model loads.

A rule's words are those of the comment in a chapter's parameters cell and of the error message. A bound is written as
the reader sees it, such as ``min(lengths) - 1``, and computed from the values given. Nothing here loads a model, torch
or transformers.
"""

from attention_limits.parameters.checking import ParameterError, assigned, check, check_cell, nearest, tokens
from attention_limits.parameters.rules import OWN, RULES, Rule, rule

__all__ = [
    "OWN",
    "RULES",
    "ParameterError",
    "Rule",
    "assigned",
    "check",
    "check_cell",
    "nearest",
    "rule",
    "tokens",
]
