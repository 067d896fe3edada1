"""What is on every page beside its text: the notices of a run, and the theme put right."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from . import markup


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
