"""What the build adds to the book: the block about a run, links from formulas to functions, the API, the Binder button.

One book is built for all tests of this module, with a theorem that is added here: a function in a module of its own and
a chapter that states it, which no list names.
"""

import ast
import html
import json
import re
import types
from pathlib import Path

import browser as looks
import nbformat
import pytest
import staged_book
import yaml
from attention_limits import api, citation, execute, launch, pages, provenance, statements
from docutils.core import publish_doctree
from sphinx.errors import ExtensionError

ROOT = Path(__file__).resolve().parents[1]
GIVEN = {
    "text": "/secret/place/my text.txt",
    "model": "gpt2",
    "device": "cpu",
    "models": ["/secret/place/local-model", "random:gpt2"],
    "record": "/secret/place/x.json",
    "records": "/secret/place",
    "executed": "/secret/place",
}
REPOSITORY = "https://github.com/owner/repo"
FUNCTION = '''"""What a contributor adds."""


def doubled(number: float) -> float:
    """Twice ``number``. Source: Theorem thm-doubled."""
    return 2 * number
'''
CHAPTER = """---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {display_name: Python 3, language: python, name: python3}
---

(doubled)=
# Twice

```{code-cell} ipython3
:tags: [parameters]

number = 3    # any number
record = ""   # file that the results are written to
```

```{prf:theorem} Twice (re-derived)
:label: thm-doubled

$2x = x + x$.
```

{.computed-by}
Computed by {py:func}`~attention_limits.theory.added.doubled`.

````{dropdown} Proof
:class-container: al-proof

By counting: $2 = 1 + 1$.
````
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The built pages."""
    project = staged_book.copied_project(tmp_path_factory.mktemp("pages") / "project")
    (project / "lib" / "attention_limits" / "theory" / "added.py").write_text(FUNCTION, encoding="utf-8")
    (project / "notebooks" / "doubled.md").write_text(CHAPTER, encoding="utf-8")
    build = staged_book.pretend_executed(project, GIVEN)
    done = staged_book.publish(project, ATTENTION_LIMITS_REPOSITORY=REPOSITORY)
    assert done.returncode == 0, done.stdout[-5000:]
    return build / "html"


def read(site: Path, page: str) -> str:
    return (site / f"{page}.html").read_text(encoding="utf-8")


def about(site: Path, page: str) -> str:
    """HTML of the block about the run, which is the last thing of the page's article."""
    article = re.search(r"<article.*?</article>", read(site, page), re.DOTALL)[0]
    block = article[
        article.index('<details class="sd-sphinx-override sd-dropdown sd-card sd-mb-3 al-about"') :
    ]
    after = re.sub(r"<script.*?</script>|<[^>]+>", "", block.partition("</details>")[2], flags=re.DOTALL)
    assert not after.strip(), "something follows the block"
    return block


CHAPTERS = ["index", *(f"notebooks/{path.stem}" for path in sorted((ROOT / "notebooks").glob("*.md")))]


# --- about this run -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("page", [*CHAPTERS, "notebooks/doubled"])
def test_every_chapter_ends_with_its_files_parameters_time_and_citation(site, page):
    block, name = about(site, page), page.rpartition("/")[2]
    links = [(site / page).parent / link for link in re.findall(r'<a href="([^"]+)" download>', block)]
    assert [link.name for link in links] == [f"{name}.md", f"{name}.ipynb"]
    source = site.parents[1] / ("book" if page == "index" else "notebooks") / f"{name}.md"
    assert links[0].read_bytes() == source.read_bytes()
    executed = nbformat.read(links[1], as_version=4)
    nbformat.validate(executed)
    # Its roles mean nothing outside the book.
    assert "about-this-run" not in [cell.id for cell in executed.cells]
    cells = dict(re.findall(r"<td><p>(.*?)</p></td>\s*<td><p>(.*?)</p></td>", block))
    cells = {key: html.unescape(re.sub(r"</?\w[^>]*>", "", value)) for key, value in cells.items()}
    declared = execute.declared(execute.read(source))
    assert (cells["Started (UTC)"], cells["Run time"]) == ("2026-01-02 03:04:05", "61.2 seconds")
    assert declared.keys() - provenance.PLACES <= cells.keys()
    shown = {"text": "my text.txt", "model": "gpt2", "device": "cpu"}
    shown |= {name.title(): value for name, value in shown.items()}
    for key, value in shown.items():
        assert cells.get(key) == (value if key.lower() in declared else None)
    assert str(declared.get("seed", "")) == cells.get("seed", "")
    paper = "https://arxiv.org/abs/2508.17821"
    for words in ("@software{", "@inproceedings{mudarisov2025", "(2026)", paper, REPOSITORY):
        assert words in re.sub(r"</?span[^>]*>", "", block)


def test_no_file_of_the_site_tells_a_place(site):
    secrets = (b"/secret", str(site.parents[1]).encode(), str(ROOT).encode())
    told = [
        path for path in site.rglob("*") if path.is_file() and any(s in path.read_bytes() for s in secrets)
    ]
    assert told == []
    assert "local-model" in about(site, "notebooks/models")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("/a/b.txt", "b.txt"),
        ("~/b.txt", "b.txt"),
        ("./b", "b"),
        ("openai-community/gpt2", "openai-community/gpt2"),
        ("", ""),
        (["/a/model", "random:gpt2"], ["model", "random:gpt2"]),
        (0.5, 0.5),
        (None, None),
    ],
)
def test_of_a_path_only_its_last_part_is_shown(value, shown):
    assert provenance.public(value) == shown


# --- citations ------------------------------------------------------------------------------------------------------
def test_citations_are_bibtex_entries_and_sentences_of_the_apa():
    works = citation.load(ROOT / "CITATION.cff", "https://example.org/book")
    assert [citation.bibtex(work).splitlines() for work in works] == [
        [
            "@software{companion2026limits,",
            "  title = {{Limits of Normalization in Attention: a reproducible companion}},",
            "  author = {{The attention-limits contributors}},",
            "  year = {2026},",
            "  version = {0.1.0},",
            "  url = {https://example.org/book}",
            "}",
        ],
        [
            "@inproceedings{mudarisov2025,",
            "  title = {{Limitations of Normalization in Attention Mechanism}},",
            "  author = {Mudarisov, Timur and Burtsev, Mikhail and Petrova, Tatiana and State, Radu},",
            "  booktitle = {Advances in Neural Information Processing Systems},",
            "  year = {2025},",
            "  url = {https://arxiv.org/abs/2508.17821}",
            "}",
        ],
    ]
    assert [re.sub(r"</?a[^>]*>", "", citation.apa(work)) for work in works] == [
        "The attention-limits contributors. (2026). *Limits of Normalization in Attention: a reproducible companion* "
        "(Version 0.1.0) [Computer software]. https://example.org/book",
        "Mudarisov, T., Burtsev, M., Petrova, T., & State, R. (2025). Limitations of Normalization in Attention "
        "Mechanism. In *Advances in Neural Information Processing Systems*. https://arxiv.org/abs/2508.17821",
    ]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "title: x\n",
        "[",
        "title: x\nreferences: []\ndate-released: 2026-01-01\n",
        "title: x\ntype: software\nauthors: [{family-names: B}]\nreferences: []\ndate-released: 2026-01-01\n",
    ],
)
def test_a_citation_file_that_lacks_something_is_named(tmp_path, content):
    (tmp_path / "CITATION.cff").write_text(content, encoding="utf-8")
    with pytest.raises(citation.CitationError, match=r"CITATION\.cff: not a citation file"):
        citation.load(tmp_path / "CITATION.cff")


# --- formulas and functions -----------------------------------------------------------------------------------------
def test_each_formula_leads_to_its_function_and_back(site):
    """Both links of every `Computed by`, in the pages as built; the added theorem's too."""
    entries = {}
    for path in site.glob("api/*.html"):
        for piece in path.read_text(encoding="utf-8").split('<dt class="sig')[1:]:
            if name := re.search(r'id="([\w.]+)"', piece.partition("</dt>")[0]):
                entries[name[1]] = (path.name, piece)
    seen = 0
    for path in sorted((site.parents[1] / "notebooks").glob("*.md")):
        page = read(site, f"notebooks/{path.stem}")
        for part in statements.statements(path.read_text(encoding="utf-8")):
            for function in () if part.inside else part.functions:
                file, entry = entries[function]
                assert f'href="../api/{file}#{function}"' in page
                target = f"equation-{part.label}" if part.kind == "equation" else part.label
                assert f'href="../notebooks/{path.stem}.html#{target}"' in entry
                seen += 1
    assert seen > 35 and "attention_limits.theory.added.doubled" in entries


def public_names() -> dict[str, list[str]]:
    """Full names of the public functions and classes that each documented module defines, read without importing."""
    found = {}
    for name in api.modules():
        path = ROOT / "lib" / "attention_limits" / Path(*name.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(name, []).append(f"attention_limits.{name}.{node.name}")
    return found


def test_the_api_has_every_public_function_and_class(site):
    ids = set()
    for path in site.glob("api/*.html"):
        ids |= set(re.findall(r'id="(attention_limits\.[\w.]+)"', path.read_text(encoding="utf-8")))
    wanted = {name for names in public_names().values() for name in names}
    assert wanted - ids == set()
    assert len(wanted) > 180
    exported = re.findall(r'href="#(attention_limits\.normalisers\.[\w.]+)"', read(site, "api/normalisers"))
    assert "attention_limits.normalisers.comparison.compare" in exported


def test_every_module_is_on_the_api_pages_but_the_two_paths_and_the_commands():
    library = ROOT / "lib" / "attention_limits"
    every = {path.relative_to(library).as_posix() for path in library.rglob("*.py")}
    told = {Path(*name.split(".")).as_posix() for name in api.modules()}
    told = {f"{name}/__init__.py" if (library / name).is_dir() else f"{name}.py" for name in told}
    left = {name for name in every - told if not name.startswith(("kernels/compiled/", "kernels/batched/"))}
    assert left == {"__init__.py", *(name for name in every if name.endswith("__main__.py"))}


def undocumented(node: ast.AST, inside: str = "") -> list[str]:
    """Names of functions and classes without docstring, those of private ones left out."""
    found = []
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if part.name.startswith("_"):
                continue
            if not ast.get_docstring(part):
                found.append(f"{inside}{part.name}")
            if isinstance(part, ast.ClassDef):  # what a function defines for itself is not public
                found += undocumented(part, f"{inside}{part.name}.")
        else:
            found += undocumented(part, inside)
    return found


def test_every_public_function_has_a_docstring():
    bare = [
        f"{path.stem}.{name}"
        for path in (ROOT / "lib").rglob("*.py")
        for name in undocumented(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert bare == []
    planted = """
class A:
    '''a'''
    def b(self):
        def c(): pass
    def _d(self): pass
def e():
    '''e'''
"""
    assert undocumented(ast.parse(planted)) == ["A.b"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "d = |x_i - s| * alpha_, and `top_set` or ``a | b``",
            "d = |x_i - s| * alpha_, and top_set or a | b",
        ),
        ("back\\slash *args **kw x_", "back\\slash *args **kw x_"),
        ("For example\n\n    a = |b|\n    c_ = 1\n\nand on.", "For example\n\na = |b|\nc_ = 1\n\nand on."),
        ("Format::\n\n    {'a|b': x_}", "Format:\n\n{'a|b': x_}"),
        ("- one |a|\n- two b_", "one |a|\n\ntwo b_"),
    ],
)
def test_a_docstring_is_shown_as_it_is_written(text, shown):
    document = publish_doctree(api.restructured(text), settings_overrides={"report_level": 5})
    assert document.astext() == shown


# --- contents and launch buttons ------------------------------------------------------------------------------------
def test_a_chapter_that_no_list_names_is_in_the_contents(site):
    toc = yaml.safe_load((site.parent / "source" / "_toc.yml").read_text(encoding="utf-8"))
    parts = {part["caption"]: [entry["file"] for entry in part["chapters"]] for part in toc["parts"]}
    assert parts["Further chapters"] == ["notebooks/doubled"]
    assert list(parts)[-2:] == ["Further chapters", list(parts)[-1]]
    assert "Further chapters" in read(site, "index") and "notebooks/doubled.html" in read(site, "index")
    assert set(pages.files(toc)) >= {"contributing", "changelog", "api", *api.page_names()}


def test_the_contents_without_parts_and_without_anything_new():
    plain = {"format": "jb-book", "root": "index", "chapters": [{"file": "notebooks/a"}]}
    added = pages.contents(plain, ["notebooks/a", "notebooks/b"], [])
    assert pages.files(added) == ["index", "notebooks/a", "notebooks/b"]
    assert pages.contents(plain, ["notebooks/a"], []) == plain


def test_a_chapter_that_this_book_has_not_is_left_out():
    toc = {
        "root": "index",
        "parts": [
            {
                "caption": "One",
                "chapters": [{"file": "notation"}, {"file": "notebooks/a"}, {"file": "notebooks/b"}],
            },
            {"caption": "Two", "chapters": [{"file": "notebooks/sweep"}]},
            {"caption": "Last", "chapters": [{"file": "nowhere"}]},
        ],
    }
    left = pages.contents(toc, ["notebooks/b"], [], ["notebooks/a", "notebooks/sweep"])
    assert pages.files(left) == ["index", "notation", "notebooks/b", "nowhere"]
    assert [part["caption"] for part in left["parts"]] == ["One", "Last"]
    assert len(pages.files(toc)) == 6  # what was given is as it was


def test_the_button_opens_the_notebook_of_its_page(site):
    shown = [*CHAPTERS, "provenance", "api"]
    buttons = {page: re.findall(r'href="(https://mybinder[^"]+)"', read(site, page)) for page in shown}
    there = "https://mybinder.org/v2/gh/owner/repo/HEAD?urlpath=lab/tree/"
    assert buttons["notebooks/algorithm-1"] == [f"{there}notebooks/algorithm-1.md"]
    assert buttons["index"] == [f"{there}book/index.md"]
    assert buttons["provenance"] == buttons["api"] == []
    for page in CHAPTERS:
        (link,) = buttons[page]
        assert (ROOT / link.partition("lab/tree/")[2]).is_file()


@pytest.mark.parametrize(
    ("address", "links"),
    [
        ("", []),
        ("https://github.com/owner/repo.git", ["gh/owner/repo"]),
        ("https://git.example.org/a/b/", ["git/https%3A%2F%2Fgit.example.org%2Fa%2Fb"]),
    ],
)
def test_there_is_no_button_where_the_repository_is_not_known(monkeypatch, tmp_path, address, links):
    monkeypatch.setenv("ATTENTION_LIMITS_REPOSITORY", address)
    staged = tmp_path / "a.ipynb"
    staged.write_text('{"metadata": {"source": "notebooks/rerun/a.md"}}', encoding="utf-8")
    app = types.SimpleNamespace(env=types.SimpleNamespace(doc2path=lambda page: staged))
    context = {"header_buttons": []}
    launch.add_button(app, "notebooks/a", "page.html", context, object())
    assert [
        button["url"].removeprefix("https://mybinder.org/v2/") for button in context["header_buttons"]
    ] == [f"{link}/HEAD?urlpath=lab/tree/notebooks/rerun/a.md" for link in links]


def test_an_address_that_is_none_is_named(monkeypatch):
    monkeypatch.setenv("ATTENTION_LIMITS_REPOSITORY", "owner/repo")
    with pytest.raises(ExtensionError, match="is 'owner/repo'; it must be the web address"):
        launch.repository()


# --- folding --------------------------------------------------------------------------------------------------------
_CUT = """() => {
  document.querySelectorAll("details").forEach((folding) => (folding.open = true));
  const right = (element) => element.getBoundingClientRect().right;
  return [...document.querySelectorAll("details.al-proof mjx-container")]
    .filter((e) => !e.closest("div.math") && right(e) > right(e.closest(".sd-card-body")) + 1).length;
}"""


def test_proofs_are_folded_open_on_a_click_and_are_found_by_the_search(site):
    found = re.search(r"Search\.setIndex\((.*)\)", (site / "searchindex.js").read_text(encoding="utf-8"))[1]
    assert {"zygmund", "triangl"} <= json.loads(found)["terms"].keys()  # words of proofs only
    with looks.chromium() as browser:
        with looks.opened(browser, site / "notebooks/theorem-1.html") as (page, report):
            proofs = page.locator("details.al-proof")
            assert (proofs.count(), page.locator("details.al-proof[open]").count()) == (5, 0)
            formula = proofs.first.locator("mjx-container").first
            assert not formula.is_visible()
            proofs.first.locator("summary").click()
            assert formula.is_visible() and formula.bounding_box()["height"] > 8
            assert report.console == []
        # A fold cuts what is wider than it; displayed formulas scroll.
        for name in ("gradients", "vanishing"):
            with looks.opened(browser, site / f"notebooks/{name}.html", width=390) as (page, _):
                assert page.evaluate(_CUT) == 0
