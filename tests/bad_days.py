"""The page that counts the bad days: every test marked ``bad_day``, by the module it stands in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from attention_limits.provenance import escape

ROOT = Path(__file__).resolve().parents[1]
COLLECTED = pytest.StashKey[list[pytest.Item]]()
COMMAND = "python -m pytest --collect-only -q -n 0 --bad-days-page=book/bad-days.md"


def case(description: str, *values: Any) -> Any:
    """One set of values of a parametrised test that is a bad day of its own."""
    return pytest.param(*values, marks=pytest.mark.bad_day(description), id=description)


def found(items: Iterable[pytest.Item]) -> dict[str, list[str]]:
    """Descriptions of the marked tests, each once, by the path of their module."""
    days: dict[str, dict[str, None]] = {}
    for item in items:
        for mark in item.iter_markers("bad_day"):
            days.setdefault(item.path.relative_to(ROOT).as_posix(), {})[mark.args[0]] = None
    return {path: list(days[path]) for path in sorted(days)}


def page(items: Iterable[pytest.Item]) -> str:
    """The page as Markdown."""
    days = found(items)
    parts = [
        "# Bad days\n",
        f"The test suite tries **{sum(map(len, days.values()))} bad inputs and events**. Each of them must end with a "
        "sentence that says what is wrong, or with the results of a good day; never with a traceback for a reader's "
        "mistake, a hang, or half a result that looks like a whole one.\n",
        f"This page is written by the tests themselves (`{COMMAND}`), and a test fails when it is out of date.\n",
    ]
    for path, descriptions in days.items():
        parts.append(f"## {_title(path)}\n")
        parts.append(f"{len(descriptions)} in `{path}`:\n")
        parts.append("\n".join(f"- {escape(description)}" for description in descriptions) + "\n")
    return "\n".join(parts)


def _title(path: str) -> str:
    """What a module is about: its docstring up to the first colon, semicolon or full stop."""
    first = (ROOT / path).read_text(encoding="utf-8").partition('"""')[2]
    return re.split(r"[:;.]", first.partition("\n")[0].replace("``", "`"))[0]
