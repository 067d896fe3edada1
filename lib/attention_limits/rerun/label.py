"""The label of a rerun, which is the name of its folder inside the build folder."""

from __future__ import annotations

import re
from typing import Any

# What the engine and the Makefile put into a build folder.
TAKEN = {
    "audit",
    "book",
    "book.log",
    "decided.json",
    "executed",
    "failed",
    "files",
    "home",
    "html",
    "lock",
    "mutants",
    "provenance.md",
    "records",
    "source",
    "sources.json",
    "sweep",
}
_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class LabelError(Exception):
    """A label that cannot be the name of a folder; the message says why and what may be one."""


def checked(label: Any) -> str:
    """Return ``label`` if it may be one: letters, digits, ``.``, ``_`` and ``-``, beginning with a letter or digit.

    Raises LabelError, also for a name that the build folder has a use for itself.
    """
    if not isinstance(label, str):
        raise LabelError(
            f"NAME: the label was read as {label!r} and not as text. Give it in quotes of its own, "
            "as in --config 'name=\"007\"', or use `make rerun`."
        )
    if not _FORM.fullmatch(label):
        raise LabelError(
            f"NAME is {label!r}; a label consists of letters a to z, digits and . _ - (64 at most), "
            "and begins with a letter or a digit."
        )
    if label.lower() in TAKEN:
        raise LabelError(f"NAME is {label!r}, which the build folder uses itself. Choose another label.")
    return label
