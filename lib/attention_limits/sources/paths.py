"""Which files a text given by path is made of: one file, several, or those of a folder."""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from attention_limits.parameters import nearest
from attention_limits.sources.base import SourceError
from attention_limits.sources.registry import TEXTS

SEPARATOR = os.pathsep  # ":", as in PATH: it survives spaces, papermill's -p and Snakemake's --config
SUFFIXES = (".txt", ".md")
STANDARD_INPUT = "-"
_SHOWN = 80  # characters of a name in a message: someone may give the text itself in place of its path


def text_files(requested: str) -> list[Path]:
    """Return the files of a text given by path, in the order they are read; none for a named text.

    ``requested`` is a path, or several separated by ``:`` (a path that holds one itself is taken whole if it is
    there). Of a folder and the folders in it the files ``*.txt`` and ``*.md`` are read, sorted by their paths; hidden
    ones are left out and links to folders not followed. Raises SourceError for a path that leads nowhere or cannot be
    read, a pipe or a device, a folder without texts, and a name that no page can show.
    """
    if requested in TEXTS:
        return []
    if requested == STANDARD_INPUT:
        raise SourceError(
            "Standard input ('-') is read once, by the run that makes a book: make rerun TEXT=- NAME=label < FILE. "
            "Here, give the path of a file."
        )
    return [path for part in parts(requested) for path in _files(part)]


def text_state(requested: str) -> list[str]:
    """Return name, size and time of each file of a text given by path: what tells that it changed."""
    found = [(path, _stat(str(path), path)) for path in text_files(requested)]
    return [f"{path} {state.st_size} {state.st_mtime_ns}" for path, state in found]


def parts(requested: str) -> list[str]:
    """Return the paths that a request names. Raises SourceError where one of several is empty."""
    if SEPARATOR not in requested or os.path.exists(os.path.expanduser(requested)):
        return [requested]
    if "://" in requested:
        raise SourceError(
            f"The text {shown(requested)} is a web address. Download it, and give the path of the file."
        )
    found = requested.split(SEPARATOR)
    if not all(part.strip() for part in found):
        raise SourceError(
            f"In the list of texts {shown(requested)} a path is empty. Several files are written FILE{SEPARATOR}FILE."
        )
    return found


def text_name(requested: str, files: list[Path]) -> str:
    """Return what a text is called in the book: the last parts of its paths, and how many files there are."""
    given = parts(requested)
    if len(given) == 1:
        name = Path(os.path.abspath(Path(given[0]).expanduser())).name  # also of ".."
        return name if len(files) == 1 and files[0].name == name else f"{name} ({counted(len(files))})"
    others = f"{len(files) - 1} others" if len(files) > 2 else files[-1].name
    return f"{files[0].name} and {others}"


def counted(files: int) -> str:
    """Return a number of files in words."""
    return f"{files:,} file{'s' * (files != 1)}"


def shown(requested: str) -> str:
    """Return a name as a message quotes it: not longer than a line."""
    if len(requested) <= _SHOWN:
        return repr(requested)
    return repr(f"{requested[: _SHOWN // 3]}…{requested[-2 * _SHOWN // 3 :]}")  # the end of a path says more


def _files(part: str) -> list[Path]:
    try:
        path = Path(part).expanduser()
    except RuntimeError as error:  # "~somebody" means nothing here
        raise SourceError(f"The text {shown(part)} leads nowhere ({error}). Give its whole path.") from None
    mode = _stat(part, path).st_mode
    if stat.S_ISDIR(mode):
        files = sorted(_walk(part, path), key=lambda file: file.relative_to(path).parts)
        if not files:
            raise SourceError(
                f"The folder {shown(part)} holds no text. Of a folder, and of the folders in it, the files "
                f"{' and '.join('*' + suffix for suffix in SUFFIXES)} are read; hidden ones are left out."
            )
    elif stat.S_ISREG(mode):
        files = [path]
    else:
        raise SourceError(
            f"The text {shown(part)} is a pipe or a device, which need not end and cannot be read twice. Give a file, "
            "or the text itself through standard input: make rerun TEXT=- NAME=label < FILE"
        )
    for name in {path.absolute().name, *(file.name for file in files)}:
        _check_name(name)
    return files


def _stat(part: str, path: Path) -> os.stat_result:
    try:
        return path.stat()
    except FileNotFoundError:
        known = ", ".join(sorted(TEXTS))
        raise SourceError(
            f"There is no text file {shown(part)}, and it is none of the named texts ({known}, auto)."
            f"{nearest(part, TEXTS)} A relative path counts from the folder the command runs in."
            + (" A named text cannot be joined with others." if part in TEXTS else "")
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = getattr(error, "strerror", None) or error
        raise SourceError(f"The text file {shown(part)} cannot be read ({reason}).") from error


def _walk(part: str, folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise SourceError(f"The folder {shown(part)} cannot be read ({error.strerror}: {error.filename!r}).")

    for place, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if name.lower().endswith(SUFFIXES) and not name.startswith(".") and Path(place, name).is_file():
                yield Path(place, name)


def _check_name(name: str) -> None:
    """Refuse a name that a page cannot show as it is: in a caption a backslash begins mathematics."""
    odd = [c for c in name if c == "\\" or unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")]
    if odd:
        what = "a backslash" if "\\" in odd else "a line end, a control character or a broken letter"
        raise SourceError(f"The name {shown(name)} holds {what}, which a page cannot show. Rename it.")
    if not any(character.isalnum() for character in name):
        raise SourceError(f"The name {shown(name)} holds no letter and no digit. Rename it.")
