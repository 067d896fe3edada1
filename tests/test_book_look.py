"""The look of the book, on a sample book that is built here with the project's own _config.yml."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import browser as looks
import pytest
from attention_limits import book as extension
from sample_book import INDEX, build, heads, write_sample
from sphinx.errors import ExtensionError

NOTICE = "auto took <king-james> & smollm2-135m: the paper's own could not be reached"


@pytest.fixture(scope="module")
def book(tmp_path_factory) -> Path:
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


def picked(page) -> list[str]:
    return [select.input_value() for select in page.locator("#fig-sample-heads select").all()]


PAGES = ["index.html", "notebooks/sample.html", "bibliography.html", "search.html", "genindex.html"]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_sound(browser, book, name, width, dark):
    report = looks.open_page(browser, book / name, width=width, dark=dark)
    assert report.problems() == []
    assert report.growth <= 15  # the room kept for the two figures is right
    if name == "notebooks/sample.html":
        assert (report.figures, report.drawn) == (2, 2)
        assert report.formulas >= 1  # the caption's
    if name == "index.html":
        assert report.formulas >= 2


def test_figures_fill_the_column_and_stack_on_a_phone(browser, book):
    places = {}
    for width in (1200, 390):
        with looks.opened(browser, book / "notebooks/sample.html", width=width) as (page, _):
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


def test_a_click_and_the_lists_pick_the_head_and_nothing_unpicks_it(browser, book):
    with looks.opened(browser, book / "notebooks/sample.html") as (page, report):
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


def test_theme_and_width_may_change_while_reading(browser, book):
    """The drawing follows, and what was picked stays picked."""
    with looks.opened(browser, book / "notebooks/sample.html") as (page, report):
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


def test_a_figure_that_was_folded_away_is_drawn_when_it_is_opened(browser, book):
    with looks.opened(browser, book / "notebooks/sample.html", width=1100) as (page, report):
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


def test_data_and_drawing_can_be_taken_away(browser, book):
    with looks.opened(browser, book / "notebooks/sample.html") as (page, _):
        figure = page.locator("#fig-sample-heads")
        got = {}
        for label in ("data (CSV)", "SVG", "PNG"):
            with page.expect_download() as download:
                figure.get_by_role("button", name=label).click()
            got[download.value.suggested_filename] = download.value.path().read_bytes()
    assert list(got) == [f"fig-sample-heads.{ending}" for ending in ("csv", "svg", "png")]
    rows = list(csv.DictReader(io.StringIO(got["fig-sample-heads.csv"].decode())))
    expected = heads()
    assert len(rows) == len(expected)
    for column in rows[0]:
        values = [row[column] for row in rows]
        assert values == [str(v) for v in expected[column]] or [float(v) for v in values] == list(
            expected[column]
        )
    assert (
        got["fig-sample-heads.svg"].startswith(b"<svg") and b"context length" in got["fig-sample-heads.svg"]
    )
    assert got["fig-sample-heads.png"].startswith(b"\x89PNG")


def test_the_keyboard_reaches_lists_and_downloads(browser, book):
    with looks.opened(browser, book / "notebooks/sample.html") as (page, _):
        page.locator("#fig-sample-heads select").first.focus()
        name = "document.activeElement.tagName + document.activeElement.textContent.slice(0, 3)"
        reached = []
        for _ in range(7):
            reached.append(page.evaluate(name))
            page.keyboard.press("Tab")
        reached = [
            name for name in reached if not name.startswith("MJX")
        ]  # formulas have a menu of their own
        assert reached == ["SELECThid", "SELECT012", "SELECT012", "BUTTONdat", "BUTTONSVG", "BUTTONPNG"]


def test_search_finds_a_theorem_without_a_server(browser, book):
    with looks.opened(browser, book / "search.html") as (page, report):
        page.goto((book / "search.html").as_uri() + "?q=Pythagoras")
        page.wait_for_selector("#search-results li a")
        assert "index.html" in page.locator("#search-results li a").first.get_attribute("href")
        assert report.console == [] and report.remote == []


def test_figures_are_numbered_and_referred_to_by_name(book):
    chapter = (book / "notebooks/sample.html").read_text()
    assert re.findall(r'<span class="al-number">([^<]*)</span>', chapter) == ["Figure 1. ", "Figure 2. "]
    assert re.search(r'href="#fig-sample-lines"[^>]*>(<[^>]*>)*Figure 2<', chapter)
    index = (book / "index.html").read_text()
    assert re.search(r'href="notebooks/sample.html#fig-sample-heads"[^>]*>(<[^>]*>)*Figure 1<', index)


def test_the_notice_heads_every_page_once_and_as_text(browser, book):
    for name in PAGES:
        with looks.opened(browser, book / name) as (page, _):
            shown = page.locator(".bd-header-announcement").all_text_contents()
        assert [text.strip() for text in shown] == [NOTICE], name


def test_vega_is_one_file_and_only_where_there_is_a_figure(book):
    scripts = [p for p in (book / "_static").rglob("*.js") if "vegaEmbed=" in p.read_text(errors="ignore")]
    assert [p.name for p in scripts] == ["vega.js"]
    assert (book / "notebooks/sample.html").read_text().count("vega.js") == 1
    assert "vega.js" not in (book / "index.html").read_text()
    assert (book / "notebooks/sample.html").stat().st_size < 200_000


@pytest.mark.parametrize("name", PAGES)
def test_no_page_names_a_script_style_or_picture_of_another_host(book, name):
    text = (book / name).read_text()
    loaded = re.findall(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"([^\"]*)\"", text)
    loaded += re.findall(
        r"<link\b[^>]*\brel=\"(?:stylesheet|preload|icon|preconnect)\"[^>]*\bhref=\"([^\"]*)\"", text
    )
    assert loaded and not [url for url in loaded if re.match(r"(https?:)?//", url)]
    assert "unpkg.com" not in text


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
    assert extension.notices(tmp_path) == []
    path = tmp_path / "sources.json"
    path.write_text(json.dumps({"model": {"notice": "b"}, "text": {"notice": "a"}, "more": {"name": "x"}}))
    assert extension.notices(tmp_path) == ["b", "a"]
    path.write_text(json.dumps({"model": {"notice": "a"}, "text": {"notice": "a "}}))
    assert extension.notices(tmp_path) == ["a"]
    for broken in ("{", "[]", '{"model": 1}', '{"model": {"notice": 3}}'):
        path.write_text(broken)
        with pytest.raises(ExtensionError, match=r"sources\.json: not a sources file"):
            extension.notices(tmp_path)


def test_a_book_without_notices_has_no_banner_and_a_wrong_reference_stops_it(tmp_path):
    """The first page is fine; the second names a figure that does not exist, which -W makes fatal."""
    source = write_sample(tmp_path, index=INDEX + "\n[](#fig-not-there)\n")
    done = build(source)
    assert done.returncode != 0 and "fig-not-there" in done.stdout + done.stderr
    page = tmp_path / "_build" / "html" / "notebooks" / "sample.html"
    assert NOTICE[:9] not in page.read_text()


def test_one_name_for_two_figures_stops_the_build(tmp_path):
    source = write_sample(tmp_path)
    again = (source / "notebooks" / "sample.ipynb").read_text()
    (source / "notebooks" / "again.ipynb").write_text(again)
    contents = source / "_toc.yml"
    contents.write_text(contents.read_text() + "  - file: notebooks/again\n")
    done = build(source)
    assert done.returncode != 0 and "is on two pages" in done.stdout + done.stderr
