"""Labelled statements and equations of a chapter, and the functions that a line beneath each says compute it.

That line is a paragraph of its own which begins with ``Computed by`` and names the functions by the role ``py:func``.
It speaks of the theorem or the equation right before it, and of every equation inside that theorem.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_BLOCK = re.compile(
    r"^(?P<fence>`{3,})\{prf:(?P<kind>\w+)\}.*?\n:label: (?P<label>\S+)\n(?P<body>.*?)^(?P=fence)\s*$",
    re.MULTILINE | re.DOTALL,
)
_EQUATION = re.compile(r"^\$\$ \((?P<label>eq-[\w-]+)\)\s*$", re.MULTILINE)
_COMPUTED = re.compile(r"\s*(?:\{\.computed-by\}\n)?Computed by (?P<names>.*?)(?:\n\s*\n|\Z)", re.DOTALL)
_FUNCTION = re.compile(r"\{py:(?:func|class|meth)\}`~?([\w.]+)`")


@dataclass(frozen=True)
class Statement:
    """``functions``: full names of what computes it; ``inside``: label of the statement that an equation is part of."""

    label: str
    kind: str  # theorem, lemma, ..., or equation
    functions: tuple[str, ...]
    inside: str = ""


def statements(markdown: str) -> list[Statement]:
    """The labelled statements and equations of a chapter's Markdown, in its order."""
    found: list[tuple[int, Statement]] = []
    for block in _BLOCK.finditer(markdown):
        functions = _functions(markdown, block.end())
        found.append((block.start(), Statement(block["label"], block["kind"], functions)))
        for equation in _EQUATION.finditer(markdown, block.start(), block.end()):
            part = Statement(equation["label"], "equation", functions, inside=block["label"])
            found.append((equation.start(), part))
    known = {start for start, _ in found}
    for equation in _EQUATION.finditer(markdown):
        if equation.start() not in known:
            functions = _functions(markdown, equation.end())
            found.append((equation.start(), Statement(equation["label"], "equation", functions)))
    return [statement for _, statement in sorted(found, key=lambda pair: pair[0])]


def _functions(markdown: str, end: int) -> tuple[str, ...]:
    """What the paragraph after position ``end`` names, if it is one that begins with "Computed by"."""
    computed = _COMPUTED.match(markdown, end)
    return tuple(_FUNCTION.findall(computed["names"])) if computed else ()
