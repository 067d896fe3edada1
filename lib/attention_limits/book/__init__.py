"""Sphinx extension of the book: draws its figures offline, numbers and links them, shows a run's notices.

- Vega, Vega-Lite and Vega-Embed come as one script from vl_convert and are written once into the static
  folder of the build; only pages that have a figure load them.
- ``<figure id="fig-...">`` of :mod:`attention_limits.charts` becomes "Figure k" of its page and a target of
  ``[](#fig-...)`` from any page. Its data also lie in the build as CSV files, for readers without scripts.
- Figures and statements (theorems, lemmas, ...) have a link to themselves, and the search knows the statements
  by number and name. What has the whole query in its own name comes first in the search (static/search.js).
- Notices in ``sources.json`` of the source folder (a fallback model or text was taken) head every page.
- Where the environment variable ATTENTION_LIMITS_SITE names the address that the book is published at, pages have
  a canonical link and a picture for previews, and there is a sitemap. Otherwise no page knows an address.
"""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

from .assets import FOLDER, write_static_files
from .figures import finish_body, load_scripts, number_figures
from .search import Statements, name_statements, set_scorer
from .site import drop_addresses, site, tell_site, write_picture
from .theme import finish_files, show_notices


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the extension; called by Sphinx."""
    app.setup_extension("sphinx_proof")
    app.add_domain(Statements, override=True)
    app.setup_extension("sphinxext.opengraph")
    if site():
        app.setup_extension("sphinx_sitemap")
    app.connect("config-inited", show_notices)
    app.connect("config-inited", tell_site)
    app.connect("config-inited", set_scorer)
    app.connect("builder-inited", write_static_files)
    app.connect("builder-inited", write_picture)
    app.connect("doctree-read", number_figures)
    app.connect("doctree-read", name_statements)
    app.connect("html-page-context", load_scripts)
    app.connect("html-page-context", finish_body)
    app.connect("html-page-context", drop_addresses, priority=900)  # after the tags are there
    app.connect("build-finished", finish_files)
    app.set_html_assets_policy("always")  # a caption may hold the only mathematics of its page
    for name in ("figures.css", "page.css"):
        app.add_css_file(f"{FOLDER}/{name}")
    app.add_js_file(f"{FOLDER}/page.js", loading_method="defer")
    return {"version": "2", "parallel_read_safe": True, "parallel_write_safe": True}
