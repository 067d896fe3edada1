"""A chart with its caption, anchor, alt text and look, as the book and JupyterLab show it."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import altair
import pandas

THEMES: dict[str, Any] = json.loads(
    resources.files("attention_limits").joinpath("static/themes.json").read_text("utf-8")
)
VEGALITE_MIME = f"application/vnd.vegalite.v{altair.SCHEMA_VERSION.lstrip('v').split('.')[0]}+json"
MAX_ROWS = 5000  # Altair's own limit; a page with more is heavy, so a caller aggregates first
_DIGITS = 5  # significant digits kept in a page; far below what a reader can see in a figure
# One dash more than the themes have colours, so that no two lines share both, and legend entries long enough for them.
_DASHES = [[1, 0], [8, 3], [2, 3], [9, 3, 2, 3], [5, 5], [14, 4], [5, 2, 2, 2, 2, 2], [3, 8]]
_DASH_LEGEND = {"symbolType": "stroke", "symbolSize": 900, "symbolStrokeWidth": 2.5, "clipHeight": 14}
_COLUMNS, _GAP = (176, 104), 16  # px of the columns for lists: in a figure of 560 px, and on a telephone
_TOLD_BY_LEGEND = ("color", "fill", "stroke", "strokeDash", "shape", "size", "opacity")
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Figure:
    """A chart with its anchor, caption and alt text; the last value of a cell shows it."""

    spec: dict[str, Any] = field(repr=False)
    name: str
    caption: str
    alt: str

    def to_html(self) -> str:
        """The figure as HTML that waits for figures.js; without scripts it shows its alt text and its caption."""
        tables = self.spec.get("datasets", {})
        content = {
            "spec": {key: part for key, part in self.spec.items() if key != "datasets"},
            "tables": {key: _columns(rows) for key, rows in tables.items()},
            "spans": (spans := _spans(self.spec)),
        }
        rows, narrow_rows = (_rows([pair[i] for pair in spans.values()]) for i in (0, 1))
        wide, narrow = _heights(self.spec, tables)
        return (
            f'<figure id="{self.name}" class="al-figure" style="--wide:{wide}px;--narrow:{narrow}px">\n'
            f'<div class="al-controls" style="--rows:{rows};--narrow-rows:{narrow_rows}"></div>\n'
            f'<div class="al-view" role="img" aria-label="{html.escape(self.alt)}">'
            f'<p class="al-wait">Drawn by the scripts of the book: {html.escape(self.alt)}</p></div>\n'
            f'<script type="application/json" class="al-spec">{_script_json(content)}</script>\n'
            '<figcaption class="tex2jax_process"><span class="al-number"></span>'
            f'{html.escape(self.caption)}</figcaption>\n<div class="al-downloads"></div>\n'
            '<details class="al-data"><summary>Data as a table</summary></details>\n</figure>'
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        config = _merge(THEMES["light"], self.spec.get("config", {}))
        return {
            "text/html": self.to_html(),
            VEGALITE_MIME: {**self.spec, "config": config, "description": self.alt},
            "text/plain": f"Figure {self.name}: {self.caption}",
        }


def figure(chart: altair.TopLevelMixin, *, name: str, caption: str, alt: str) -> Figure:
    r"""Give ``chart`` an anchor, a caption and an alt text.

    ``name`` is the anchor, ``fig-<page>-<topic>`` in lower case; a page links to it with ``[](#name)``.
    ``caption`` states the finding in plain text, with mathematics as ``\( ... \)``. ``alt`` says what is
    drawn, for readers who do not see it. Raises ValueError for a name of another form, an empty caption or
    alt text, mathematics that is not closed, or more than 5000 rows of data.
    """
    if not re.fullmatch(r"fig-[a-z0-9]+(-[a-z0-9]+)*", name):
        raise ValueError(
            f"figure name {name!r}: write fig-<page>-<topic> in lower-case letters, digits and hyphens"
        )
    if not caption.strip() or not alt.strip():
        raise ValueError(f"figure {name}: caption and alt must both say something")
    if caption.count(r"\(") != caption.count(r"\)"):
        raise ValueError(
            f"figure {name}: mathematics in the caption opens with \\( and closes with \\): {caption!r}"
        )
    return Figure(_spec(chart, name), name, caption, alt)


def number(value: float, digits: int = 3) -> str:
    """``value`` for a sentence: whole numbers exact, others to ``digits`` significant digits, powers of ten
    for very large or small ones. Raises ValueError for a value that is not finite."""
    if not math.isfinite(value):
        raise ValueError(f"number: {value!r} is not finite, so a sentence cannot state it")
    if isinstance(value, int) or (hasattr(value, "dtype") and value.dtype.kind in "iu"):
        return f"{int(value):,}".replace("-", "−")
    value = float(value) or 0.0  # no minus before zero
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    power = int(exponent)
    if value and not -4 <= power < 6:
        return f"{mantissa} × 10{str(power).translate(_SUPERSCRIPTS)}".replace("-", "−")
    return f"{round(value, digits - 1 - power):,.{max(0, digits - 1 - power)}f}".replace("-", "−")


def tidy(table: pandas.DataFrame, digits: int = 3) -> pandas.DataFrame:
    """``table`` for reading: rounded, without columns that hold nothing, and with a dash where a number is missing."""
    kept = table.dropna(axis=1, how="all").round(digits)
    return kept.astype(object).where(kept.notna(), "–")


def _spec(chart: altair.TopLevelMixin, name: str) -> dict[str, Any]:
    """The chart as a Vega-Lite specification without any theme, its numbers rounded."""
    try:
        with altair.theme.enable("none"):
            spec = chart.to_dict()
    except altair.MaxRowsError as error:
        raise ValueError(
            f"figure {name}: more than {MAX_ROWS} rows of data; aggregate or thin them before drawing"
        ) from error
    spec.get("config", {}).pop("view", None)
    _show_dashes(spec)
    for rows in spec.get("datasets", {}).values():
        for row in rows:
            row.update((key, _rounded(value)) for key, value in row.items() if isinstance(value, float))
    return spec


def _show_dashes(spec: dict[str, Any]) -> None:
    """Give every field that is told by dashes the same dashes and a legend that shows them."""
    encodings = list(_encodings(spec))
    dashed = {
        encoding["strokeDash"]["field"] for encoding in encodings if "field" in encoding.get("strokeDash", {})
    }
    for encoding in encodings:
        colour, dash = encoding.get("color", {}), encoding.get("strokeDash", {})
        if dash.get("field") == colour.get("field") and "legend" in colour:
            dash.setdefault("legend", colour["legend"])  # one legend for both
        for channel in (colour, dash):
            if channel.get("field") in dashed and channel.get("legend", {}) is not None:
                channel["legend"] = channel.get("legend", {}) | _DASH_LEGEND
        if "field" in dash:
            dash["scale"] = {"range": _DASHES} | dash.get("scale", {})


def _encodings(part: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every encoding of a specification, those of its layers and panels included."""
    if "encoding" in part:
        yield part["encoding"]
    for inner in ("layer", "hconcat", "vconcat", "concat"):
        for child in part.get(inner, ()):
            yield from _encodings(child)
    if isinstance(part.get("spec"), Mapping):
        yield from _encodings(part["spec"])


def _rounded(value: float) -> float | int:
    short = float(f"{value:.{_DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list]:
    """Rows as one list of names and one list of values per row: half the bytes of a list of objects."""
    names = list(dict.fromkeys(key for row in rows for key in row))
    return {"columns": names, "rows": [[row.get(key) for key in names] for row in rows]}


def _script_json(content: Any) -> str:
    """JSON that no HTML parser can take for the end of a script element or for a comment."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _heights(spec: Mapping[str, Any], tables: Mapping[str, Any]) -> tuple[int, int]:
    """Pixels to keep free before drawing, in a wide and in a narrow container (panels stacked)."""
    panels = spec.get("hconcat") or spec.get("vconcat")
    if not panels:
        own = spec.get("height", 300)
        own = own if isinstance(own, int) else 300
        rows = tables.get((spec.get("data") or {}).get("name", ""), ())
        around = 48 + own + (18 if "title" in spec else 0)
        return around + _legend(spec, rows, columns=2), around + _legend(spec, rows, columns=1)
    heights = [_heights({"data": spec.get("data"), **panel}, tables) for panel in panels]
    wide, narrow = [pair[0] for pair in heights], [pair[1] for pair in heights]
    gaps = spec.get("spacing", 20) * (len(panels) - 1)
    return max(wide) if "hconcat" in spec else sum(wide) + gaps, sum(narrow) + gaps


def _legend(spec: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], columns: int) -> int:
    """Pixels of the highest legend of one panel, in the themes' font sizes.

    In a narrow container, where ``columns`` is 1, figures.js makes every legend one list.
    """
    told = [
        encoding[name]
        for encoding in _encodings(spec)
        for name in _TOLD_BY_LEGEND
        if "field" in encoding.get(name, {}) and encoding[name].get("legend", {}) is not None
    ]
    titles = [(part["field"], part.get("legend", {}).get("title", part.get("title", "?"))) for part in told]
    untitled = {field for field, title in titles if not title}  # one channel's word holds for a shared legend
    highest = 0
    for part in told:
        title = 0 if part["field"] in untitled else 17
        entries = (part.get("scale") or {}).get("domain") or {row.get(part["field"]) for row in rows}
        across = part.get("legend", {}).get("columns", columns) if columns > 1 else 1
        shades = part.get("type") == "quantitative"
        highest = max(highest, title + (40 if shades else 15 + 17 * math.ceil(len(entries) / across)))
    return highest


def _spans(spec: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """How many of the three columns of figures.css each drop-down list or slider takes, in a wide and a narrow figure.

    In the order of figures.js: those of the picked mark are last.
    """
    bound = [param for param in spec.get("params", []) if isinstance(param.get("bind"), dict)]
    lists = {param["name"]: param["bind"] for param in bound if "input" in param["bind"]}
    for param in bound:
        if "input" not in param["bind"]:
            lists |= {f"{param['name']}_{field}": bind for field, bind in param["bind"].items()}
    spans = {}
    for name, bind in lists.items():
        texts = [bind.get("name", name), *(bind.get("labels") or bind.get("options", ()))]
        needed = 36 + 8 * max(len(str(text)) for text in texts)  # px of frame and arrow, and of a letter
        wide, narrow = (math.ceil((needed + _GAP) / (column + _GAP)) for column in _COLUMNS)
        spans[name] = (min(3, wide), min(3, narrow))
    return spans


def _rows(spans: Sequence[int]) -> int:
    """Rows of three columns that lists of these ``spans`` fill, one after the other, so that room is kept for them."""
    rows, free = 0, 0
    for span in spans:
        if span > free:
            rows, free = rows + 1, 3
        free -= span
    return rows


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` laid over ``base``, nested objects merged."""
    merged = dict(base)
    for key, value in over.items():
        nested = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if nested else value
    return merged
