"""Texts by name or by path, cleaned, with their provenance."""

from __future__ import annotations

import ast
import hashlib
import re
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from attention_limits.sources import gutenberg
from attention_limits.sources.base import (
    Provenance,
    SourceError,
    cache_folder,
    cached_entry,
    entry_fault,
    say,
)
from attention_limits.sources.packages import packaged_bytes
from attention_limits.sources.paths import counted, shown, text_files, text_name
from attention_limits.sources.reach import open_url, probe
from attention_limits.sources.reading import Content, TextFile, checked
from attention_limits.sources.registry import TEXTS, GutenbergText, PackagedFile

DOWNLOAD_TIMEOUT = 60.0  # seconds without a byte
_FILE = "source.txt"


@dataclass(frozen=True)
class Text:
    """A text as a model reads it (line ends "\\n") and where it came from.

    ``content[:n]`` is its first n characters; a reader's own files are read only that far.
    """

    content: str | Content
    provenance: Provenance


def load_text(requested: str) -> Text:
    """Return the text for a name (``war-and-peace``, ``king-james``), for UTF-8 files by path, or ``auto``.

    Several files are separated by ``:``; a folder stands for the texts in it (see `paths.text_files`).
    A named text is fetched into the cache if it is not there yet. Raises SourceError; never falls back unless
    asked for ``auto``.
    """
    from attention_limits.sources.choice import decide

    name, notice = decide("text", requested)
    if notice:
        say(notice)
    known = TEXTS.get(name)
    if isinstance(known, GutenbergText):
        text = _gutenberg_text(name, known)
    elif isinstance(known, PackagedFile):
        text = _packaged_text(name, known)
    else:
        text = _file_text(name)
    return Text(text.content, text.provenance.asked(requested, notice))


def check_size(requested: str, tokens: int) -> None:
    """Raise SourceError where the files of a text given by path have fewer bytes than ``tokens``.

    A token is a byte at least. What is short only when counted in tokens is said where it is read. Of files that are no
    text that is said instead. Of named texts, and of ``auto``, nothing is said.
    """
    files = [] if requested == "auto" else text_files(requested)
    size = sum(path.stat().st_size for path in files)
    if files and size < tokens:
        _file_text(requested)
        raise SourceError(
            f"the text has {size:,} bytes, but {tokens:,} tokens of it are read. Give a longer text, or ask for less "
            'as the README says under "Your own text".'
        )


def is_cached(name: str) -> bool:
    """Say whether a named text lies whole in the cache."""
    return not entry_fault(cache_folder() / name)


def _gutenberg_text(name: str, known: GutenbergText) -> Text:
    """Download once (what is cached is the file as served, so a change of the cleaning needs no download)."""

    def build(folder: Path) -> dict[str, Any]:
        """Fill a cache entry with the text as it was fetched; return what its manifest says."""
        content = _download(name, known.url)
        _clean(name, known, content)  # a page of excuses instead of the book must not enter the cache
        (folder / _FILE).write_bytes(content)
        return {"url": known.url}

    folder, manifest = cached_entry(name, build)
    source = manifest["files"][_FILE]
    return Text(
        _clean(name, known, (folder / _FILE).read_bytes()),
        Provenance(
            kind="text",
            requested=name,
            name=name,
            revision=f"Project Gutenberg eBook {known.number}, file of SHA-256 {source['sha256'][:12]}",
            sha256=source["sha256"],
            size=source["size"],
            licence=known.licence,
            origin=known.url,
        ),
    )


def _clean(name: str, known: GutenbergText, content: bytes) -> str:
    try:
        return gutenberg.clean(_decode(content), known.body_start)
    except ValueError as error:  # UnicodeDecodeError is one
        raise SourceError(
            f"{name}: {known.url} served {len(content):,} bytes that are not the expected book ({error}). "
            "Try again later, or give the path of your own copy as the text."
        ) from error


def _download(name: str, url: str) -> bytes:
    answer = probe(url)
    if not answer.ok:
        raise SourceError(
            f"{name} is not in the cache and {url} could not be reached ({answer.reason}). Connect to the "
            "network and run again, give the path of your own copy as the text, or choose text 'king-james' "
            "(embedded) or 'auto'."
        )
    say(f"Fetching {name} from {url}, once ...")
    try:
        with open_url(url, DOWNLOAD_TIMEOUT) as response:
            return response.read()  # raises IncompleteRead where fewer bytes come than were announced
    except (OSError, HTTPException) as error:
        raise SourceError(f"{name}: the download of {url} broke off ({error}). Run again.") from error


def _packaged_text(name: str, known: PackagedFile) -> Text:
    def build(folder: Path) -> dict[str, Any]:
        """Fill a cache entry with the text of the wheel; return what its manifest says."""
        source = packaged_bytes(name, known).decode("utf-8")
        (folder / _FILE).write_text(_longest_string(source), encoding="utf-8", newline="\n")
        return {"package": f"{known.package}=={known.version}", "member_sha256": known.sha256}

    folder, _ = cached_entry(f"{name}-{known.version}", build)
    return Text(
        _scripture((folder / _FILE).read_text(encoding="utf-8")),
        Provenance(
            kind="text",
            requested=name,
            name=name,
            revision=f"{known.package}=={known.version}",
            sha256=known.sha256,
            size=known.size,
            licence=known.licence,
            origin=f"{known.origin}; from {known.member} in that package",
        ),
    )


def _longest_string(source: str) -> str:
    """Return the longest string of Python source, which is parsed and never run: the scripture itself."""
    constants = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return max((value for value in constants if isinstance(value, str)), key=len)


def _scripture(raw: str) -> str:
    """Return the paragraphs as plain prose.

    The edition puts words that the translators supplied in square brackets (print sets them in italics); the
    words stay and the brackets go, as in any running text of it. A few parentheses and words carry a stray
    space.
    """
    plain = re.sub(r" {2,}", " ", re.sub(r"[\[\]]", "", raw)).replace("( ", "(")
    return "\n\n".join(line.strip() for line in plain.split("\n") if line.strip()) + "\n"


def _file_text(requested: str) -> Text:
    """Check a reader's own files; they are read as far as a model needs them. Only base names are recorded."""
    paths = text_files(requested)
    files = [checked(path) for path in paths]
    _refuse_without_letters(requested, files)
    lines = "".join(f"{file.sha256}  {file.path.name}\n" for file in files)
    several = len(files) > 1
    origin = "files given by path, joined in this order" if several else "a file given by path"
    if any(file.cleaned for file in files):
        origin += "; Project Gutenberg's header and footer removed"
    return Text(
        Content(files),
        Provenance(
            kind="text",
            requested=requested,
            name=text_name(requested, paths),
            revision="",
            sha256=hashlib.sha256(lines.encode()).hexdigest() if several else files[0].sha256,
            size=sum(file.size for file in files),
            licence="unknown (the reader's own file)",
            origin=origin,
            files=tuple((file.path.name, file.size, file.sha256) for file in files),
        ),
    )


def _refuse_without_letters(requested: str, files: list[TextFile]) -> None:
    if any(file.letters for file in files):
        return
    what = (
        f"text file {shown(requested)}"
        if len(files) == 1
        else f"text {shown(requested)} ({counted(len(files))})"
    )
    fault = "is empty" if all(file.blank for file in files) else "holds no letter"
    raise SourceError(f"The {what} {fault}. Give some pages of text.")


def _decode(content: bytes) -> str:
    """UTF-8 bytes as text, without byte-order mark, lines ended by "\\n"."""
    return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
