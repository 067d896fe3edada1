"""The table of a sweep: one row per cell, that is a model that reads a text at a length.

Columns: ``label`` (names the cell's folder), ``model``, ``text``, ``length``, and any parameter that a chapter of the
sweep declares. An empty field, like ``auto`` for a model or text, leaves the choice to the run.
"""

from __future__ import annotations

import csv
import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from attention_limits.parameters import nearest
from attention_limits.sources import SourceError, hub, text_state
from attention_limits.sources.base import is_folder
from attention_limits.sources.registry import MODELS

# What a sweep runs unless told otherwise: the paper's experiments but the longest, Algorithm 3, and the heads' health.
CHAPTERS = ("algorithm-1", "algorithm-2", "algorithm-4", "algorithm-5", "health")
REQUIRED = ("label", "model", "text", "length")
SHORTEST = (
    32  # below it, a quarter of the length is no longer above Algorithm 1's N = 5, nor half of it at N = 16
)
PLACES = {"record", "records", "executed", "table", "report"}  # files that a run sets itself
# Fewer readings than in the book: a sweep compares cells, and the book compares readings.
MODEST = {"windows": 2, "spaces": ["hidden", "value"], "supports": ["causal"]}
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")
_EXPONENT = re.compile(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+")
_MOST_SAID = 20


class SweepError(Exception):
    """The table of a sweep cannot be used; the message has a line for each fault."""


@dataclass(frozen=True)
class Cell:
    """One row: ``length`` in tokens, ``others`` the parameters that further columns set."""

    label: str
    model: str
    text: str
    length: int
    others: dict[str, Any] = field(default_factory=dict)


def read(path: str | os.PathLike, declared: Mapping[str, Mapping[str, Any]]) -> dict[str, Cell]:
    """The cells of a table by their label, in the order of its rows.

    ``declared`` maps each chapter of the sweep to its parameters and their defaults. Raises SweepError that names
    row, column, value and what is allowed for every fault; rows are counted as in the file, the header being 1.
    """
    known = {name: default for chapter in declared.values() for name, default in chapter.items()}
    columns = [*REQUIRED, *sorted(known.keys() - PLACES - set(REQUIRED))]
    faults: list[str] = []
    cells: dict[str, Cell] = {}
    seen: dict[tuple, int] = {}
    for number, row in _rows(path, columns):
        cell = _cell(number, row, known, faults)
        if cell.label.casefold() in map(str.casefold, cells):  # to some file systems one folder
            faults.append(
                f"row {number}, label = {cell.label!r}: an earlier row has this label; each needs its own."
            )
        same = (cell.model, cell.text, cell.length, repr(sorted(cell.others.items())))
        if (earlier := seen.setdefault(same, number)) != number:
            faults.append(f"row {number} asks for the same as row {earlier}: take one of them out.")
        cells[cell.label] = cell
    if not cells:
        faults.append("it has no row below its header.")
    if faults:
        more = len(faults) - _MOST_SAID
        said = faults[:_MOST_SAID] + ([f"and {more} more."] if more > 0 else [])
        raise SweepError("\n".join(f"{path}: {fault}" for fault in said))
    return cells


def settings(
    declared: Mapping[str, Any], cell: Cell, configured: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What one chapter is given for one cell, but model, text and files.

    From weak to strong: the sweep's modest settings, ``configured`` (the run's), what follows from the cell's
    length, and the cell's own columns. ``lengths`` are a quarter, a half and the whole of the length.
    """
    length = cell.length
    chosen = (
        MODEST | dict(configured or {}) | {"length": length, "lengths": [length // 4, length // 2, length]}
    )
    if "top_ns" not in chosen and isinstance(declared.get("top_ns"), list):
        chosen["top_ns"] = [n for n in declared["top_ns"] if n < length]
    if "stride" not in chosen and isinstance(declared.get("stride"), int):
        chosen["stride"] = min(declared["stride"], length)
    chosen |= cell.others
    return {
        name: chosen[name] for name in declared if name in chosen and name not in PLACES | {"model", "text"}
    }


def determined(declared: Mapping[str, Any], cell: Cell) -> dict[str, Any]:
    """What the row alone settles for one chapter, whatever the run was configured with: its length and its columns."""
    of_row = {"length", "lengths", *cell.others}
    return {name: value for name, value in settings(declared, cell).items() if name in of_row}


def grid(models: Sequence[str], texts: Sequence[str], lengths: Sequence[int]) -> Iterator[dict[str, Any]]:
    """The rows of a table that combines each model with each text and each length, with labels made of their names."""
    used: set[str] = set()
    for model, text, length in itertools.product(models, texts, lengths):
        names = (re.sub(r"[^A-Za-z0-9]+", "-", Path(name).stem).strip("-") for name in (model, text))
        stem = "-".join([*(name[:24] or "x" for name in names), str(length)])
        label = next(
            name
            for name in itertools.chain([stem], (f"{stem}-{i}" for i in itertools.count(2)))
            if name not in used
        )
        used.add(label)
        yield {"label": label, "model": model, "text": text, "length": length}


def _rows(path: str | os.PathLike, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Number and fields of each row that is not empty. Raises SweepError for what is no such table."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            lines = csv.DictReader(file, skipinitialspace=True)
            header = [name.strip() for name in lines.fieldnames or ()]
            _check_header(path, header, columns)
            lines.fieldnames = header
            for row in lines:
                if None in row or None in row.values():
                    fields = (
                        sum(value is not None for value in row.values())
                        - (None in row)
                        + len(row.get(None, ()))
                    )
                    raise SweepError(
                        f"{path}: row {lines.line_num} has {fields} fields; the header has {len(header)}."
                    )
                if any(value.strip() for value in row.values()):
                    yield lines.line_num, {name: value.strip() for name, value in row.items()}
    except OSError as error:
        raise SweepError(f"The table {str(path)!r} cannot be read ({error.strerror or error}).") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise SweepError(f"{path} is not a CSV table in UTF-8: {error}.") from error


def _check_header(path: str | os.PathLike, header: Sequence[str], columns: Sequence[str]) -> None:
    if len(header) == 1 and (other := next((mark for mark in ";\t" if mark in header[0]), "")):
        raise SweepError(f"{path}: its columns are separated by {other!r}; save it with commas.")
    for name in header:
        if header.count(name) > 1:
            raise SweepError(f"{path}: row 1: the column {name!r} comes twice.")
        if name not in columns:
            hint = nearest(name, columns) or f" Allowed: {', '.join(columns)}."
            raise SweepError(f"{path}: row 1: no chapter of this sweep has a parameter {name!r}.{hint}")
    if missing := [name for name in REQUIRED if name not in header]:
        raise SweepError(
            f"{path}: row 1 lacks {', '.join(missing)}; the columns {', '.join(REQUIRED)} are needed."
        )


def _cell(number: int, row: dict[str, str], known: Mapping[str, Any], faults: list[str]) -> Cell:
    """The cell of one row; what is wrong with it is added to ``faults``."""

    def check(column: str, fine: bool, words: str) -> None:
        if not fine:
            faults.append(f"row {number}, {column} = {row[column]!r}: it must be {words}.")

    length = int(row["length"]) if row["length"].isdecimal() else 0
    label = "1 to 60 letters, digits, '-' or '_', the first no sign"
    check("label", bool(_LABEL.fullmatch(row["label"])), label)
    model = f"auto, {', '.join(MODELS)}, a name on the hub, or a folder that exists"
    check("model", _is_model(row["model"]), model)
    try:
        if row["text"] not in ("", "auto"):
            text_state(row["text"])
    except SourceError as error:
        faults.append(f"row {number}, text = {row['text']!r}: {error}")
    check("length", length >= SHORTEST, f"a whole number of tokens, at least {SHORTEST}")
    others = {name: from_yaml(row[name]) for name in sorted(row.keys() - set(REQUIRED)) if row[name]}
    for name, value in others.items():
        allowed, words = _kind(known[name])
        check(name, allowed(value), words)
    return Cell(row["label"], row["model"] or "auto", row["text"] or "auto", length, others)


def _is_model(name: str) -> bool:
    return name in ("", "auto", *MODELS) or hub.parse(name) is not None or is_folder(name)


def from_yaml(text: str) -> Any:
    """What a field of the table, or a part of a list on Snakemake's command line, means: [1, 5] is a list.

    Numbers like 1e-3, which YAML 1.1 takes for text, are numbers.
    """
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    parts = [_number(part) for part in value] if isinstance(value, list) else value
    return _number(parts)


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) and _EXPONENT.fullmatch(value) else value


def _kind(default: Any) -> tuple[Callable[[Any], bool], str]:
    """A test for values like ``default``, and what it allows in words."""

    def whole(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    def number(value: Any) -> bool:
        return whole(value) or isinstance(value, float)

    if whole(default):
        return whole, f"a whole number, like {default}"
    if isinstance(default, float):
        return number, f"a number, like {default}"
    if isinstance(default, list):
        item, _ = _kind(0.0 if any(isinstance(part, float) for part in default) else (default or [""])[0])
        return lambda value: isinstance(value, list) and all(map(item, value)), f"a list, like {default}"
    return lambda value: isinstance(value, str), f"a word, like {default!r}"
