"""A text given through standard input: read once and kept, since a run and its chapters read it many times."""

from __future__ import annotations

import filecmp
import os
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO

from attention_limits.sources.base import SourceError, say

NAME = "standard input"  # of the file that it is kept in, and so what the book calls the text
LIMIT = 1 << 30  # bytes; a command in a pipe may never end


def keep_standard_input(folder: Path, stream: BinaryIO | None = None) -> str:
    """Read standard input to its end into a file of ``folder`` and return its path.

    A text equal to the one kept before leaves that file as it is, so that nothing runs again; where standard input is
    empty or a terminal, the one kept before is taken. Raises SourceError for an empty one, one that is no text, one
    without end, and a folder that cannot be written.
    """
    kept = folder / NAME
    stream = stream or getattr(sys.stdin, "buffer", None)  # none where it was closed
    terminal = stream is not None and stream.isatty()
    if terminal and kept.is_file():
        return _as_before(kept)
    say("Type the text and end it with Ctrl-D." if terminal else "Reading the text from standard input ...")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=folder, suffix=".partial")
        try:
            with os.fdopen(handle, "wb") as target:
                size = _copy(stream, target) if stream else 0
            if not size and kept.is_file():
                return _as_before(kept)
            if not size:
                raise SourceError(
                    "Standard input is empty. Give it a text: make rerun TEXT=- NAME=label < FILE"
                )
            if not (kept.is_file() and filecmp.cmp(partial, kept, shallow=False)):
                os.replace(partial, kept)
        finally:
            Path(partial).unlink(missing_ok=True)
    except OSError as error:
        raise SourceError(
            f"Standard input could not be kept in {str(folder)!r} ({error.strerror}). Check its free space and "
            "permissions, or give the path of a file as the text."
        ) from error
    return str(kept)


def _as_before(kept: Path) -> str:
    say(f"Standard input holds no text; the one kept before is taken ({kept.stat().st_size:,} bytes).")
    return str(kept)


def _copy(source: BinaryIO, target: BinaryIO) -> int:
    """Copy to the end; return the number of bytes."""
    size = 0
    while block := source.read(1 << 20):
        if b"\0" in block:
            raise SourceError(f"Standard input is no text: byte {size + block.index(0)} of it is zero.")
        size += target.write(block)
        if size > LIMIT:
            raise SourceError(
                f"Standard input gave more than {LIMIT:,} bytes and had no end. Give the path of a file as the text."
            )
    return size
