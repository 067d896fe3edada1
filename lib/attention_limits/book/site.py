"""The address that the book is published at: canonical links, previews and the sitemap have it, or there are none."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import vl_convert
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from .assets import FOLDER, OWN

SITE = "ATTENTION_LIMITS_SITE"


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
        config.ogp_image = f"{address}_static/{FOLDER}/preview.png"
        config.ogp_image_alt = "The title of the book beside a triangle of attention weights"
        config.sitemap_url_scheme = "{link}"
        config.sitemap_excludes = ["search.html", "genindex.html", "prf-prf.html", "py-modindex.html"]


def write_picture(app: Sphinx) -> None:
    """Draw the picture of the previews into the build, where they can name its address."""
    if app.builder.format == "html" and site():
        drawn = vl_convert.vegalite_to_png(OWN.joinpath("preview.json").read_text(encoding="utf-8"))
        Path(app.outdir, "_static", FOLDER, "preview.png").write_bytes(drawn)


def drop_addresses(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: Any) -> None:
    """No address of the page in its preview where none is known: the protocol wants whole ones."""
    if "metatags" in context and not site():
        context["metatags"] = re.sub(r'<meta property="og:url"[^>]*>\n?', "", context["metatags"])
