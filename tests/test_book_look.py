"""The look of the book, on a sample book that is built here with the project's own _config.yml."""

from __future__ import annotations

import base64
import io
import json
import re
from importlib import resources
from pathlib import Path
from xml.etree import ElementTree

import altair as alt
import browser as looks
import pandas as pd
import pytest
import sphinx_proof
from attention_limits import api, charts
from attention_limits.book import assets, markup, theme
from attention_limits.book.site import site
from sample_book import INDEX, SOURCE, build, heads, write_sample
from sphinx.errors import ExtensionError

NOTICE = "auto took <king-james> & smollm2-135m: the paper's own could not be reached"


@pytest.fixture(scope="module")
def sample(tmp_path_factory) -> Path:
    """Folder with the HTML of the sample book, which has a notice."""
    folder = tmp_path_factory.mktemp("a sample")
    sources = {"model": {"name": "m", "notice": NOTICE}, "text": {"name": "t", "notice": NOTICE}}
    done = build(write_sample(folder, sources=sources))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder / "_build" / "html"


@pytest.fixture(scope="module")
def browser():
    with looks.chromium() as running:
        yield running


def curve(page) -> list[tuple[int, float]]:
    """(length, distance) of the points that the first figure shows for the measured curve."""
    labels = page.locator("#fig-sample-heads .al-view path").evaluate_all(
        "paths => paths.map((path) => path.getAttribute('aria-label') || '')"
    )
    found = [
        re.search(r"tokens\): (\d+);.*measured distance d: ([\d.]+); interval", label) for label in labels
    ]
    return sorted({(int(m.group(1)), float(m.group(2))) for m in found if m})


def assert_rows(shown: pd.DataFrame) -> None:
    """These are the rows behind the first figure, in their order."""
    expected = heads()
    assert set(shown) == set(expected)
    for name in expected:
        kind = "str" if name == "space" else float
        assert list(shown[name].astype(kind)) == list(expected[name].astype(kind))


def picked(page) -> list[str]:
    return [select.input_value() for select in page.locator("#fig-sample-heads select").all()]


PAGES = ["index.html", "notebooks/sample.html", "bibliography.html", "search.html", "genindex.html"]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_sound(browser, sample, name, width, dark):
    report = looks.open_page(browser, sample / name, width=width, dark=dark)
    assert report.problems() == []
    assert report.growth <= 15  # the room kept for the two figures is right
    assert report.shift < 0.1  # "good" by the thresholds of Core Web Vitals
    assert sum(report.loaded.values()) < 4_000_000  # with all that pages share, not compressed
    if name == "notebooks/sample.html":
        assert (report.figures, report.drawn) == (2, 2)
        assert report.formulas >= 1  # the caption's
    if name == "index.html":
        assert report.formulas >= 2


def test_figures_fill_the_column_and_stack_on_a_phone(browser, sample):
    places = {}
    for width in (1200, 390):
        with looks.opened(browser, sample / "notebooks/sample.html", width=width) as (page, _):
            for name in ("fig-sample-heads", "fig-sample-lines"):
                column = page.locator(f"#{name}").bounding_box()
                svg = page.locator(f"#{name} .al-view svg").bounding_box()
                assert column["width"] - 8 <= svg["width"] <= column["width"]
            titles = page.locator(
                "#fig-sample-heads .al-view text", has_text=re.compile("^(head|context length.*)$")
            )
            places[width] = [title.bounding_box()["y"] for title in titles.all()]
    assert abs(places[1200][0] - places[1200][1]) < 30  # axes of both panels on one line
    assert places[390][1] - places[390][0] > 150  # one below the other


def test_a_click_and_the_lists_pick_the_head_and_nothing_unpicks_it(browser, sample):
    with looks.opened(browser, sample / "notebooks/sample.html") as (page, report):
        figure = page.locator("#fig-sample-heads")
        assert picked(page) == ["hidden", "0", "0"]
        assert curve(page) == [(32, 5), (64, 6), (128, 7)]
        figure.locator('path[aria-label^="head: 3; layer: 2;"]').first.click()
        page.wait_for_function("document.querySelectorAll('#fig-sample-heads select')[2].value === '3'")
        assert picked(page) == ["hidden", "2", "3"]
        assert curve(page) == [(32, 235), (64, 236), (128, 237)]
        box = figure.locator(".al-view svg").bounding_box()
        for x, y in [(0.7, 0.5), (0.1, 0.04), (0.42, 0.5), (0.99, 0.99)]:  # empty plot, legend, gap, corner
            page.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])
        page.wait_for_timeout(200)
        assert curve(page) == [(32, 235), (64, 236), (128, 237)]
        figure.locator("select[name=pick_layer]").select_option("4")
        figure.locator("select[name=pick_space]").select_option("value")
        page.wait_for_timeout(200)
        assert curve(page) == [(32, 1435), (64, 1436), (128, 1437)]
        assert report.console == []


def test_theme_and_width_may_change_while_reading(browser, sample):
    """The drawing follows, and what was picked stays picked."""
    with looks.opened(browser, sample / "notebooks/sample.html") as (page, report):
        figure = page.locator("#fig-sample-heads")
        figure.locator("select[name=pick_head]").select_option("2")
        title = figure.locator(".al-view text", has_text="context length")
        light = title.get_attribute("fill")
        page.get_by_role("button", name=re.compile("mode|theme", re.I)).first.click()
        page.evaluate("document.documentElement.dataset.theme = 'dark'")
        page.wait_for_selector("#fig-sample-heads[data-drawn=dark]")
        assert title.get_attribute("fill") != light
        page.set_viewport_size({"width": 390, "height": 800})
        page.wait_for_function(
            "document.querySelector('#fig-sample-heads .al-view svg').width.baseVal.value < 380"
        )
        assert picked(page) == ["hidden", "0", "2"]
        assert curve(page) == [(32, 25), (64, 26), (128, 27)]
        assert report.console == []


def test_a_figure_that_was_folded_away_is_drawn_when_it_is_opened(browser, sample):
    with looks.opened(browser, sample / "notebooks/sample.html", width=1100) as (page, report):
        page.evaluate("document.querySelector('#fig-sample-heads').parentElement.style.display = 'none'")
        page.set_viewport_size({"width": 700, "height": 800})
        page.wait_for_timeout(400)
        page.evaluate("document.querySelector('#fig-sample-heads').parentElement.style.display = ''")
        page.wait_for_timeout(1500)
        column, svg = (
            page.locator(f"#fig-sample-heads {part}").bounding_box() for part in (".al-view", "svg")
        )
        assert column["width"] - 8 <= svg["width"] <= column["width"]
        assert curve(page) == [(32, 5), (64, 6), (128, 7)]
        assert report.console == []


def test_data_and_drawing_can_be_taken_away(browser, sample):
    with looks.opened(browser, sample / "notebooks/sample.html") as (page, _):
        figure = page.locator("#fig-sample-heads")
        got = {}
        for label in ("data (CSV)", "SVG", "PNG"):
            with page.expect_download() as download:
                figure.get_by_role("button", name=label).click()
            got[download.value.suggested_filename] = download.value.path().read_bytes()
        size = page.evaluate(
            """async (url) => { const got = await createImageBitmap(await (await fetch(url)).blob());
                              return [got.width, got.height]; }""",
            "data:image/png;base64," + base64.b64encode(got["fig-sample-heads.png"]).decode(),
        )
        shown = figure.locator(".al-view svg").bounding_box()
    assert list(got) == [f"fig-sample-heads.{ending}" for ending in ("csv", "svg", "png")]
    assert_rows(pd.read_csv(io.BytesIO(got["fig-sample-heads.csv"])))
    assert size == [pytest.approx(2 * shown[side], abs=4) for side in ("width", "height")]
    drawing = ElementTree.fromstring(got["fig-sample-heads.svg"])
    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    assert "context length L (tokens)" in "".join(drawing.itertext())


def test_figures_are_numbered_and_referred_to_by_name(sample):
    chapter = (sample / "notebooks/sample.html").read_text()
    assert re.findall(r'<span class="al-number">([^<]*)</span>', chapter) == ["Figure 1. ", "Figure 2. "]
    assert re.search(r'href="#fig-sample-lines"[^>]*>(<[^>]*>)*Figure 2<', chapter)
    index = (sample / "index.html").read_text()
    assert re.search(r'href="notebooks/sample.html#fig-sample-heads"[^>]*>(<[^>]*>)*Figure 1<', index)


def test_the_notice_heads_every_page_once_and_as_text(browser, sample):
    for name in PAGES:
        with looks.opened(browser, sample / name) as (page, _):
            shown = page.locator(".bd-header-announcement").all_text_contents()
        assert [text.strip() for text in shown] == [NOTICE], name


def test_vega_is_one_file_and_only_where_there_is_a_figure(sample):
    scripts = [p for p in (sample / "_static").rglob("*.js") if "vegaEmbed=" in p.read_text(errors="ignore")]
    assert [p.name for p in scripts] == ["vega.js"]
    assert (sample / "notebooks/sample.html").read_text().count("vega.js") == 1
    assert "vega.js" not in (sample / "index.html").read_text()
    assert (sample / "notebooks/sample.html").stat().st_size < 200_000


@pytest.mark.parametrize("name", PAGES)
def test_no_page_names_a_script_style_or_picture_of_another_host(sample, name):
    text = (sample / name).read_text()
    loaded = re.findall(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"([^\"]*)\"", text)
    loaded += re.findall(
        r"<link\b[^>]*\brel=\"(?:stylesheet|preload|icon|preconnect)\"[^>]*\bhref=\"([^\"]*)\"", text
    )
    assert loaded and not [url for url in loaded if re.match(r"(https?:)?//", url)]
    assert "unpkg.com" not in text


def test_a_figure_brings_its_data_as_a_table_and_its_caption_has_a_link(browser, sample):
    with looks.opened(browser, sample / "notebooks/sample.html") as (page, report):
        figure = page.locator("#fig-sample-heads")
        assert figure.locator(".al-view").get_attribute("aria-label") == "A map of heads and curves."
        assert figure.locator("td").count() == 0  # rows cost time, so they come when they are asked for
        figure.locator("summary").focus()
        page.keyboard.press("Enter")
        figure.locator("td").first.wait_for()
        names = figure.locator("thead th[scope=col]").all_text_contents()
        shown = figure.locator("tbody tr").evaluate_all(
            "rows => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
        )
        page.keyboard.press("Tab")  # the box scrolls by the keyboard
        assert page.evaluate("document.activeElement.ariaLabel") == "Data of Figure 1"
        assert report.console == []
    assert_rows(pd.DataFrame(shown, columns=names))


def test_without_scripts_there_are_the_words_and_the_data(browser, sample):
    path = sample / "notebooks/sample.html"
    with looks.opened(browser, path, dark=True, java_script_enabled=False) as (page, report):
        figure = page.locator("#fig-sample-heads")
        assert (
            figure.locator(".al-view").inner_text()
            == "Drawn by the scripts of the book: A map of heads and curves."
        )
        assert (
            figure.locator("button, select, summary").evaluate_all(
                "all => all.filter((e) => e.checkVisibility())"
            )
            == []
        )
        link = figure.get_by_role("link", name="Data 1 (CSV)").get_attribute("href")
        assert page.evaluate(looks.LOOK)["faint"] == []
    assert_rows(pd.read_csv(sample / "notebooks" / link))
    assert report.remote == []


def test_long_code_wraps_below_itself_and_is_copied_as_it_is(browser, sample):
    for width in (1200, 390):
        with looks.opened(browser, sample / "notebooks/sample.html", width=width) as (page, _):
            page.evaluate("document.querySelectorAll('details').forEach((folding) => (folding.open = true))")
            for block in page.locator(".cell_input pre").all():
                assert block.evaluate("e => e.scrollWidth - e.clientWidth") <= 0
                # As the copy button does it.
                assert block.evaluate("e => e.cloneNode(true).innerText").rstrip() == SOURCE
                rows = (
                    block.locator(".al-line")
                    .nth(3)
                    .evaluate(
                        "e => { const all = document.createRange(); all.selectNodeContents(e);"
                        "return [...all.getClientRects()].filter((r) => r.width).map((r) => [r.left, r.top]); }"
                    )
                )
                top = min(top for _, top in rows)
                # Includes the indentation, four columns.
                code = min(left for left, at in rows if at < top + 3)
                below = [left for left, at in rows if at > top + 10]
                assert below and min(below) > code + 40


def test_what_was_crowded_has_room(browser, sample):
    """Titles of the next page on a telephone; entries of the bibliography, whose lines all begin at one place."""
    with looks.opened(browser, sample / "index.html", width=390) as (page, _):
        title = page.locator(".prev-next-title").last.bounding_box()
        assert title["width"] > 200 and title["height"] < 90
    starts = {}
    for width in (1200, 390):
        with looks.opened(browser, sample / "bibliography.html", width=width) as (page, _):
            rows = page.locator("div.citation").evaluate_all(
                """entries => entries.flatMap((entry) => {
                  const text = document.createRange(); text.selectNodeContents(entry.querySelector("p"));
                  const label = entry.querySelector(".label").getBoundingClientRect();
                  const below = [...text.getClientRects()].filter((r) => r.width > 2 && r.top > label.bottom - 3);
                  return below.map((r) => [Math.round(r.top / 10), Math.round(r.left)]);
                })"""
            )
        starts[width] = [min(left for at, left in rows if at == top) for top in {top for top, _ in rows}]
    assert len(starts[390]) >= 3 and all(len(set(lefts)) <= 1 for lefts in starts.values())


def tabbed(page, limit: int = 200) -> list[dict]:
    """Everything that Tab reaches from the top of the page, and whether it looks different while it has the focus."""
    page.evaluate("window.scrollTo(0, 0); document.activeElement?.blur()")
    reached = []
    for _ in range(limit):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                """() => {
                  const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
                  const text = (e.ariaLabel || e.title || e.textContent || e.name || "").trim().slice(0, 40);
                  return { name: e.tagName, text,
                           class: String(e.className), figure: e.closest("figure")?.id,
                           ring: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
                           seen: box.width > 0 && box.height > 0 && e.checkVisibility() }; }"""
            )
        )
        if reached[-1]["name"] == "BODY":
            return reached[:-1]
    raise AssertionError(f"Tab has not come round after {limit} steps")


def test_the_keyboard_reaches_everything_and_shows_where_it_is(browser, sample):
    with looks.opened(browser, sample / "notebooks/sample.html") as (page, report):
        page.locator("details.hide summary").wait_for()
        reached = tabbed(page)
        assert reached[0]["text"] == "Skip to main content"
        assert [stop for stop in reached if not (stop["ring"] and stop["seen"])] == []
        names = [(stop["name"], stop["text"]) for stop in reached]
        for name in ("fig-sample-heads", "fig-sample-lines"):
            inside = [stop for stop in reached if stop["figure"] == name]
            assert [stop["name"] for stop in inside if stop["name"] in ("BUTTON", "SUMMARY")] == [
                "BUTTON"
            ] * 3 + ["SUMMARY"]
        assert sum(name == "SELECT" for name, _ in names) == 3
        assert ("SUMMARY", "Toggle hidden content") in names
        controls = page.locator(
            "main :is(a[href], button, summary, select, input):not(dialog *)"
        ).evaluate_all(
            "all => all.filter((e) => e.checkVisibility({ visibilityProperty: true }) && e.tabIndex < 0 && !e.disabled)"
            ".map((e) => e.outerHTML.slice(0, 100))"
        )
        assert controls == []  # none that only a mouse can use
        assert report.console == []


def test_the_keyboard_works_what_it_reaches(browser, sample):
    with looks.opened(browser, sample / "notebooks/sample.html") as (page, report):
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.url.endswith("#main-content")
        page.locator("#fig-sample-heads select").nth(2).focus()
        page.keyboard.press("ArrowDown")
        page.wait_for_timeout(200)
        assert curve(page) == [(32, 15), (64, 16), (128, 17)]
        page.locator("details.hide summary").focus()
        page.keyboard.press("Space")
        assert page.locator("details.hide .cell_input").last.is_visible()
        page.get_by_role("button", name="SVG").first.focus()
        with page.expect_download():
            page.keyboard.press("Enter")
        before = page.evaluate("document.documentElement.dataset.mode")
        page.locator(".bd-header-article .theme-switch-button").focus()
        page.keyboard.press("Enter")
        assert page.evaluate("document.documentElement.dataset.mode") != before
        page.keyboard.press("Control+k")
        page.keyboard.type("Pythagoras")
        page.keyboard.press("Enter")
        page.wait_for_selector("#search-results li a")
        assert report.console == []


def test_paper_gets_the_text_and_the_figures_black_on_white(browser, sample):
    with looks.opened(browser, sample / "notebooks/sample.html", dark=True) as (page, report):
        texts = page.locator("#fig-sample-lines .al-view svg text")
        dark = texts.evaluate_all("all => all.map((e) => getComputedStyle(e).fill)")
        page.emulate_media(media="print")
        page.wait_for_function("document.documentElement.dataset.theme === 'light'")
        hidden = ".bd-sidebar, .bd-header-article, .prev-next-footer, .headerlink, .copybtn"
        hidden += ", .al-controls, .al-downloads, .al-data"
        assert page.locator(hidden).evaluate_all("all => all.filter((e) => e.checkVisibility()).length") == 0
        assert page.locator("details.hide .cell_input").last.is_visible()
        faint = page.evaluate(looks.LOOK)["faint"]
        assert faint == []
        for box in (".bd-article", "figure.al-figure .al-view", "#fig-sample-lines .al-view svg"):
            colours = page.locator(box).evaluate_all(
                "all => all.map((e) => getComputedStyle(e).backgroundColor)"
            )
            assert set(colours) <= {"rgb(255, 255, 255)", "rgba(0, 0, 0, 0)"}
        assert page.locator("#fig-sample-heads").evaluate("e => getComputedStyle(e).breakInside") == "avoid"
        links = page.locator(".bd-article a").evaluate_all(
            "all => all.map((e) => getComputedStyle(e, '::after').content)"
        )
        assert {text for text in links if text not in ("none", "normal")} == set()
        assert texts.evaluate_all("all => all.map((e) => getComputedStyle(e).fill)") != dark
        page.emulate_media(media="screen")
        page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
        assert texts.evaluate_all("all => all.map((e) => getComputedStyle(e).fill)") == dark
        assert not page.locator("details.hide .cell_input").last.is_visible()
        assert report.console == []


def test_search_leads_to_the_theorem_by_any_word_of_its_name(browser, sample):
    with looks.opened(browser, sample / "search.html") as (page, report):
        for words in ("Pythagoras", "plane"):
            page.goto((sample / "search.html").as_uri() + f"?q={words}")
            page.wait_for_selector("#search-results li a")
            first = page.locator("#search-results li").first
            assert first.locator("a").get_attribute("href").endswith("index.html#thm-sample"), words
            assert first.locator("a").inner_text() == "Theorem 1 (Pythagoras in the plane (re-derived))"
        assert report.console == [] and report.remote == []


def test_statements_equations_and_figures_have_a_link_to_themselves(browser, sample):
    for name, anchor in (
        ("index.html", "thm-sample"),
        ("index.html", "equation-eq-sample"),
        ("notebooks/sample.html", "fig-sample-lines"),
    ):
        with looks.opened(browser, sample / name) as (page, _):
            link = page.locator(f'a.headerlink[href="#{anchor}"]')
            assert link.count() == 1 and page.locator(f'[id="{anchor}"]').count() == 1
            look = "e => e.checkVisibility({ visibilityProperty: true }) && Number(getComputedStyle(e).opacity) > 0.9"
            assert not link.evaluate(look), anchor
            link.focus()
            assert link.evaluate(look), anchor
            link.evaluate("e => e.blur()")
            assert not link.evaluate(look), anchor
            page.locator(f'[id="{anchor}"]').hover()
            assert link.evaluate(look), anchor


def test_motion_stops_for_who_wants_none(browser, sample):
    with looks.opened(browser, sample / "notebooks/sample.html", reduced_motion="reduce") as (page, _):
        moving = page.evaluate(
            """() => {
              const moves = (durations) => durations.split(",").some((one) => parseFloat(one) > 0.01);
              return [...document.querySelectorAll("*")].filter((e) => {
                const { scrollBehavior, transitionDuration, animationDuration } = getComputedStyle(e);
                return scrollBehavior === "smooth" || moves(transitionDuration) || moves(animationDuration);
              }).map((e) => e.outerHTML);
            }"""
        )
        assert moving == []


@pytest.mark.parametrize("way", ["zoom", "text"])
@pytest.mark.parametrize("name", ["index.html", "notebooks/sample.html"])
def test_twice_the_size_loses_nothing(browser, sample, name, way):
    """At 1200 px: the whole page enlarged (600 px of layout), or only its text."""
    with looks.opened(browser, sample / name, width=600 if way == "zoom" else 1200) as (page, report):
        if way == "text":
            page.evaluate("document.documentElement.style.fontSize = '200%'")
            page.wait_for_timeout(500)
        assert page.evaluate(looks.LOOK)["overflow"] == 0
        cut = page.locator(
            "main :is(p, li, h1, h2, h3, figcaption, pre, summary, button, select, label)"
        ).evaluate_all(
            """all => all.filter((e) => {
              if (!e.checkVisibility() || !e.clientWidth || getComputedStyle(e).overflowX === "visible") return false;
              return e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1;
            }).map((e) => e.outerHTML)"""
        )
        assert cut == []
        assert report.console == []


# --- single rules of the look, on pages without a build -------------------------------------------------------------
STATIC = assets.OWN
_THEME = (
    Path(str(resources.files("pydata_sphinx_theme")))  # comes with Jupyter Book
    / "theme/pydata_sphinx_theme/static/styles/pydata-sphinx-theme.css"
)
_PROOF = Path(sphinx_proof.__file__).parent / "_static" / "proof.css"
STYLES = [_THEME, _PROOF, STATIC / "figures.css", STATIC / "page.css"]


def styled(folder: Path, body: str, *, dark: bool = False) -> Path:
    """A page with ``body`` in the styles of the book."""
    links = "".join(f'<link rel="stylesheet" href="{path.as_uri()}">' for path in STYLES)
    path = folder / "page.html"
    path.write_text(
        f'<!doctype html><html lang="en" data-theme="{"dark" if dark else "light"}"><head><meta charset="utf-8">'
        f'{links}</head><body><main class="bd-article" style="width: 100%">{body}</main></body></html>'
    )
    return path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_links_in_statements_and_the_word_searched_for_can_be_read(browser, tmp_path, dark):
    kinds = ("theorem", "lemma", "definition", "corollary", "proposition", "assumption", "remark", "example")
    boxes = "".join(f'<div class="proof {kind} admonition"><a href="#">{kind}</a></div>' for kind in kinds)
    found = '<a href="#"><span class="highlighted">Theorem</span></a>'
    report = looks.open_page(browser, styled(tmp_path, boxes + found, dark=dark))
    assert report.faint == []


def test_the_magnifier_is_beside_what_is_typed(browser, tmp_path):
    form = (
        '<form class="bd-search d-flex"><i class="fa-solid fa-magnifying-glass" style="width: 1em"></i>'
        '<input type="search" class="form-control"></form>'
    )
    with looks.opened(browser, styled(tmp_path, form)) as (page, _):
        icon = page.locator("i").bounding_box()
        padding = page.locator("input").evaluate("e => parseFloat(getComputedStyle(e).paddingLeft)")
        assert page.locator("input").bounding_box()["x"] + padding > icon["x"] + icon["width"]


def test_long_names_in_code_wrap_on_a_telephone(browser, tmp_path):
    name = "attention_limits.statistics.a_function_with_a_long_name()"
    rule = "<style>span.pre { white-space: nowrap }</style>"  # as Sphinx's basic.css has it
    with looks.opened(
        browser, styled(tmp_path, f'{rule}<code><span class="pre">{name}</span></code>'), width=375
    ) as (page, _):
        page.add_style_tag(content=(STATIC / "page.css").read_text())
        assert page.evaluate(looks.LOOK)["overflow"] == 0


HEALTH = (
    "layer head verdict watch sharp entropy entropy_share support first ratio jacobian crossover largest logit_sd "
    "mass90 mass90_half critical_n"
)
TIGHTNESS = (
    "- space support tightness expected_over_d tightness_low expected_over_d_low tightness_high "
    "expected_over_d_high"
)


@pytest.mark.parametrize("names", [TIGHTNESS, HEALTH], ids=["tightness", "health"])
def test_wide_tables_fit_on_paper(browser, tmp_path, names):
    words = {"space": "embedding", "verdict": "saturated", "first": "0.000915"}
    table = pd.DataFrame([{name: words.get(name, "0.0111") for name in names.split()}] * 3)
    body = markup.with_breaks(table.to_html(index=False))
    with looks.opened(browser, styled(tmp_path, body), width=640) as (page, _):
        page.emulate_media(media="print")
        table = page.locator("table")
        assert table.evaluate("e => e.scrollWidth - e.clientWidth") <= 0
        assert table.bounding_box()["width"] <= 640


def test_a_list_has_the_columns_that_its_longest_option_needs():
    options = ["top N", "a" * 25, "a sentence of some thirty letters"]
    params = [
        alt.param(name=f"pick_{name}", value=values[0], bind=alt.binding_select(options=values, name=name))
        for name, values in (("layer", list(range(30))), ("number", options), ("long", ["b" * 60]))
    ]
    chart = alt.Chart(pd.DataFrame({"a": [1]})).mark_point().encode(x="a:Q").add_params(*params)
    made = charts.figure(chart, name="fig-a-b", caption="It is.", alt="A point.").to_html()
    spans = json.loads(re.search(r'class="al-spec">(.*?)</script>', made)[1])["spans"]
    assert spans == {"pick_layer": [1, 1], "pick_number": [2, 3], "pick_long": [3, 3]}
    assert "--rows:2;--narrow-rows:3" in made  # 1 + 2, 3; and 1, 3, 3


RANKED = [
    ("theorem 2", "Theorem 4.1 (Theorem 2, lower bound (re-derived))", "Assumption 4.2 (Separation)"),
    ("Theorem 2", '<span class="section-number">4. </span>Geometry: Theorem 2', "Lemma 4.2 (A floor)"),
    ("Theorem 4.1", "Theorem 4.1 (Theorem 2, lower bound)", "Theorem 4.10 (Another)"),
    ("Theorem 1", "16. Scorecard > C3: the bound of Theorem 1", "Assumption 4.1 (Independent directions)"),
    ("theorem 4", "Theorem 4", "Theorem 4.1 (Theorem 2)"),
    ("box_numbers", "attention_limits.statistics.box_numbers", "21.14. single modules"),
    ("attention", "Why softmax attention loses focus", "attention_limits.theory.rows"),
    ("statistics.box_numbers", "attention_limits.statistics.box_numbers", "attention_limits.statistics"),
]


@pytest.mark.parametrize(("query", "first", "later"), RANKED)
def test_what_has_the_whole_query_in_its_name_comes_first_in_the_search(browser, query, first, later):
    page = browser.new_page()
    page.add_script_tag(path=STATIC / "search.js")
    score = "([title, score, query]) => Scorer.score(['page', title, '', null, score, 'file'], query)"
    assert page.evaluate(score, [first, 2, query]) > page.evaluate(score, [later, 26, query])
    assert page.evaluate(score, [first, 2, ""]) == page.evaluate(score, [first, 2, "…"]) == 2
    page.close()


def test_a_fold_of_the_side_bar_has_a_name():
    fold = '<a class="current reference internal" href="#">21. API</a><details open="open"><summary><span>'
    assert 'aria-label="Pages below 21. API"><span>' in markup.with_named_folds(fold)


def test_the_signature_of_a_dataclass_is_python():
    signature = "(a: ~typing.Any, b: dict[str, str] = <factory>)"
    assert api.readable(signature, "None") == ("(a: ~typing.Any, b: dict[str, str] = ...)", "None")
    assert api.readable(None, None) == (None, None)


def tags(page: Path) -> dict[str, str]:
    """Addresses and preview tags in the head of a page."""
    head = page.read_text().split("</head>")[0]
    found = dict(re.findall(r'<meta (?:property|name)="((?:og|twitter):[^"]*)" content="([^"]*)"', head))
    return found | {
        f"rel {rel}": at for rel, at in re.findall(r'<link rel="(canonical)" href="([^"]*)"', head)
    }


def test_without_an_address_no_page_has_one(sample):
    known = tags(sample / "notebooks/sample.html")
    assert known["og:title"].startswith("Sample chapter") and "Text, with a" in known["og:description"]
    assert known["og:site_name"] == "Limits of Normalization in Attention: a reproducible companion"
    assert known["twitter:card"] == "summary_large_image"
    assert [key for key, value in known.items() if "://" in value or key in ("og:url", "og:image")] == []
    assert not (sample / "sitemap.xml").exists()
    assert not (sample / "_static/attention-limits/preview.png").exists()


def test_a_wrong_address_is_refused(monkeypatch):
    for wrong in ("owner.github.io/book", "file:///book", "https://", "https://owner.github.io/?a=b"):
        monkeypatch.setenv("ATTENTION_LIMITS_SITE", wrong)
        with pytest.raises(ExtensionError, match="write a web address such as"):
            site()
    for given in ("https://owner.github.io/book", "https://owner.github.io/book/"):
        monkeypatch.setenv("ATTENTION_LIMITS_SITE", given)
        assert site() == "https://owner.github.io/book/"
    monkeypatch.setenv("ATTENTION_LIMITS_SITE", " ")
    assert site() == ""


# What the browser must notice: one fault each, put into a sound page.
FAULTS = {
    "request to another host": '<script src="https://cdn.example.org/vega.js"></script>',
    "console: error": "<script>console.error('broken')</script>",
    "console: exception": "<script>undefined.property</script>",
    "missing file": '<img alt="" src="nowhere.png">',
    "figures are not drawn": '<figure class="al-figure" data-drawn="light"><div class="al-view"></div></figure>',
    "mathematics not typeset": r"<p>Here \( x^2 \) stays raw.</p>",
    "mathematics with an error": "<p><mjx-container><mjx-merror>?</mjx-merror></mjx-container></p>",
    "wider than its window": '<div style="width: 3000px">wide</div>',
    "contrast too low": '<p style="color: #999; background: #fff">faint</p>',
    "contrast too low: 2.": '<div class="al-view"><svg><g class="mark-line">'
    '<path d="M0,0L9,9" fill="none" stroke="#aaa"/></g></svg></div>',
    'BUTTON. "folded"': "<details><summary>more</summary><button style='color: #999'>folded</button></details>",
    "MB to load": f"<!--{2_000_001 * 'x'}-->",
    "layout shift": "<script>let n = 0;"
    "setInterval(() => document.body.style.paddingTop = (n ^= 600) + 'px', 30)</script>",
    "changes its height": '<figure class="al-figure" data-drawn="light"><div class="al-view"></div><script>'
    "addEventListener('load', () => document.querySelector('figure').style.height = '300px')</script></figure>",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_look_notices(browser, tmp_path, fault):
    page = tmp_path / "page.html"
    body = '<!doctype html><html lang="en"><head><meta charset="utf-8"></head><body><p>Sound text.</p>{}</body></html>'
    page.write_text(body.format(""))
    assert looks.open_page(browser, page).problems() == []
    page.write_text(body.format(FAULTS[fault]))
    assert any(fault in line for line in looks.open_page(browser, page).problems())


def test_no_chromium_is_a_skip_or_a_failure(monkeypatch):
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setattr(looks.shutil, "which", lambda name: None)
    monkeypatch.delenv("REQUIRE_BROWSER", raising=False)
    with pytest.raises(pytest.skip.Exception, match="No Chromium on this machine"):
        looks.executable()
    monkeypatch.setenv("REQUIRE_BROWSER", "1")
    with pytest.raises(pytest.fail.Exception, match="REQUIRE_BROWSER=1"):
        looks.executable()


def test_notices_come_from_the_sources_file(tmp_path):
    assert theme.notices(tmp_path) == []
    path = tmp_path / "sources.json"
    path.write_text(json.dumps({"model": {"notice": "b"}, "text": {"notice": "a"}, "more": {"name": "x"}}))
    assert theme.notices(tmp_path) == ["b", "a"]
    path.write_text(json.dumps({"model": {"notice": "a"}, "text": {"notice": "a "}}))
    assert theme.notices(tmp_path) == ["a"]
    for broken in ("{", "[]", '{"model": 1}', '{"model": {"notice": 3}}'):
        path.write_text(broken)
        with pytest.raises(ExtensionError, match=r"sources\.json: not a sources file"):
            theme.notices(tmp_path)


def test_a_book_at_an_address_without_notices_and_a_wrong_reference_stops_it(tmp_path):
    """One build for three: no banner; addresses, preview and sitemap; a figure that does not exist is fatal (-W)."""
    source = write_sample(tmp_path, index=INDEX + "\n[](#fig-not-there)\n")
    done = build(source, site="https://owner.github.io/book")
    assert done.returncode != 0 and "fig-not-there" in done.stdout + done.stderr
    html = tmp_path / "_build" / "html"
    page = html / "notebooks" / "sample.html"
    assert NOTICE[:9] not in page.read_text()
    known = tags(page)
    assert known["rel canonical"] == known["og:url"] == "https://owner.github.io/book/notebooks/sample.html"
    assert known["og:image"] == "https://owner.github.io/book/_static/attention-limits/preview.png"
    picture = (html / "_static/attention-limits/preview.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert [int.from_bytes(picture[at : at + 4], "big") for at in (16, 20)] == [1200, 630]
    places = [
        place.text for place in ElementTree.parse(html / "sitemap.xml").iter() if place.tag.endswith("loc")
    ]
    pages = ("index", "notebooks/sample", "bibliography")
    assert sorted(places) == sorted(f"https://owner.github.io/book/{page}.html" for page in pages)


def test_one_name_for_two_figures_stops_the_build(tmp_path):
    source = write_sample(tmp_path)
    again = (source / "notebooks" / "sample.ipynb").read_text()
    (source / "notebooks" / "again.ipynb").write_text(again)
    contents = source / "_toc.yml"
    contents.write_text(contents.read_text() + "  - file: notebooks/again\n")
    done = build(source)
    assert done.returncode != 0 and "is on two pages" in done.stdout + done.stderr
