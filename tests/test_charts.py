"""Figures: what their HTML says, what their specification draws (compiled and rendered by Vega), what is refused."""

from __future__ import annotations

import html
import json
import math
import re
from html.parser import HTMLParser

import altair as alt
import numpy as np
import pandas as pd
import pytest
import vl_convert
from attention_limits import charts
from attention_limits.charts.boxes import BOX
from attention_limits.charts.theory import picked_curves
from hypothesis import given
from hypothesis import strategies as st
from sample_book import explorer, heads


def bars(values) -> alt.Chart:
    return (
        alt.Chart(pd.DataFrame({"a": list(range(len(values))), "b": values}))
        .mark_bar()
        .encode(x="a:O", y="b:Q")
    )


def plain(**changes):
    given = {"name": "fig-page-topic", "caption": "It rises.", "alt": "A rising line."}
    return charts.figure(bars([1.0, 2.0]), **{**given, **changes})


class Page(HTMLParser):
    """Tags, attributes, and the text of every element, as a browser reads them."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.text: dict[str, str] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text[self.open[-1]] = self.text.get(self.open[-1], "") + data if self.open else data


HOSTILE = "</script><!-- </figcaption> <b>&amp; \" ' \u2028 {{ x }} $5 \\( a < b \\)"


@given(st.text(alphabet=st.sampled_from(list("<>&\"'/!-\u2028a{}$")), min_size=1).filter(lambda s: s.strip()))
def test_no_text_breaks_out_of_the_page(text):
    """Caption, alt text and data come back as they were given, whatever they hold."""
    chart = alt.Chart(pd.DataFrame({"a": [text], "b": [1]})).mark_bar().encode(x="a:N", y="b:Q")
    page = Page(charts.figure(chart, name="fig-a-b", caption=text, alt=text).to_html())
    assert not page.open
    assert [tag for tag, _ in page.tags] == [
        "figure",
        "div",
        "div",
        "p",
        "script",
        "figcaption",
        "span",
        "div",
        "details",
        "summary",
    ]
    assert page.text["figcaption"].replace("\r", "\n") == text + ""
    assert page.tags[2][1]["aria-label"] == text
    (table,) = json.loads(page.text["script"])["tables"].values()
    assert table["rows"] == [[text, 1]]


def test_a_tidy_table_has_no_empty_columns_and_dashes_for_what_is_missing():
    table = pd.DataFrame({"a": [1.23456, np.nan], "b": [np.nan, np.nan], "c": [2, 3]})
    assert charts.tidy(table).to_dict("list") == {"a": [1.235, "–"], "c": [2, 3]}


def test_the_figure_holds_anchor_caption_alt_and_room():
    figure = plain(caption=HOSTILE, alt=HOSTILE)
    page = Page(figure.to_html())
    tag, attributes = page.tags[0]
    assert (tag, attributes["id"]) == ("figure", "fig-page-topic")
    heights = [int(number) for number in re.findall(r"--(?:wide|narrow):(\d+)px", attributes["style"])]
    assert len(heights) == 2 and min(heights) >= 300
    assert page.text["figcaption"] == HOSTILE
    assert "tex2jax_process" in dict(page.tags[5][1])["class"]  # MyST switches MathJax off elsewhere
    assert page.tags[2][1] == {"class": "al-view", "role": "img", "aria-label": HOSTILE}


def test_stacked_panels_keep_more_room_than_panels_side_by_side():
    style = Page(charts.figure(explorer(), name="fig-a-b", caption="c", alt="a").to_html()).tags[0][1][
        "style"
    ]
    wide, narrow = (int(number) for number in re.findall(r":(\d+)px", style))
    spec = explorer().to_dict()
    heights = [panel["height"] for panel in spec["hconcat"]]
    assert wide > max(heights) and narrow > sum(heights) + spec["spacing"]


def test_jupyterlab_gets_the_same_chart_in_the_light_look():
    figure = plain()
    bundle = figure._repr_mimebundle_()
    assert bundle["text/html"] == figure.to_html()
    spec = bundle[charts.VEGALITE_MIME]
    assert spec["config"] == charts.THEMES["light"]
    assert spec["description"] == "A rising line."
    assert spec["$schema"].split("/")[-1].split(".")[0] == charts.VEGALITE_MIME.split(".")[2].split("+")[0]
    assert vl_convert.vegalite_to_svg(spec).count('aria-roledescription="bar"') == 2


def test_the_html_names_no_theme_so_that_the_page_chooses_it():
    content = json.loads(Page(plain().to_html()).text["script"])
    assert "range" not in content["spec"].get("config", {}) and "background" not in json.dumps(
        content["spec"]
    )


FINITE = st.floats(-1e300, 1e300)  # the very largest floats round up to infinity


@given(FINITE)
def test_numbers_are_rounded_to_five_digits_and_nothing_else_is(value):
    spec = charts.figure(bars([value]), name="fig-a-b", caption="c", alt="a").spec
    (rows,) = spec["datasets"].values()
    assert rows[0]["b"] == pytest.approx(value, rel=5.1e-5, abs=0)
    assert len(re.sub(r"e.*|[-.]", "", repr(float(rows[0]["b"]))).strip("0")) <= 5
    assert rows[0]["a"] == 0


def test_missing_values_become_null():
    (rows,) = (
        charts.figure(bars([1.0, math.nan]), name="fig-a-b", caption="c", alt="a").spec["datasets"].values()
    )
    assert rows[1]["b"] is None


@pytest.mark.parametrize(
    "name", ["heads", "fig-", "fig-A", "fig-a b", 'fig-a"', "fig-a_b", "fig--a", "fig-a\n"]
)
def test_a_bad_name_is_refused(name):
    with pytest.raises(ValueError, match="fig-<page>-<topic>"):
        plain(name=name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"caption": "  "}, "caption and alt"),
        ({"alt": ""}, "caption and alt"),
        ({"caption": r"\( a"}, "closes with"),
    ],
)
def test_a_figure_without_words_or_with_open_mathematics_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        plain(**changes)


def test_the_row_limit_is_the_one_of_altair():
    assert plain().spec and charts.figure(bars([1.0] * 5000), name="fig-a-b", caption="c", alt="a")
    with pytest.raises(ValueError, match="more than 5000 rows"):
        charts.figure(bars([1.0] * 5001), name="fig-a-b", caption="c", alt="a")


def test_thirty_layers_nine_heads_six_lengths_and_three_spaces_fit():
    rows = heads(30, 9, ("hidden", "embedding", "value"))
    rows = pd.concat([rows, rows.assign(length=rows["length"] * 8)])
    assert len(rows) == 4860
    page = charts.figure(explorer(rows), name="fig-a-b", caption="c", alt="a").to_html()
    assert len(page) < 400_000
    with pytest.raises(ValueError, match=r"9720 rows are more than the 5000"):
        explorer(pd.concat([rows, rows.assign(length=rows["length"] * 64)]))


def drawn(chart, **signals) -> str:
    """SVG of the chart, with other start values of its drop-down lists."""
    spec = vl_convert.vegalite_to_vega(charts.figure(chart, name="fig-a-b", caption="c", alt="a").spec)
    for signal in spec.get("signals", ()):
        if signal["name"] in signals:
            signal.pop("init", None)
            signal["value"] = signals[signal["name"]]
    return html.unescape(vl_convert.vega_to_svg(spec))


def cells(svg: str) -> dict[tuple[int, int], float]:
    labels = re.findall(r'aria-label="([^"]*d at L = 128: [^"]*)"', svg)
    assert labels
    pairs = (dict(part.split(": ", 1) for part in label.split("; ")) for label in labels)
    return {(int(p["layer"]), int(p["head"])): float(p["d at L = 128"].replace(",", "")) for p in pairs}


def points(svg: str) -> list[tuple[int, float]]:
    labels = re.findall(r'aria-label="(context length[^"]*measured distance d: [^"]*)"', svg)
    pairs = [
        dict(part.split(": ", 1) for part in label.split("; ")) for label in labels if "interval" in label
    ]
    return sorted({(int(p["context length L (tokens)"]), float(p["measured distance d"])) for p in pairs})


@pytest.mark.parametrize("space", ["hidden", "value"])
def test_the_map_has_every_head_at_the_largest_length_of_the_picked_space(space):
    shown = cells(drawn(explorer(), pick_space=space))
    offset = 1000 * (space == "value")
    assert shown == {(l, h): 100 * l + 10 * h + 7 + offset for l in range(6) for h in range(5)}


@pytest.mark.parametrize(("layer", "head", "space"), [(0, 0, "hidden"), (3, 4, "value"), (5, 1, "hidden")])
def test_the_curves_are_those_of_the_picked_head_and_space(layer, head, space):
    svg = drawn(explorer(), pick_layer=layer, pick_head=head, pick_space=space)
    start = 100 * layer + 10 * head + 1000 * (space == "value")
    assert points(svg) == [(32, start + 5), (64, start + 6), (128, start + 7)]
    assert f"Layer {layer}, head {head}" in svg


def test_bands_reach_from_low_to_high():
    svg = drawn(explorer(heads().assign(low=lambda r: r.d - 2, high=lambda r: r.d + 3)))
    found = re.search(r"measured distance d: 5\.000; interval from: ([\d.]+); interval to: ([\d.]+)", svg)
    assert [float(part) for part in found.groups()] == [3, 8]


def test_pickers_offer_every_value_in_the_order_of_the_rows():
    spec = explorer(heads().assign(support="all"), pickers=("space", "support")).to_dict()
    lists = {p["name"]: p["bind"] for p in spec["params"]}
    assert lists["pick_space"]["options"] == ["hidden", "value"]
    assert lists["pick_support"]["options"] == ["all"]
    assert lists["pick"]["layer"]["options"] == list(range(6)) and lists["pick"]["head"]["options"] == list(
        range(5)
    )


def test_the_axes_say_what_they_show():
    svg = drawn(explorer())
    for title in (
        "context length L (tokens)",
        "distance (units of the space)",
        "d at L = 128",
        "layer",
        "head",
    ):
        assert f">{title}</text>" in svg


@pytest.mark.parametrize(
    ("rows", "changes", "message"),
    [
        (heads().drop(columns="head"), {}, r"no column \['head'\]"),
        (heads(), {"map_value": "kl"}, r"no column \['kl'\]"),
        (heads(), {"series": {"d": "d"}, "bands": {"x": ("low", "high")}}, "not among the series"),
        (
            heads().rename(columns={"d": "d'"}),
            {"series": {"d'": "d"}, "map_value": "d'", "bands": {}},
            "letters",
        ),
        (heads(), {"pickers": ()}, "several rows share one point"),
        (heads().assign(bound=0), {"log_y": True}, "'bound' has 0"),
        (heads().head(0), {}, "empty"),
    ],
)
def test_rows_that_would_draw_nonsense_are_refused(rows, changes, message):
    with pytest.raises(ValueError, match=message):
        explorer(rows, **changes)


def test_curves_draw_one_line_per_colour_with_its_band():
    rows = pd.DataFrame(
        {"n": [1, 2] * 3, "y": range(6), "kind": list("aabbcc"), "lo": range(6), "hi": range(1, 7)}
    )
    chart = charts.curves(rows, "n", "y", "kind", x_title="n (tokens)", y_title="y (1)", band=("lo", "hi"))
    svg = drawn(chart)
    assert svg.count('aria-roledescription="line mark"') == 3
    assert svg.count('aria-roledescription="area mark"') == 3
    with pytest.raises(ValueError, match="logarithmic"):
        charts.curves(rows, "n", "y", "kind", x_title="n", y_title="y", log_y=True)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (270, "270"),
        (1_234_567, "1,234,567"),
        (-3, "−3"),
        (np.int64(12), "12"),
        (0.5, "0.500"),
        (0.0, "0.00"),
        (-0.0, "0.00"),
        (0.9996, "1.00"),
        (12345.6, "12,300"),
        (999_999.0, "1.00 × 10⁶"),
        (1.234e-5, "1.23 × 10⁻⁵"),
        (-1.5e-7, "−1.50 × 10⁻⁷"),
        (np.float32(0.25), "0.250"),
    ],
)
def test_numbers_of_a_caption(value, text):
    assert charts.number(value) == text


@given(FINITE, st.integers(1, 8))
def test_a_written_number_reads_back_to_its_digits(value, digits):
    text = charts.number(value, digits).replace("−", "-").replace(",", "")
    if "×" in text:
        mantissa, power = text.split(" × 10")
        text = mantissa + "e" + power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
    assert float(text) == pytest.approx(value, rel=0.51 * 10 ** (1 - digits), abs=1e-320)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_caption_states_no_number_that_is_not_finite(value):
    with pytest.raises(ValueError, match="not finite"):
        charts.number(value)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def contrast(one: str, other: str) -> float:
    high, low = sorted([luminance(one), luminance(other)], reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_colour_of_a_theme_is_readable_on_its_background(theme):
    """WCAG AA: 4.5 for text, 3 for lines and marks."""
    look = charts.THEMES[theme]
    texts = [look["axis"][k] for k in ("labelColor", "titleColor")] + [
        look["title"]["color"],
        look["text"]["color"],
    ]
    texts += [look["legend"][k] for k in ("labelColor", "titleColor")]
    assert min(contrast(colour, look["background"]) for colour in texts) >= 4.5
    marks = [
        *look["range"]["category"],
        look["rule"]["color"],
        *(look["axis"][k] for k in ("domainColor", "tickColor")),
    ]
    assert min(contrast(colour, look["background"]) for colour in marks) >= 3


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_points_coloured_by_a_number_are_readable_at_both_ends(theme):
    look = charts.THEMES[theme]
    rows = pd.DataFrame({"n": range(9), "y": range(9)})
    chart = alt.Chart(rows).mark_point().encode(x="n:Q", y="y:Q", color="y:Q")
    spec = charts.figure(chart, name="fig-a-b", caption="c", alt="a").spec | {"config": look}
    svg = vl_convert.vegalite_to_svg(spec)
    drawn = re.findall(
        r'aria-roledescription="point"[^>]*fill="rgb\((\d+), (\d+), (\d+)\)"[^>]* opacity="([\d.]+)"', svg
    )
    behind = [int(look["background"][i : i + 2], 16) for i in (1, 3, 5)]
    seen = [
        [float(part[3]) * int(c) + (1 - float(part[3])) * b for c, b in zip(part, behind, strict=False)]
        for part in drawn
    ]
    colours = ["#" + "".join(f"{round(value):02x}" for value in colour) for colour in seen]
    assert len(colours) == 9
    assert min(contrast(colour, look["background"]) for colour in colours) >= 3


# Linear-light matrices of full protanopia and deuteranopia (Machado, Oliveira and Fernandes 2009, severity 1.0).
BLINDNESS = {
    "normal": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
}


@pytest.mark.parametrize("sight", list(BLINDNESS))
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_first_four_line_colours_stay_apart_for_colour_blind_readers(theme, sight):
    """CIELAB distance (1976) of at least 15 between any two; about 2.3 is a just noticeable difference."""

    def lab(colour: str) -> np.ndarray:
        rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        seen = np.clip(np.array(BLINDNESS[sight]) @ linear, 0, 1)
        matrix = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
        xyz = np.array(matrix) @ seen / [0.9505, 1, 1.089]
        f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
        return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])

    colours = [lab(colour) for colour in charts.THEMES[theme]["range"]["category"][:4]]
    distances = [np.linalg.norm(a - b) for i, a in enumerate(colours) for b in colours[:i]]
    assert min(distances) >= 15


def test_every_colour_of_the_dark_look_has_one_of_the_light_look():
    """Paper takes them in place of it, colour by colour (figures.js)."""
    pairs: dict[str, set[str]] = {}

    def pair(dark, light):
        if isinstance(dark, str):
            pairs.setdefault(dark, set()).add(light)
        elif isinstance(dark, dict | list):
            for key in dark if isinstance(dark, dict) else range(len(dark)):
                pair(dark[key], light[key])

    pair(charts.THEMES["dark"], charts.THEMES["light"])
    assert len(pairs) > 12 and {dark: lights for dark, lights in pairs.items() if len(lights) > 1} == {}


def dashes_of_the_legend(svg: str) -> list[str]:
    """The dashes of the legend's entries that are lines at least 25 px long."""
    entries = re.findall(
        r'role-legend-symbol.*?<path [^>]*d="M-([\d.]+),0L[\d.]+,0"[^>]*stroke-dasharray="([^"]*)"', svg
    )
    return [dash for half, dash in entries if float(half) > 12]


def told_by_dashes() -> dict[str, alt.TopLevelMixin]:
    """Every kind of chart that tells lines by dashes: those of the package, and two that notebooks make."""
    rows = pd.DataFrame({"n": [1, 2] * 3, "y": range(6), "curve": list("aabbcc")})
    wide = pd.DataFrame({"n": [1, 2], "kind": ["k", "k"], "a": [1, 2], "b": [2, 3], "c": [4, 6]})
    box = pd.DataFrame(
        {"n": [1, 2], "kind": ["k", "k"]} | {name: [1, 2] for name in BOX} | {"a": [1, 2], "b": [2, 3]}
    )
    own = alt.Chart(rows).encode(
        x="n:Q", y="y:Q", color=alt.Color("curve:N", title=None), strokeDash="curve:N"
    )
    return {
        "curves": charts.curves(rows, "n", "y", "curve", x_title="n", y_title="y"),
        "explorer": explorer(series={"d": "one", "bound": "two", "high": "three"}, bands={}),
        "picked": picked_curves(
            wide, x="n", x_title="n", y_title="y", curves=list("abc"), pickers={"kind": "kind"}
        ),
        "boxes": charts.boxes(
            box, x="n", x_title="n", y_title="y", label="box", lines=["a", "b"], pickers={"kind": "kind"}
        ),
        "own, with points": own.mark_line(point=True),
        "own, in a layer": alt.layer(own.mark_line()),
    }


@pytest.mark.parametrize("kind", list(told_by_dashes()))
def test_where_lines_are_told_by_dashes_the_legend_shows_them(kind):
    shown = dashes_of_the_legend(drawn(told_by_dashes()[kind]))
    assert len(shown) == 3 and len(set(shown)) == 3


def test_more_lines_than_colours_differ_in_colour_or_dash():
    names = [f"line {i}" for i in range(20)]
    wide = pd.DataFrame({"n": [1, 2], "kind": ["k", "k"]} | {name: [1, 2] for name in names})
    chart = picked_curves(wide, x="n", x_title="n", y_title="y", curves=names, pickers={"kind": "kind"})
    entries = re.findall(r"role-legend-symbol.*?<path [^>]*>", drawn(chart))
    looks = [
        (re.search(r'stroke="([^"]*)"', entry)[1], re.search(r'stroke-dasharray="([^"]*)"', entry)[1])
        for entry in entries
    ]
    assert len(looks) == len(set(looks)) == 20


@pytest.mark.parametrize("kind", list(told_by_dashes()))
def test_room_is_kept_for_what_will_be_drawn(kind):
    """Where there is room for two columns of legend entries; narrow pages are looked at in the browser."""
    figure = charts.figure(told_by_dashes()[kind], name="fig-a-b", caption="c", alt="a")
    room = int(re.search(r"--wide:(\d+)px", figure.to_html()).group(1))
    config = charts.THEMES["light"] | {"legend": charts.THEMES["light"]["legend"] | {"columns": 2}}
    svg = vl_convert.vegalite_to_svg(figure.spec | {"config": config})
    assert float(re.search(r'<svg[^>]* height="([\d.]+)"', svg).group(1)) == pytest.approx(room, abs=10)


def test_both_themes_decide_the_same_things():
    def keys(part):
        return {key: keys(value) for key, value in part.items()} if isinstance(part, dict) else None

    assert keys(charts.THEMES["light"]) == keys(charts.THEMES["dark"])


def test_curves_without_bands_are_lines_alone_and_a_logarithmic_axis_shows_positive_values():
    rows = pd.DataFrame({"n": [1, 2, 1, 2], "y": [0.5, 0.1, 0.2, 0.3], "kind": ["a", "a", "b", "b"]})
    spec = charts.curves(rows, "n", "y", "kind", x_title="n", y_title="y", log_y=True).to_dict()
    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["line"]
    assert spec["layer"][0]["encoding"]["y"]["scale"]["type"] == "log"


def test_a_charts_own_look_goes_before_the_theme_part_by_part():
    chart = alt.Chart(pd.DataFrame({"x": [1]})).mark_point().encode(x="x:Q").configure_axis(grid=False)
    shown = charts.figure(chart, name="fig-own-look", caption="A point.", alt="A point.")._repr_mimebundle_()
    config, light = shown[charts.VEGALITE_MIME]["config"], charts.THEMES["light"]
    assert config["axis"] == {**light["axis"], "grid": False}
    assert {key: part for key, part in config.items() if key not in ("axis", "view")} == {
        key: part for key, part in light.items() if key not in ("axis", "view")
    }
