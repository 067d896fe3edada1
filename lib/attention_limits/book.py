"""Sphinx extension of the book: draws its figures offline, numbers and links them, shows a run's notices.

- Vega, Vega-Lite and Vega-Embed come as one script from vl_convert and are written once into the static
  folder of the build; only pages that have a figure load them.
- ``<figure id="fig-...">`` of :mod:`attention_limits.charts` becomes "Figure k" of its page and a target of
  ``[](#fig-...)`` from any page.
- Notices in ``sources.json`` of the source folder (a fallback model or text was taken) head every page.
"""

from __future__ import annotations

import html
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import vl_convert
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from .charts import THEMES

_FOLDER = "attention-limits"  # inside the static folder of the build
_SCRIPTS = ("vega.js", "themes.js", "figures.js")
_FIGURE = re.compile(r'<figure id="(fig-[a-z0-9-]+)" class="al-figure"')
_NUMBER = '<span class="al-number">'


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the extension; called by Sphinx."""
    app.connect("config-inited", show_notices)
    app.connect("builder-inited", write_static_files)
    app.connect("doctree-read", number_figures)
    app.connect("html-page-context", load_scripts)
    app.set_html_assets_policy("always")  # a caption may hold the only mathematics of its page
    app.add_css_file(f"{_FOLDER}/figures.css")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def notices(folder: Path) -> list[str]:
    """The notices in ``folder/sources.json``, without repetition; none where the file is absent.

    Raises ExtensionError (with the file and what is wrong) for a file that is not what
    ``python -m attention_limits.sources`` writes.
    """
    path = folder / "sources.json"
    if not path.exists():
        return []
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = [source.get("notice", "").strip() for source in content.values()]
    except (ValueError, AttributeError) as error:
        raise ExtensionError(f"{path}: not a sources file ({error}); delete it and build again") from error
    return [notice for notice in dict.fromkeys(found) if notice]


def show_notices(app: Sphinx, config: Any) -> None:
    """Put the notices into the announcement of the theme, as text."""
    found = notices(Path(app.srcdir))
    if found:
        config.html_theme_options["announcement"] = "".join(
            f"<p>{html.escape(notice)}</p>" for notice in found
        )


def write_static_files(app: Sphinx) -> None:
    """Write Vega, the themes, the drawing script and the style sheet into the build."""
    if app.builder.format != "html":
        return
    folder = Path(app.outdir) / "_static" / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    own = resources.files(__package__).joinpath("static")
    files = {name: own.joinpath(name).read_text(encoding="utf-8") for name in ("figures.js", "figures.css")}
    files["themes.js"] = f"window.attentionLimitsThemes = {json.dumps(THEMES)};\n"
    # The bundle declares hundreds of short names; a function of its own keeps them from other scripts.
    files["vega.js"] = "(function () {\n" + vl_convert.javascript_bundle() + "\n})();\n"
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def number_figures(app: Sphinx, doctree: nodes.document) -> None:
    """Write "Figure k." into the captions of one page and let other pages refer to the figures by name."""
    domain = app.env.get_domain("std")
    count = 0
    for node in list(doctree.findall(nodes.raw)):
        found = _FIGURE.search(node.astext())
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
    if doctree is None or not any(_FIGURE.search(node.astext()) for node in doctree.findall(nodes.raw)):
        return
    for name in _SCRIPTS:
        app.add_js_file(f"{_FOLDER}/{name}", loading_method="defer")


def _is_thebe(script: Any) -> bool:
    """Whether a script file or an inline script is one of sphinx_thebe's."""
    return "thebe" in f"{script.filename} {script.attributes.get('body', '')}".lower()
