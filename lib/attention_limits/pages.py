"""What staging adds to the book: every chapter's place in the contents, and the block about its run at its end."""

from __future__ import annotations

import datetime
import html
import re
from collections.abc import Iterable, Iterator
from typing import Any

import nbformat

from attention_limits import citation, execute
from attention_limits.provenance import PLACES, public, table

FILES = "files"  # folder of the site that holds every page's source and executed notebook
FURTHER = "Further chapters"


def contents(
    toc: dict[str, Any], executed: Iterable[str], api: Iterable[str], unexecuted: Iterable[str] = ()
) -> dict[str, Any]:
    """The table of contents with what was executed and is not named in it, and with the API pages below their first.

    A chapter is named by hand only to give it a certain place; all others come in a part of their own before the last.
    ``unexecuted``: notebooks of the project that this book has not; they are left out.
    """
    toc = _without(toc, set(unexecuted))
    listed = set(files(toc))
    further = [{"file": name} for name in executed if name not in listed]
    if further and "parts" in toc:
        toc["parts"].insert(-1, {"caption": FURTHER, "chapters": further})
    elif further:
        toc["chapters"] = [*toc.get("chapters", []), *further]
    for entry in _entries(toc):
        if entry["file"] == "api":
            # Its own numbering, if any, would be a second one inside that of the contents.
            entry |= {"sections": [{"file": name} for name in api], "options": {"numbered": False}}
    return toc


def _without(node: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """A copy of the contents without the pages of these names, and without parts that are empty then."""
    node = dict(node)
    for key in {"parts", "chapters", "sections"} & node.keys():
        kept = [_without(entry, names) for entry in node[key] if entry.get("file") not in names]
        node[key] = [entry for entry in kept if entry.get("chapters") != []]
    return node


def files(toc: dict[str, Any]) -> list[str]:
    """Every page that a table of contents names, without suffix, the first one first."""
    return [toc["root"], *(entry["file"] for entry in _entries(toc))]


def _entries(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for key in ("parts", "chapters", "sections"):
        for entry in node.get(key, ()):
            if "file" in entry:
                yield entry
            yield from _entries(entry)


def add_about(notebook: Any, source: str, up: str, works: list[dict[str, Any]]) -> None:
    """Put the block about its run at the end of an executed notebook whose parameters tell no place.

    ``source``: the file name of its source; ``up``: the way from its page to the first page ("" or "../"); ``works``:
    those of :func:`attention_limits.citation.load`.
    """
    executed = re.sub(r"\.\w+$", ".ipynb", source)
    link = '<a href="{}" download>{}</a>'.format
    places = [f"{up}{FILES}/{html.escape(name)}" for name in (source, executed)]
    text = [
        "`````{dropdown} About this run: files, parameters, time, citation\n:class-container: al-about\n",
        f"{link(places[0], 'Source notebook')} (MyST Markdown; Jupyter opens it by Jupytext) and "
        f"{link(places[1], 'executed notebook')} with all results.\n",
        table(["This page", ""], _facts(notebook)) + "\n",
    ]
    if used := _parameters(notebook):
        text.append(table(["Parameter", "Value"], used.items()) + "\n")
    if works:
        text.append("**Cite this**, and the paper that it works through:\n")
        text += [f"- {citation.apa(work)}" for work in works]
        text.append("\n```bibtex\n" + "\n\n".join(map(citation.bibtex, works)) + "\n```\n")
    cell = nbformat.v4.new_markdown_cell("\n".join([*text, "`````"]))
    cell.id = "about-this-run"  # a random one would make every build differ
    notebook.cells.append(cell)


def _parameters(notebook: Any) -> dict[str, Any]:
    """Every parameter of the notebook and its value in this run, but those that are places."""
    used = execute.declared(notebook) | dict(notebook.metadata.papermill.get("parameters", {}))
    return {name: public(value) for name, value in used.items() if name not in PLACES}


def _facts(notebook: Any) -> list[list[str]]:
    run, used = notebook.metadata.papermill, _parameters(notebook)
    start = datetime.datetime.fromisoformat(run.start_time).astimezone(datetime.UTC)
    facts = [[word, used[kind]] for kind, word in (("model", "Model"), ("text", "Text")) if kind in used]
    if "device" in used:
        facts.append(["Device", notebook.metadata.get("machine", {}).get("Device", used["device"])])
    return [
        *facts,
        ["Started (UTC)", f"{start:%Y-%m-%d %H:%M:%S}"],
        ["Run time", f"{run.duration:.1f} seconds"],
    ]
