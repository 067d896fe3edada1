"""The figures of a page: their numbers, their data as files, and the scripts that draw them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains.std import StandardDomain
from sphinx.errors import ExtensionError

from . import markup
from .assets import FOLDER
from .markup import FIGURE

_SCRIPTS = ("vega.js", "themes.js", "figures.js")
_NUMBER = '<span class="al-number">'


def number_figures(app: Sphinx, doctree: nodes.document) -> None:
    """Write "Figure k." into the captions of one page and let other pages refer to the figures by name."""
    domain = app.env.get_domain("std")
    assert isinstance(domain, StandardDomain)
    count = 0
    for node in list(doctree.findall(nodes.raw)):
        found = FIGURE.search(node.astext())
        if node.get("format") != "html" or not found:
            continue
        count += 1
        name = found.group(1)
        if (known := domain.labels.get(name)) and known[:2] != (app.env.docname, name):
            raise ExtensionError(f"figure {name} is on two pages: {known[0]} and {app.env.docname}")
        domain.anonlabels[name] = (app.env.docname, name)
        domain.labels[name] = (app.env.docname, name, f"Figure {count}")
        text = node.astext().replace(_NUMBER, f"{_NUMBER}Figure {count}. ", 1)
        node.replace_self(nodes.raw("", text, **node.attributes))


def load_scripts(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: Any) -> None:
    """Load the drawing scripts on pages that have a figure, and Thebe on none.

    Jupyter Book always loads sphinx_thebe, whose only use is to fetch a script from another host, and whose
    settings, when loaded twice, are an error in the console.
    """
    context["script_files"][:] = [s for s in context["script_files"] if not _is_thebe(s)]
    if doctree is None or not any(FIGURE.search(node.astext()) for node in doctree.findall(nodes.raw)):
        return
    for name in _SCRIPTS:
        app.add_js_file(f"{FOLDER}/{name}", loading_method="defer")


def finish_body(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: Any) -> None:
    """What :mod:`attention_limits.markup` adds to a page; the data of its figures go into the static folder."""
    if doctree is None:
        return

    def save(name: str, table: dict[str, list]) -> str:
        """Write one table; return its address as seen from the page."""
        path = f"_static/{FOLDER}/data/{name}.csv"
        target = Path(app.outdir, path)
        target.parent.mkdir(exist_ok=True)
        with target.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([table["columns"], *table["rows"]])
        return context["pathto"](path, 1)

    body = markup.with_room(markup.with_lines(markup.with_links(context["body"])))
    context["body"] = markup.with_breaks(markup.with_data(body, save))


def _is_thebe(script: Any) -> bool:
    """Whether a script file or an inline script is one of sphinx_thebe's."""
    return "thebe" in f"{script.filename} {script.attributes.get('body', '')}".lower()
