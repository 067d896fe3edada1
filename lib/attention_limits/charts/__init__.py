"""Charts of the book: Altair specifications with a caption, an anchor, alt text and one look.

:func:`figure` wraps any Altair chart. In the built book its HTML is drawn by ``static/figures.js`` (which
:mod:`attention_limits.book` ships together with Vega); in JupyterLab the Vega-Lite mime type of the same
object is drawn. Both take their colours from ``static/themes.json``, the one place where the look of a
chart is decided, so a chart names no colour itself.
"""

from .boxes import boxes
from .explorers import curves, head_explorer
from .figures import MAX_ROWS, THEMES, VEGALITE_MIME, Figure, figure, number, tidy
from .head_map import lowest_and_highest

__all__ = [
    "MAX_ROWS",
    "THEMES",
    "VEGALITE_MIME",
    "Figure",
    "boxes",
    "curves",
    "figure",
    "head_explorer",
    "lowest_and_highest",
    "number",
    "tidy",
]
