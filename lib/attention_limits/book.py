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

import csv
import html
import json
import os
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import vl_convert
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains import ObjType
from sphinx.domains.std import StandardDomain
from sphinx.errors import ExtensionError
from sphinx_proof.domain import ProofDomain

from . import markup
from .charts import THEMES
from .markup import FIGURE

SITE = "ATTENTION_LIMITS_SITE"
_FOLDER = "attention-limits"  # inside the static folder of the build
_OWN_FILES = ("figures.css", "figures.js", "page.css", "page.js")
_SCRIPTS = ("vega.js", "themes.js", "figures.js")
_NUMBER = '<span class="al-number">'


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
    app.connect("doctree-read", number_figures)
    app.connect("doctree-read", name_statements)
    app.connect("html-page-context", load_scripts)
    app.connect("html-page-context", finish_body)
    app.connect("html-page-context", drop_addresses, priority=900)  # after the tags are there
    app.connect("build-finished", finish_files)
    app.set_html_assets_policy("always")  # a caption may hold the only mathematics of its page
    for name in ("figures.css", "page.css"):
        app.add_css_file(f"{_FOLDER}/{name}")
    app.add_js_file(f"{_FOLDER}/page.js", loading_method="defer")
    return {"version": "2", "parallel_read_safe": True, "parallel_write_safe": True}


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


def set_scorer(app: Sphinx, config: Any) -> None:
    """Give the search its order of results."""
    config.html_search_scorer = str(resources.files(__package__).joinpath("static", "search.js"))


def write_static_files(app: Sphinx) -> None:
    """Write Vega, the themes, the drawing script and the style sheet into the build."""
    if app.builder.format != "html":
        return
    folder = Path(app.outdir) / "_static" / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    own = resources.files(__package__).joinpath("static")
    files = {name: own.joinpath(name).read_text(encoding="utf-8") for name in _OWN_FILES}
    files["themes.js"] = f"window.attentionLimitsThemes = {json.dumps(THEMES)};\n"
    # The bundle declares hundreds of short names; a function of its own keeps them from other scripts.
    bundle = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # its stub forgets the default
    files["vega.js"] = "(function () {\n" + bundle + "\n})();\n"
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    if site():
        picture = own.joinpath("preview.json").read_text(encoding="utf-8")
        (folder / "preview.png").write_bytes(vl_convert.vegalite_to_png(picture))


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


class Statements(ProofDomain):
    """Theorems and their like as :mod:`sphinx_proof` has them, and known to the search by number and name."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.object_types = {kind: ObjType(kind, "ref") for kind in self.directives}

    def get_type_name(self, type: ObjType, primary: bool = False) -> str:
        """The kind alone, as the search shows it."""
        return type.lname

    def get_objects(self) -> Iterator[tuple[str, str, str, str, str, int]]:
        """What Sphinx asks of a domain: (name, name to show, kind, page, anchor, 0 for what is to come first)."""
        for label, found in getattr(self.env, "proof_list", {}).items():
            numbers = self.env.toc_fignumbers.get(found["docname"], {}).get(found["countertype"], {})
            number = ".".join(map(str, numbers.get(label, ())))
            name = f"{found['realtype'].title()} {number}{found.get('title', '')}"
            yield name, name, found["realtype"], found["docname"], label, 0


def name_statements(app: Sphinx, doctree: nodes.document) -> None:
    """Note the title of each statement of one page, which sphinx_proof does not."""
    known = getattr(app.env, "proof_list", {})
    for node in doctree.findall(nodes.Element):
        if node.get("label") in known and "realtype" in node:
            known[node["label"]]["title"] = node[0].astext()


def finish_body(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: Any) -> None:
    """What :mod:`attention_limits.markup` adds to a page; the data of its figures go into the static folder."""
    if doctree is None:
        return

    def save(name: str, table: dict[str, list]) -> str:
        """Write one table; return its address as seen from the page."""
        path = f"_static/{_FOLDER}/data/{name}.csv"
        target = Path(app.outdir, path)
        target.parent.mkdir(exist_ok=True)
        with target.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([table["columns"], *table["rows"]])
        return context["pathto"](path, 1)

    body = markup.with_room(markup.with_lines(markup.with_links(context["body"])))
    context["body"] = markup.with_breaks(markup.with_data(body, save))


def site() -> str:
    """The address that the book is published at, ending in a slash, from ATTENTION_LIMITS_SITE; "" where it is unset.

    Raises ExtensionError for what is no web address.
    """
    given = os.environ.get(SITE, "").strip()
    parts = urlsplit(given)
    if given and (parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment):
        raise ExtensionError(
            f"{SITE} is {given!r}; write a web address such as https://owner.github.io/book/"
        )
    return given.rstrip("/") + "/" if given else ""


def tell_site(app: Sphinx, config: Any) -> None:
    """Settings of canonical links, previews and the sitemap, all from the one address."""
    address = site()
    config.ogp_social_cards = {"enable": False}  # they need matplotlib
    config.ogp_site_name = config.html_title
    config.ogp_custom_meta_tags = ['<meta name="twitter:card" content="summary_large_image" />']
    config.html_baseurl = config.ogp_site_url = address
    if address:
        config.ogp_image = f"{address}_static/{_FOLDER}/preview.png"
        config.ogp_image_alt = "The title of the book beside a triangle of attention weights"
        config.sitemap_url_scheme = "{link}"
        config.sitemap_excludes = ["search.html", "genindex.html", "prf-prf.html", "py-modindex.html"]


def drop_addresses(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: Any) -> None:
    """No address of the page in its preview where none is known: the protocol wants whole ones."""
    if "metatags" in context and not site():
        context["metatags"] = re.sub(r'<meta property="og:url"[^>]*>\n?', "", context["metatags"])


def load_scripts(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: Any) -> None:
    """Load the drawing scripts on pages that have a figure, and Thebe on none.

    Jupyter Book always loads sphinx_thebe, whose only use is to fetch a script from another host, and whose
    settings, when loaded twice, are an error in the console.
    """
    context["script_files"][:] = [s for s in context["script_files"] if not _is_thebe(s)]
    if doctree is None or not any(FIGURE.search(node.astext()) for node in doctree.findall(nodes.raw)):
        return
    for name in _SCRIPTS:
        app.add_js_file(f"{_FOLDER}/{name}", loading_method="defer")


def finish_files(app: Sphinx, error: Exception | None) -> None:
    """What the theme's templates leave no other way for.

    Its icon script, 1.5 MB on every page, goes: the same icons come in its font. And a page has its colours from
    the start, not only once the theme's script has run; without scripts they are the light ones.
    """
    if app.builder.format != "html":
        return
    preferred = 'matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"'
    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        text = re.sub(r"<script [^>]*/fontawesome\.js[^>]*></script>", "", text)
        text = re.sub(r'(<html [^>]*data-theme=)"auto"', r'\1"light"', text)
        text = text.replace(
            'localStorage.getItem("theme") || "auto"', f'localStorage.getItem("theme") || ({preferred})'
        )
        page.write_text(markup.with_named_folds(text), encoding="utf-8")
    for script in Path(app.outdir, "_static", "scripts").glob("fontawesome.js*"):
        script.unlink()


def _is_thebe(script: Any) -> bool:
    """Whether a script file or an inline script is one of sphinx_thebe's."""
    return "thebe" in f"{script.filename} {script.attributes.get('body', '')}".lower()
