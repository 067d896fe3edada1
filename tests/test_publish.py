"""Staging the book: a clean folder each time, and no path of this machine in what a reader gets."""

import json
import re
import shutil

import disks
import nbformat
import pytest
import yaml
from attention_limits import execute, publish
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.substitution import substitution_plugin
from toy import write_notebook

SOURCES = {"model": {"name": "gpt2"}, "text": {"name": "my text.txt"}}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A folder with the sources of a chapter and a landing page, and its build folder after they were executed."""
    folder = tmp_path_factory.mktemp("run")
    book = folder / "book"
    warn = "import warnings\nprint('seen')\nwarnings.warn('beware')"
    chapter = write_notebook(folder / "one.md", 'text = "auto"\nn = 1\nrecord = ""', warn)
    index = write_notebook(book / "index.md", 'records = ""\nexecuted = ""', "pass")
    (book / "notation.md").write_text("# Notation\n", encoding="utf-8")
    (folder / "secret").mkdir()
    (folder / "secret" / "my text.txt").write_text("Some words.", encoding="utf-8")
    given = {
        "text": str(folder / "secret" / "my text.txt"),
        "n": 2,
        "record": "/secret/one.json",
        "records": "/secret",
        "executed": "/secret",
    }
    for path in (chapter, index):
        known = execute.declared(execute.read(path))
        own = {name: value for name, value in given.items() if name in known}
        execute.execute(path, folder / "build" / "executed" / f"{path.stem}.ipynb", own)
    return folder


@pytest.fixture
def build(run, tmp_path):
    """A copy of that build folder, beside its book, with what a failed run left."""
    folder = shutil.copytree(run / "build", tmp_path / "build")
    shutil.copytree(run / "book", tmp_path / "book")
    (folder / "executed" / "two.partial.ipynb").write_text("half", encoding="utf-8")
    (folder / "sources.json").write_text(json.dumps(SOURCES), encoding="utf-8")
    (folder / "provenance.md").write_text("# Provenance\n", encoding="utf-8")
    return folder


def test_the_staged_folder_is_clean_and_tells_no_place(build):
    (build / "source").mkdir()
    (build / "source" / "gone.md").write_text("a page of an older run", encoding="utf-8")
    source = publish.stage(build, build.parent / "book")
    files = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    assert files == {"index.ipynb", "notation.md", "notebooks/one.ipynb", "provenance.md", "sources.json"}
    handed_out = {path.name for path in (build / "files").iterdir()}
    assert handed_out == {"index.ipynb", "index.md", "one.ipynb", "one.md"}
    notebooks = [*source.rglob("*.ipynb"), *(build / "files").iterdir()]
    assert not [path for path in notebooks if "secret" in path.read_text(encoding="utf-8")]
    chapter = nbformat.read(source / "notebooks" / "one.ipynb", as_version=4)
    (injected,) = (cell for cell in chapter.cells if "injected-parameters" in cell.metadata.get("tags", []))
    values = {}
    exec(injected.source, values)
    assert (values["text"], values["n"], "record" in values) == ("my text.txt", 2, False)
    assert "remove-cell" not in injected.metadata.tags
    assert chapter.metadata.papermill.parameters == {"text": "my text.txt", "n": 2}
    assert chapter.metadata.papermill.duration > 0
    assert "beware" in (build / "executed" / "one.ipynb").read_text(encoding="utf-8").replace(
        "warn('beware')", ""
    )
    assert [output.get("name") for cell in chapter.cells for output in cell.get("outputs", ())] == ["stdout"]


def test_the_block_about_a_run_is_the_last_cell_of_the_page_alone(build):
    source = publish.stage(build, build.parent / "book")
    page = nbformat.read(source / "notebooks" / "one.ipynb", as_version=4)
    alone = nbformat.read(build / "files" / "one.ipynb", as_version=4)
    assert [cell.source for cell in page.cells[:-1]] == [cell.source for cell in alone.cells]
    assert page.cells[-1].source.startswith("`````{dropdown} About this run")
    for words in ("| text | my text\\.txt |", "| n | 2 |", "../files/one.md", "../files/one.ipynb"):
        assert words in page.cells[-1].source
    assert "Cite" not in page.cells[-1].source  # this project has no CITATION.cff


def test_a_notebook_whose_source_is_gone_is_named(build):
    path = build / "executed" / "one.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata.papermill.input_path = "notebooks/gone.md"
    nbformat.write(notebook, path)
    with pytest.raises(publish.PublishError, match=r"one\.ipynb: its source 'notebooks/gone\.md' is gone"):
        publish.stage(build, build.parent / "book")


@pytest.mark.parametrize("name", ["{{a}} $x_1$ `t` <b>.txt", "*a*.txt", "_a_", "plain-name 2.txt"])
def test_a_name_in_a_computed_sentence_is_no_markup(name):
    outputs = [nbformat.v4.new_output("display_data", {"text/markdown": f"On **{name}**: $a_1$ and *b*."})]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x", outputs=outputs)])
    staged = publish.without_places(notebook, {"text": {"name": name}})
    parser = MarkdownIt().use(dollarmath_plugin).use(substitution_plugin)
    (line,) = (
        token for token in parser.parse(staged.cells[0].outputs[0].data["text/markdown"]) if token.children
    )
    strong = [token.type for token in line.children].index("strong_open")
    shown = [(token.type, token.content) for token in line.children[strong + 1 :]]
    assert shown[:2] == [("text", name), ("strong_close", "")]
    assert ("math_inline", "a_1") in shown and [kind for kind, _ in shown].count("em_open") == 1


def test_a_cell_in_which_nothing_is_left_is_not_shown(build):
    source = publish.stage(build, build.parent / "book")
    index = nbformat.read(source / "index.ipynb", as_version=4)
    (injected,) = (cell for cell in index.cells if "injected-parameters" in cell.metadata.get("tags", []))
    assert "remove-cell" in injected.metadata.tags


@pytest.mark.bad_day("a full disk under the pages")
def test_pages_that_cannot_be_written_are_said(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "page.md").write_text("x" * 400_000, encoding="utf-8")
    with disks.full(tmp_path / "build") as build:
        assert publish.main([str(build)]) == 1
        assert not (build / "html").exists()
    last = capsys.readouterr().err.strip()
    assert re.fullmatch(r"The pages cannot be written: .*(No space left|File too large).*", last)


@pytest.mark.bad_day("a book with a page in its contents that is not there")
def test_a_broken_book_is_an_error_and_an_older_one_stays(build, monkeypatch):
    html = build / "html"
    html.mkdir()
    (html / "index.html").write_text("older", encoding="utf-8")
    config = build / "_config.yml"
    config.write_text("title: Toy\nexecute: {execute_notebooks: 'off'}\n", encoding="utf-8")
    source = publish.stage(build, build.parent / "book")
    (source / "_toc.yml").write_text("format: jb-book\nroot: nowhere\n", encoding="utf-8")
    with pytest.raises(publish.PublishError, match="nowhere") as failure:
        publish.build_pages(source, config, html)
    assert str(html.with_name("book.log")) in str(failure.value)
    assert (html / "index.html").read_text(encoding="utf-8") == "older"


def test_a_chapter_that_was_not_executed_is_no_entry_of_the_contents(build):
    project = build.parent
    for name in ("one", "sweep"):
        write_notebook(project / "notebooks" / f"{name}.md", "n = 1", "pass")
    files = ["notebooks/one", "notebooks/sweep", "notation", "notebooks/lost"]
    parts = [{"caption": "Part", "chapters": [{"file": file} for file in files]}]
    (project / "book" / "_toc.yml").write_text(yaml.safe_dump({"root": "index", "parts": parts}))
    toc = yaml.safe_load((publish.stage(build, project / "book") / "_toc.yml").read_text())
    # What is no file of the project stays, so that Jupyter Book says so.
    assert [chapter["file"] for chapter in toc["parts"][0]["chapters"]] == [
        "notebooks/one",
        "notation",
        "notebooks/lost",
    ]
