"""The provenance page: nothing on it is markup that came from outside, and what it says is what happened."""

import html
import re
import subprocess

import nbformat
from attention_limits import execute, provenance
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.myst_role import myst_role_plugin
from mdit_py_plugins.substitution import substitution_plugin
from toy import write_notebook

MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
# What a page of the book may interpret.
for plugin in (dollarmath_plugin, myst_role_plugin, substitution_plugin):
    MARKDOWN.use(plugin)

SOURCES = {
    kind: {
        "name": name,
        "requested": "auto",
        "revision": "1.0",
        "sha256": f"{index:064x}",
        "size": 1234 + index,
        "licence": "MIT",
        "origin": "somewhere",
        "notice": "",
    }
    for index, (kind, name) in enumerate(
        [("model", "small|model"), ("text", "a $x$ `text` {{name}} <b>.txt")]
    )
}


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=40))
def test_any_text_is_shown_as_it_is(text):
    shown = " ".join(text.split())
    rendered = MARKDOWN.render(provenance.table(["a"], [[text]])).replace("<wbr>", "")  # line breaks allowed
    cell = re.search(r"<td>(.*?)</td>", rendered, re.DOTALL)
    assert (html.unescape(cell[1]) if cell else "") == shown
    assert not cell or "<" not in cell[1]


def test_the_page_says_what_was_used_and_what_ran(tmp_path):
    path = write_notebook(tmp_path / "one.md", 'seed = 3\nlengths = [1]\ndevice = "auto"\ntext = ""', "pass")
    secret = tmp_path / "secret place.txt"
    secret.write_text("Some words.", encoding="utf-8")
    execute.execute(path, tmp_path / "one.ipynb", {"lengths": [4, 8], "device": "cpu", "text": str(secret)})
    page = provenance.page(SOURCES, [str(tmp_path / "one.ipynb")])
    rendered = MARKDOWN.render(page).replace("<wbr>", "")  # a place to break a line, inside a hash
    shown = html.unescape(re.sub(r"<[^>]+>", " ", rendered))
    run = nbformat.read(tmp_path / "one.ipynb", as_version=4).metadata.papermill
    for fact in (SOURCES["text"]["name"], SOURCES["model"]["name"], "1234", "1235", f"{1:064x}"):
        assert fact in shown
    row = next(" ".join(line.split()) for line in page.splitlines() if line.startswith("| one "))
    assert row.startswith(f"| one | {provenance.escape(run.start_time[:10])} ")
    assert f"| {provenance.escape(f'{run.duration:.1f}')} | 3 |" in row
    assert "lengths = [4, 8]" in shown
    assert "asked for as cpu" in shown
    assert "Notice" not in shown
    assert str(tmp_path) not in shown


def test_a_notice_is_on_the_page():
    fallback = {**SOURCES, "model": {**SOURCES["model"], "notice": "gpt2 could not be reached"}}
    assert "| Notice | gpt2 could not be reached | none |" in provenance.sources_table(fallback)


def test_a_copy_inside_of_another_repository_names_no_commit(tmp_path, monkeypatch):
    for command in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", "x", "--allow-empty"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    (tmp_path / "copy" / "notebooks").mkdir(parents=True)
    (tmp_path / "notebooks").mkdir()
    for project in (tmp_path, tmp_path / "copy"):
        (project / "Snakefile").touch()
    own, copy = ([folder, folder / "notebooks"] for folder in (tmp_path, tmp_path / "copy"))
    for folder, named in (*((folder, True) for folder in own), *((folder, False) for folder in copy)):
        monkeypatch.chdir(folder)
        assert ("Commit" in dict(provenance.versions_rows())) == named


def test_without_git_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    names = [name for name, _ in provenance.versions_rows()]
    assert "torch" in names
    assert "Commit" not in names
