"""The book itself, built here from the embedded model and text with small parameters, every page opened in Chromium."""

import json
import re

import browser as looks
import nbformat
import pytest
import yaml
from attention_limits import execute, records, sweep
from attention_limits import pages as contents
from sample_sweep import REASON
from small_book import NOTEBOOKS, ROOT


def pages() -> list[str]:
    """Every page of the contents, without suffix; of the API, whose pages are made alike, the first and one more."""
    toc = yaml.safe_load((ROOT / "book" / "_toc.yml").read_text(encoding="utf-8"))
    return contents.files(
        contents.contents(toc, [f"notebooks/{path.stem}" for path in NOTEBOOKS], ["api/theory"])
    )


@pytest.fixture(scope="module")
def chromium():
    with looks.chromium() as browser:
        yield browser


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)])
@pytest.mark.parametrize("page", [*pages(), "prf-prf", "py-modindex", "genindex", "search"])
def test_every_page_is_sound(book, chromium, page, width, dark):
    report = looks.open_page(chromium, book / "html" / f"{page}.html", width=width, dark=dark)
    assert report.problems() == []
    source = book / "source" / f"{page}.ipynb"
    if source.is_file():
        outputs = [o for cell in nbformat.read(source, 4).cells for o in cell.get("outputs", [])]
        drawn = sum('<figure id="fig-' in "".join(o.get("data", {}).get("text/html", "")) for o in outputs)
        assert report.figures == drawn


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_ran_to_its_end_and_left_a_record(book, path):
    notebook = nbformat.read(book / "executed" / f"{path.stem}.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code if cell.source.strip())
    assert not [o for cell in code for o in cell.outputs if o.output_type == "error"]
    # A number left over by a cell's last line is no figure, table or sentence.
    assert [o.data for cell in code for o in cell.outputs if set(o.get("data", ())) == {"text/plain"}] == []
    if "record" not in execute.declared(execute.read(path)):
        return  # a page that reads the others' records
    record = records.load(book / "records" / f"{path.stem}.json")
    assert record["notebook"] == path.stem
    assert record["results"]


@pytest.mark.parametrize("name", sweep.HEADLINES)
def test_what_a_sweep_draws_is_recorded(book, name):
    recorded = {result["id"] for result in records.load(book / "records" / f"{name}.json")["results"]}
    assert {id for id, _, _ in sweep.HEADLINES[name]} - recorded == set()


def test_the_page_of_a_sweep_lists_what_is_missing_and_why(book, chromium):
    with looks.opened(chromium, book / "html" / "notebooks" / "sweep.html", width=1200) as (page, _):
        said = page.inner_text("main")
    assert "7 of 8 jobs are done" in said
    assert re.search(r"model_b-128\s+health\s+failed\s+" + re.escape(REASON), said)


def test_the_provenance_page_names_the_sources(book):
    text = (book / "html" / "provenance.html").read_text(encoding="utf-8").replace("<wbr>", "")
    for source in json.loads((book / "sources.json").read_text(encoding="utf-8")).values():
        assert source["sha256"] in text
        assert source["name"] in text


def test_model_and_text_are_seen_side_by_side(book, chromium):
    with looks.opened(chromium, book / "html" / "provenance.html", width=1200) as (page, _):
        assert page.evaluate("(t => t.scrollWidth - t.clientWidth)(document.querySelector('table'))") <= 0


def test_no_page_tells_where_it_was_built(book):
    places = (str(ROOT), str(book))
    told = [
        path.name
        for path in (book / "html").rglob("*")
        if path.is_file() and any(place.encode() in path.read_bytes() for place in places)
    ]
    assert told == []


def test_internal_links_lead_somewhere(book):
    broken = []
    for path in (book / "html").rglob("*.html"):
        for target in re.findall(r'href="([^"#?]+\.html)', path.read_text(encoding="utf-8")):
            if "://" not in target and not (path.parent / target).resolve().is_file():
                broken.append(f"{path.name}: {target}")
    assert broken == []
