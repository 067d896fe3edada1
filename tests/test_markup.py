"""What is added to the HTML of pages, on small pieces of it; tests/test_book_look.py sees the same in a browser."""

from __future__ import annotations

import html
import json
import re

import pytest
from attention_limits.book import markup

CODE = '<div class="highlight-ipython3 notranslate"><div class="highlight"><pre><span></span>{}</pre></div>'
FORMULA = '<span class="math notranslate nohighlight">\\({}\\)</span>'


def text(body: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", body))


def test_code_keeps_its_text_and_every_line_knows_its_indentation():
    code = 'if a:\n<span class="w">    </span>b &lt; <span class="s">"c</span>\n\n        d\n'
    done = markup.with_lines(CODE.format(code))
    assert text(done) == text(code) == 'if a:\n    b < "c\n\n        d\n'
    assert re.findall(r'<span class="al-line" style="--indent:(\d+)">', done) == ["0", "4", "0", "8"]
    output = CODE.replace('"highlight-ipython3', '"output stream highlight-myst-ansi').format("1")
    assert markup.with_lines(output) == output


@pytest.mark.parametrize(
    ("tex", "width"),
    [("x", 1), (r"\alpha_i", 2), ("a = b", 4), ("a &lt; b", 4), (r"\frac{a}{b} \le 1", 6), (r"x\,y", 2)],
)
def test_a_formula_has_room_for_its_symbols_and_twice_for_relations(tex, width):
    done = markup.with_room(FORMULA.format(tex))
    assert re.findall(r'nohighlight" style="--room:(\d+)">', done) == [str(width)]
    assert text(done) == text(FORMULA.format(tex))


def test_statements_get_a_link_and_proofs_lose_their_common_id():
    statement = '<div class="proof theorem admonition" id="thm-a">\n'
    statement += '<p class="admonition-title"><span>Theorem 1 </span> (A)</p>'
    content = '<section class="theorem-content" id="proof-content"></section></div>'
    proof = '<div class="proof admonition" id="proof"><p>Proof. Plain.</p></div>'
    done = markup.with_links(statement + content + proof)
    assert re.findall(r'<a class="headerlink" href="#([^"]*)"', done) == ["thm-a"]
    assert "(A)<a " in done and 'aria-label="Link to this statement"' in done
    assert re.findall(r' id="([^"]*)"', done) == ["thm-a"]


def test_every_table_of_a_figure_is_saved_and_linked_after_its_own_caption():
    tables = {"x": {"columns": ["a"], "rows": [[1]]}, "y": {"columns": ["b"], "rows": [[2]]}}
    one = '<figure id="fig-{}" class="al-figure"><script type="application/json" class="al-spec">{}</script>'
    one += "<figcaption>Caption {}</figcaption></figure>"
    bare = '<figure id="fig-bare" class="al-figure"></figure>'
    body = one.format("a-b", json.dumps({"tables": tables}), 1) + one.format(
        "a-c", json.dumps({"tables": {}}), 2
    )
    saved = {}

    def save(name, table):
        saved[name] = table
        return f"data/{name}.csv?a&b"

    done = markup.with_data(bare + body, save)
    assert done.startswith(bare)
    done = done.removeprefix(bare)
    assert saved == {"fig-a-b-1": tables["x"], "fig-a-b-2": tables["y"]}
    first, second = done.split("</figure>")[:2]
    assert [html.unescape(at) for at in re.findall(r'<a href="([^"]*)"', first)] == [
        "data/fig-a-b-1.csv?a&b",
        "data/fig-a-b-2.csv?a&b",
    ]
    assert 'headerlink" href="#fig-a-b"' in first and 'headerlink" href="#fig-a-c"' in second
    assert re.findall(r'<a href="([^"]*)"', second) == []
