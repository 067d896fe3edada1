"""The files that all pages share: Vega, the themes of the figures, scripts and style sheets."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import vl_convert
from sphinx.application import Sphinx

from attention_limits.charts import THEMES

FOLDER = "attention-limits"  # inside the static folder of the build
OWN = resources.files("attention_limits").joinpath("static")
_OWN_FILES = ("figures.css", "figures.js", "page.css", "page.js")


def write_static_files(app: Sphinx) -> None:
    """Write Vega, the themes, the drawing script and the style sheet into the build."""
    if app.builder.format != "html":
        return
    folder = Path(app.outdir) / "_static" / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: OWN.joinpath(name).read_text(encoding="utf-8") for name in _OWN_FILES}
    files["themes.js"] = f"window.attentionLimitsThemes = {json.dumps(THEMES)};\n"
    # The bundle declares hundreds of short names; a function of its own keeps them from other scripts.
    bundle = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # its stub forgets the default
    files["vega.js"] = "(function () {\n" + bundle + "\n})();\n"
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
