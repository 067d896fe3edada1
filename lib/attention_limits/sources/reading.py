"""Text files: checked from end to end in one pass that keeps nothing, then read only as far as is needed."""

from __future__ import annotations

import codecs
import hashlib
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from attention_limits.sources import gutenberg
from attention_limits.sources.base import SourceError
from attention_limits.sources.paths import shown

BLOCK = 1 << 20  # bytes or characters read at a time
WHOLE = 32 << 20  # bytes; a larger file is never taken for one of Project Gutenberg's, which are read whole
# What a reader takes for a text at times, by its first bytes. UTF-32 comes before UTF-16, whose mark begins its own.
_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_OTHERS = {
    b"%PDF-": "a PDF document",
    b"PK\x03\x04": "a zip archive (.docx, .odt and .epub files are such)",
    b"\x1f\x8b": "compressed with gzip",
    b"{\\rtf": "an RTF document",
}


@dataclass(frozen=True)
class TextFile:
    """A file that was found to be UTF-8: its hash and size (bytes), and what its characters are.

    ``blank``: nothing but white space; ``letters``: it holds one; ``cleaned``: Project Gutenberg's header and footer
    are left out; ``modified``: time of its last change in nanoseconds, so that a later change is noticed.
    """

    path: Path
    sha256: str
    size: int
    modified: int
    blank: bool
    letters: bool
    cleaned: bool


class Content:
    """The characters of text files, apart by an empty line, line ends "\\n", without byte-order marks.

    ``content[:n]`` reads the first n characters (all of them where there are fewer) and nothing beyond;
    ``str(content)`` is the whole text. Raises SourceError for a file that is gone or has changed since it was checked.
    """

    def __init__(self, files: Sequence[TextFile]):
        self._files = [file for file in files if not file.blank]

    def __getitem__(self, part: slice) -> str:
        if part.start is not None or part.step is not None or part.stop is None or part.stop < 0:
            raise ValueError(f"content[{part}]: only its beginning, content[:n], can be had")
        found, missing = [], part.stop
        for piece in self._pieces():
            found.append(piece[:missing])
            missing -= len(found[-1])
            if not missing:
                break
        return "".join(found)

    def __str__(self) -> str:
        return "".join(self._pieces())

    def _pieces(self) -> Iterator[str]:
        last = ""
        for index, file in enumerate(self._files):
            if index:
                yield "\n" if last == "\n" else "\n\n"
            for piece in _characters(file):
                yield piece
                last = piece[-1:]


def checked(path: Path) -> TextFile:
    """Read a file once, a block at a time, and say what it is.

    Raises SourceError, with the place and what to do, for a file that is not UTF-8 text or cannot be read.
    """
    digest, decoder = hashlib.sha256(), codecs.getincrementaldecoder("utf-8")()
    size, lines, blank, letters = 0, 1, True, False
    with _opened(path) as stream:
        modified = os.fstat(stream.fileno()).st_mtime_ns
        while block := _read(path, stream):
            if not size:
                _refuse_other_kinds(path, block)
            if b"\0" in block:
                raise SourceError(_zero(path, size + block.index(0), block))
            part = _decoded(path, decoder, block, size, lines)
            digest.update(block)
            size, lines = size + len(block), lines + block.count(b"\n")
            blank = blank and not block.strip()
            letters = letters or any(map(str.isalpha, part))
        _decoded(path, decoder, b"", size, lines)
    found = TextFile(path, digest.hexdigest(), size, modified, blank, letters, cleaned=False)
    if size > WHOLE or not gutenberg.is_gutenberg("".join(_characters(found))):
        return found
    found = replace(found, cleaned=True)
    return replace(found, letters=any(map(str.isalpha, "".join(_characters(found)))))


def _characters(file: TextFile) -> Iterator[str]:
    """The characters of one file in pieces, as they are or cleaned."""
    with _opened(file.path) as stream:
        state = os.fstat(stream.fileno())
        if (state.st_size, state.st_mtime_ns) != (file.size, file.modified):
            raise SourceError(f"The text file {shown(str(file.path))} changed while it was read. Run again.")
        text = io.TextIOWrapper(stream, encoding="utf-8-sig")  # turns every line end into "\n"
        if file.cleaned:
            yield gutenberg.clean(text.read())
        else:
            while piece := text.read(BLOCK):
                yield piece


def _opened(path: Path) -> BinaryIO:
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise SourceError(f"The text file {shown(str(path))} is gone: it was there a moment ago.") from None
    except OSError as error:
        raise SourceError(f"The text file {shown(str(path))} cannot be read ({error.strerror}).") from error


def _read(path: Path, stream: BinaryIO) -> bytes:
    try:
        return stream.read(BLOCK)
    except OSError as error:
        raise SourceError(f"The text file {shown(str(path))} cannot be read ({error.strerror}).") from error


def _refuse_other_kinds(path: Path, start: bytes) -> None:
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            raise SourceError(
                f"{shown(str(path))} is {encoding}, as its first bytes say, and must be UTF-8. "
                f"Convert it with: iconv -f {encoding} -t UTF-8 OLD > NEW"
            )
    for mark, kind in _OTHERS.items():
        if start.startswith(mark):
            raise SourceError(f"{shown(str(path))} is {kind}, not plain text. Save its text as UTF-8.")


def _zero(path: Path, place: int, block: bytes) -> str:
    """What to say of a file with a zero byte: in Latin letters of UTF-16, every other byte is zero."""
    start = block[:4096]
    words = f"{shown(str(path))} is not a text file: byte {place} is zero. "
    for order, own, other in (("LE", start[1::2], start[::2]), ("BE", start[::2], start[1::2])):
        if own.count(0) > 0.4 * len(own) and other.count(0) < 0.1 * len(other):
            encoding = f"UTF-16{order}"
            return words + f"It looks like {encoding}; convert it: iconv -f {encoding} -t UTF-8 OLD > NEW"
    return words + "Give plain text in UTF-8."


def _decoded(path: Path, decoder: codecs.IncrementalDecoder, block: bytes, before: int, lines: int) -> str:
    """The characters of the next ``block`` of bytes (the last one is empty); ``before``: bytes and lines before it."""
    pending = decoder.getstate()[0]
    try:
        return decoder.decode(block, final=not block)
    except UnicodeDecodeError as error:
        both = pending + block
        place, line = before - len(pending) + error.start, lines + both[: error.start].count(b"\n")
        raise SourceError(
            f"{shown(str(path))} is not UTF-8: byte {place}, in line {line}, is 0x{both[error.start]:02x} "
            f"({error.reason}). Convert it; if it is Latin-1: iconv -f LATIN1 -t UTF-8 OLD > NEW"
        ) from None
