"""How to cite the companion and the paper: BibTeX and APA text, made from CITATION.cff."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import yaml


class CitationError(Exception):
    """CITATION.cff cannot be read or lacks what a citation needs; the message says what."""


def load(path: Path, address: str = "") -> list[dict[str, Any]]:
    """The works to cite: this companion first, then the paper and whatever else is listed under ``references``.

    ``address``: where the companion is found on the web, for a file that names no ``url``. Raises CitationError.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        works = [{"url": content.get("repository-code", address), **content}, *content["references"]]
        works[0]["year"] = str(content["date-released"])[:4]
        for work in works:
            if not all(work.get(key) for key in ("title", "authors", "year", "type")):
                raise KeyError("title, authors, year or type")
            if not all(
                "name" in author or {"family-names", "given-names"} <= author.keys()
                for author in work["authors"]
            ):
                raise KeyError("an author's name, or their family-names and given-names")
    except (OSError, yaml.YAMLError, KeyError, AttributeError) as error:
        raise CitationError(f"{path}: not a citation file with what is needed: {error}") from error
    return works


def apa(work: dict[str, Any]) -> str:
    """One work in the style of the APA, as Markdown: its title, or that of the proceedings, is in italics.

    Its address is a link of HTML, since the theme shortens those of Markdown.
    """
    names = [_apa_name(author) for author in work["authors"]]
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])}, & {names[-1]}"
    lead = f"{listed.rstrip('.')}. ({work['year']})."
    if work["type"] == "software":
        where = f"*{work['title']}* (Version {work['version']}) [Computer software]."
    else:
        held = f" In *{work['collection-title']}*." if work.get("collection-title") else ""
        where = f"{work['title']}.{held}"
    address = html.escape(work.get("url") or "")
    return f"{lead} {where}" + (f' <a href="{address}">{address}</a>' if address else "")


def bibtex(work: dict[str, Any]) -> str:
    """One work as a BibTeX entry; the braces around the title keep its capitals."""
    kind = {"software": "software", "conference-paper": "inproceedings"}.get(work["type"], "misc")
    fields = {
        "title": "{" + work["title"] + "}",
        "author": " and ".join(_bibtex_name(author) for author in work["authors"]),
        "booktitle": work.get("collection-title"),
        "year": work["year"],
        "version": work.get("version"),
        "url": work.get("url"),
    }
    first = work["authors"][0]
    word = first.get("family-names", "companion").lower().replace(" ", "")
    key = f"{word}{work['year']}{'limits' if kind == 'software' else ''}"
    lines = [f"  {name} = {{{value}}}" for name, value in fields.items() if value]
    return f"@{kind}{{{key},\n" + ",\n".join(lines) + "\n}"


def _apa_name(author: dict[str, str]) -> str:
    if "name" in author:
        return author["name"]
    initials = " ".join(f"{name[0]}." for name in author["given-names"].split())
    return f"{author['family-names']}, {initials}"


def _bibtex_name(author: dict[str, str]) -> str:
    # A group's name in braces is not split into a first and a last name.
    return (
        "{" + author["name"] + "}"
        if "name" in author
        else f"{author['family-names']}, {author['given-names']}"
    )
