"""Sphinx extension: a button that opens a page's own notebook on Binder, where the repository's address is known.

The environment variable ATTENTION_LIMITS_REPOSITORY holds that address. The theme's own launch buttons would name the
executed notebook, which lies in no repository; and Colab opens no Markdown notebook, so there is no button for it.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

VARIABLE = "ATTENTION_LIMITS_REPOSITORY"
BINDER = "https://mybinder.org/v2"


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the extension; called by Sphinx."""
    app.connect("builder-inited", lambda app: repository())
    app.connect("html-page-context", add_button, priority=600)  # after the theme has made its own buttons
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def repository() -> str:
    """The repository's web address without a slash at its end, or "" where it is not known.

    Raises ExtensionError for something that is no web address.
    """
    address = os.environ.get(VARIABLE, "").strip().rstrip("/").removesuffix(".git")
    if address and not re.fullmatch(r"https?://[^/\s]+/\S+", address):
        raise ExtensionError(
            f"{VARIABLE} is {address!r}; it must be the web address of a repository, such as https://github.com/owner/name"
        )
    return address


def source_of(page: Path) -> str:
    """Where the notebook that a page is made of lies in the repository, as `publish.stage` noted it; "" for none."""
    if page.suffix != ".ipynb":
        return ""
    return json.loads(page.read_text(encoding="utf-8"))["metadata"].get("source", "")


def binder(address: str, notebook: str) -> str:
    """The web address at which Binder builds environment.yml of a repository and opens one of its notebooks."""
    github = re.fullmatch(r"https?://github\.com/([^/]+/[^/]+)", address)
    where = f"gh/{github[1]}" if github else f"git/{quote(address, safe='')}"
    return f"{BINDER}/{where}/HEAD?urlpath={quote(f'lab/tree/{notebook}')}"


def add_button(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: Any) -> None:
    """Give a page that is made of a notebook its button."""
    address = repository()
    if not address or doctree is None or not (source := source_of(Path(app.env.doc2path(pagename)))):
        return
    button = {
        "type": "link",
        "text": "Binder",
        "tooltip": "Run this notebook on Binder",
        "icon": "fas fa-rocket",
        "url": binder(address, source),
        "label": "launch-binder",
    }
    context.setdefault("header_buttons", []).append(button)
