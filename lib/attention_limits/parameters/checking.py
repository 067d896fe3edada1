"""The check of a chapter's values against the rules, for the engine and for the chapter itself."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from attention_limits.parameters.rules import CONTEXT, rule

_LONGEST = 200  # characters of a value in a message


class ParameterError(ValueError):
    """A parameter that no chapter can work with; the message names it, its value and the allowed values."""


def check(chapter: str, declared: Mapping[str, Any], given: Mapping[str, Any] | None = None) -> None:
    """Raise ParameterError unless a chapter can work with its ``declared`` values, replaced by those ``given``.

    Names without a rule, which only notebooks of somebody else have, may be anything. The model's context is taken
    from its configuration, where that lies on this machine and some length depends on it; nothing is downloaded.
    """
    for name in (given or {}).keys() - declared.keys():
        near = nearest(name, declared) or f" It has {', '.join(declared)}."
        raise ParameterError(f"{chapter} has no parameter {name!r}.{near}")
    values = {**declared, **(given or {})}
    rules = {name: known for name in values if (known := rule(chapter, name))}
    for name, known in rules.items():
        if not known.fits_kind(values[name]):
            hint = f" It came as text, as papermill's -p gives it; -y '{name}: [...]' gives a list."
            hint = hint if known.many and isinstance(values[name], str) else ""
            raise ParameterError(
                f"{chapter}: {name} is {_short(values[name])}; it must be {known.wanted}.{hint}"
            )
    context = None
    if any(known.most == CONTEXT for known in rules.values()) and "model" in values:
        context = _context(values["model"])
    for name, known in rules.items():
        broken = known.broken_bound(values[name], values, context)
        if broken is not None:
            raise ParameterError(
                f"{chapter}: {name} is {_short(values[name])}; it must be {known.wanted}{_where(broken, values)}."
            )


def tokens(values: Mapping[str, Any]) -> int:
    """How many tokens from a text's beginning a chapter with these values reads at least; 0 without windows of it.

    `long_lengths` are not among them: what a text is too short for is left out there. ``apart`` leaves out windows
    between those that are read.
    """
    longest = max([values.get("length", 0), *values.get("lengths", [])])
    return longest * ((values.get("windows", 1) - 1) * values.get("apart", 1) + 1)


def check_cell(chapter: str, namespace: Mapping[str, Any]) -> None:
    """`check` for the first cell after a chapter's parameters cell, which gives its ``globals()``.

    However the notebook is run: IPython keeps the cells that ran as ``In``, and in them the names are found that the
    chapter declares and that papermill put in. Without IPython, as a script, nothing but the parameters is there yet.
    """
    if "In" not in namespace:
        check(chapter, {name: value for name, value in namespace.items() if rule(chapter, name)})
        return
    cells = [str(cell) for cell in namespace["In"]]
    given: dict[str, Any] = {}
    for cell in reversed(cells[:-1]):  # the last is the cell that asks
        try:
            names = assigned(cell)
        except SyntaxError:  # a cell with a command of IPython
            continue
        if cell.startswith("# Parameters"):  # papermill's own heading
            given = {name: namespace[name] for name in names}
        elif "record" in names:
            check(chapter, {name: namespace[name] for name in names}, given)
            return
    raise ParameterError(f"{chapter}: the cell with its parameters has not been run. Run it first.")


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence that names the nearest known name; "" where none is near."""
    near = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean {near[0]}?" if near else ""


def assigned(source: str) -> dict[str, Any]:
    """Names that Python source assigns at its top level, and their values (source text where one is no literal).

    Raises SyntaxError.
    """
    found: dict[str, Any] = {}
    for node in ast.parse(source).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if not isinstance(target, ast.Name):
            continue
        try:
            found[target.id] = ast.literal_eval(node.value)
        except ValueError:
            found[target.id] = ast.unparse(node.value)
    return found


def _context(model: str) -> int | None:
    from attention_limits.sources import SourceError, context_length, decide

    try:
        return context_length(decide("model", model)[0])
    except SourceError:  # said, and better, by whoever loads the model
        return None


def _short(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= _LONGEST else said[: _LONGEST - 4] + " ..."


def _where(broken: str, values: Mapping[str, Any]) -> str:
    """What a bound is, and the values that it was computed from, in brackets."""
    if not broken:
        return ""
    names = ["model"] if broken.startswith(CONTEXT) else re.findall(r"[a-z]\w+", broken.rpartition(" is ")[0])
    used = [f"{name} is {_short(values[name])}" for name in names if name in values]
    return f" ({', '.join(dict.fromkeys([broken, *used]))})"
