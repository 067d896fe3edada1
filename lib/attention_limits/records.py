"""Results of a notebook as one small JSON file that the scorecard, a test or a reader can load.

Format (schema 2)::

    {"schema": 2, "notebook": "algorithm-1", "parameters": {...}, "model": "name" | null, "text": "name" | null,
     "sha256": {"model": "..." | null, "text": "..." | null},
     "results": [{"id": "growth.r2", "value": 0.99, "low": 0.98, "high": 1.0, "n": 270, "unit": "",
                  "meaning": "one sentence", "reading": {"space": "hidden", "support": "causal"}}, ...]}

``value`` is a finite number; ``low`` and ``high`` (95 % interval) are numbers or null; ``n`` counts what was averaged
or checked, or is null. Numbers keep 8 significant digits, which leaves out what depends on the order of a sum, and no
time, path or machine is recorded: the same seed gives the same bytes.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attention_limits.atomic import write_text

SCHEMA = 2
Identity = tuple[str, str]  # name and sha256 of a model or text
_RESULT_KEYS = {"id", "value", "low", "high", "n", "unit", "meaning", "reading"}


class Record:
    """Results of one notebook, kept in the order they were added.

    ``parameters`` are the notebook's own, already plain JSON values; ``model`` and ``text`` are what was read after
    ``auto`` was decided (`Provenance.identity`), or None for a chapter that reads neither.
    """

    def __init__(
        self,
        notebook: str,
        parameters: dict[str, Any],
        model: Identity | None = None,
        text: Identity | None = None,
    ):
        (model_name, model_sha), (text_name, text_sha) = (pair or (None, None) for pair in (model, text))
        self.content: dict[str, Any] = {
            "schema": SCHEMA,
            "notebook": notebook,
            "parameters": parameters,
            "model": model_name,
            "text": text_name,
            "sha256": {"model": model_sha, "text": text_sha},
            "results": [],
        }

    def add(
        self,
        id: str,
        value: float,
        *,
        meaning: str,
        low: float | None = None,
        high: float | None = None,
        n: int | None = None,
        unit: str = "",
        **reading: str | int | float,
    ) -> float:
        """Add one result and return ``value`` so that a sentence can use it.

        ``reading`` names what the number depends on (space, support, top_n, ...). Raises ValueError for a value
        that is not finite, or for an id and reading that were added before.
        """
        result = {
            "id": id,
            "value": _plain(value),
            "low": _plain(low),
            "high": _plain(high),
            "n": None if n is None else int(n),
            "unit": unit,
            "meaning": meaning,
            "reading": {key: _plain(part) for key, part in sorted(reading.items())},
        }
        _check_result(result)
        if any(r["id"] == id and r["reading"] == result["reading"] for r in self.content["results"]):
            raise ValueError(f"record: result {id!r} with reading {result['reading']} was added twice")
        self.content["results"].append(result)
        return value

    def save(self, path: str | os.PathLike) -> None:
        """Write the record to ``path``, whole or not at all. Raises `atomic.WriteError`.

        An empty ``path`` means that nobody asked for the file: nothing is written.
        """
        if path:
            write_text(path, json.dumps(self.content, indent=1, ensure_ascii=False) + "\n")


def load(path: str | os.PathLike) -> dict[str, Any]:
    """Read and check one record file. Raises ValueError that names the file and the first thing wrong with it."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        validate(content)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"record {path}: {error}") from error
    return content


def validate(content: Any) -> None:
    """Raise ValueError unless ``content`` is a record as described at the top of this module."""
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise ValueError(f"not a record of schema {SCHEMA}")
    if set(content) != {"schema", "notebook", "parameters", "model", "text", "sha256", "results"}:
        raise ValueError(f"unexpected or missing keys: {sorted(content)}")
    if not isinstance(content["notebook"], str) or not isinstance(content["parameters"], dict):
        raise ValueError("notebook must be a string and parameters an object")
    if not isinstance(content["sha256"], dict) or set(content["sha256"]) != {"model", "text"}:
        raise ValueError("sha256 must have the keys model and text")
    if not isinstance(content["results"], list):
        raise ValueError("results must be a list")
    for result in content["results"]:
        _check_result(result)


def strange(content: dict[str, Any], sources: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What a record was made with that a sources.json beside it does not name: by another name, or with other bytes."""
    found = []
    for kind in ("model", "text"):
        name, source = content[kind], sources.get(kind)
        if name is None or source is None:  # a chapter without a model or text names none
            continue
        if name != source["name"]:
            found.append(f"{kind} {name!r} instead of {source['name']!r}")
        elif content["sha256"][kind] != source["sha256"]:
            found.append(f"{kind} {name!r} of other bytes")
    return found


def find(content: dict[str, Any], id: str, **reading: Any) -> dict[str, Any]:
    """Return the one result with this id whose reading contains ``reading``; KeyError unless exactly one does."""
    found = [
        r
        for r in content["results"]
        if r["id"] == id and all(r["reading"].get(key) == value for key, value in reading.items())
    ]
    if len(found) != 1:
        raise KeyError(f"{content['notebook']}: {len(found)} results {id!r} with {reading}, wanted one")
    return found[0]


def _plain(value: Any) -> Any:
    """A NumPy scalar as the Python value that JSON can hold, floats to 8 significant digits."""
    value = value.item() if hasattr(value, "item") else value
    return float(f"{value:.8g}") if isinstance(value, float) else value


def _check_result(result: Any) -> None:
    if not isinstance(result, dict) or set(result) != _RESULT_KEYS:
        raise ValueError(f"a result needs the keys {sorted(_RESULT_KEYS)}, got {result!r}")
    for key in ("value", "low", "high"):
        number = result[key]
        if number is None and key != "value":
            continue
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            raise ValueError(f"result {result['id']!r}: {key} = {number!r} is not a finite number")
    if result["low"] is not None and result["high"] is not None and result["low"] > result["high"]:
        raise ValueError(f"result {result['id']!r}: low {result['low']} is above high {result['high']}")
    if not isinstance(result["reading"], dict):
        raise ValueError(f"result {result['id']!r}: reading must be an object")
