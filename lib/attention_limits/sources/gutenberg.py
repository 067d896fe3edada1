"""Project Gutenberg's plain-text files, reduced to the book itself."""

from __future__ import annotations

import re
import unicodedata

# "*** START OF THE PROJECT GUTENBERG EBOOK WAR AND PEACE ***"; older files omit spaces and wrap the line.
_START = re.compile(r"^\*\*\* ?START OF TH(?:E|IS) PROJECT GUTENBERG[^*]*\*\*\*[ \t]*$", re.MULTILINE)
_END = re.compile(r"^\*\*\* ?END OF TH(?:E|IS) PROJECT GUTENBERG[^*]*\*\*\*", re.MULTILINE)
_CONTENTS = re.compile(r"^\s*(?:table of )?contents\.?\s*$", re.IGNORECASE)
_CONTENTS_WITHIN = 200  # lines after the licence header in which the word "Contents" is taken for a heading


def is_gutenberg(text: str) -> bool:
    """Say whether a text (line ends "\\n") has Project Gutenberg's start and, later, end marker."""
    start = _START.search(text)
    return bool(start and _END.search(text, start.end()))


def clean(text: str, body_start: tuple[str, str] | None = None) -> str:
    """Return the book alone, one line per paragraph, paragraphs apart by an empty line.

    The licence header and footer go. With ``body_start`` (two headings that follow each other) everything
    before their last occurrence goes too: title and table of contents. Without it a table of contents goes if
    it is recognised. Raises ValueError when the markers or the headings are not there.
    """
    start = _START.search(text)
    end = _END.search(text, start.end()) if start else None
    if not start or not end:
        raise ValueError("it has no Project Gutenberg start and end markers")
    lines = text[start.end() : end.start()].split("\n")
    first = _contents_end(lines) if body_start is None else _body(lines, body_start)
    return "\n\n".join(_paragraphs(lines[first:])) + "\n"


def _body(lines: list[str], body_start: tuple[str, str]) -> int:
    """Index of the last line that is the first heading and whose next non-empty line is the second."""
    heading, following = body_start
    for index in range(len(lines) - 1, -1, -1):
        if lines[index].strip() == heading:
            after = next((line.strip() for line in lines[index + 1 :] if line.strip()), "")
            if after == following:
                return index
    raise ValueError(f"its body does not start with {heading!r}, {following!r}")


def _contents_end(lines: list[str]) -> int:
    """Index at which the book starts after its table of contents; 0 if that cannot be told for certain.

    The first entry of the contents must come back exactly once, as the heading at which the book starts.
    Where it comes back more often (every part has its "CHAPTER I"), or stands before the contents too (a preface),
    a guess could drop text, so nothing is dropped.
    """
    listed = next((i for i, line in enumerate(lines[:_CONTENTS_WITHIN]) if _CONTENTS.match(line)), None)
    if listed is None:
        return 0
    entry = next((line.strip() for line in lines[listed + 1 :] if line.strip()), "")
    found = [i for i, line in enumerate(lines) if entry and line.strip() == entry]
    return found[1] if len(found) == 2 and found[0] > listed else 0


def _paragraphs(lines: list[str]) -> list[str]:
    """Join the hard-wrapped lines of each paragraph.

    Gutenberg wraps at about 70 characters; a model would read each of those line ends as a token that the
    author never wrote. Verse and other indented blocks keep their lines. Between two letters of a script that has no
    spaces between words the author wrote none.
    """
    blocks: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            blocks[-1].append(line.rstrip())
        elif blocks[-1]:
            blocks.append([])
    joined = []
    for block in blocks:
        if block:
            indented = len(block) > 1 and any(line[0].isspace() for line in block)
            whole = "\n".join(line.strip() for line in block)
            joined.append(whole if indented else re.sub(r"(?<=(.))\n(?=(.))", _between, whole))
    return joined


def _between(letters: re.Match[str]) -> str:
    """What stands between two letters that a line end parted: nothing in Chinese and Japanese; Korean has spaces."""
    wide = all(unicodedata.east_asian_width(letter) in "WF" for letter in letters.groups())
    return " " if not wide or any("HANGUL" in unicodedata.name(one, "") for one in letters.groups()) else ""
