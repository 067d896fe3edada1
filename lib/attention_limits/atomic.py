"""Text files that are whole or not there, whatever happens while they are written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


class WriteError(OSError):
    """A file could not be written; the message says which, why and what to do, and an older one is as it was."""


def write_text(path: str | os.PathLike, content: str) -> None:
    """Write UTF-8 text, lines ended by "\\n", to ``path`` through a temporary name beside it; folders are made.

    The content is on the disk before the file gets its name, so that not even a power cut leaves half of it. The file
    is always a new one: Snakemake tells what was made by its time. Raises WriteError.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=path.parent, prefix=path.name + ".", suffix=".partial")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(partial, 0o644)  # mkstemp makes private files; this one is an ordinary output
            os.replace(partial, path)
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise WriteError(
            f"{str(path)!r} cannot be written ({error.strerror or error}). Free some space on that disk or unlock the "
            "folder, or choose another one."
        ) from error
