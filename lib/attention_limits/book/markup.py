"""What the book adds to the HTML of a page's text before it is written; used by :mod:`attention_limits.book`."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from typing import Any

FIGURE = re.compile(r'<figure id="(fig-[a-z0-9-]+)" class="al-figure"')
_WHOLE_FIGURE = re.compile(FIGURE.pattern + r".*?</figure>", re.S)
_SPEC = re.compile(r'<script type="application/json" class="al-spec">(.*?)</script>', re.S)
_STATEMENT = re.compile(
    r'<div class="proof (?!admonition")[^"]*" id="([^"]+)">\s*<p class="admonition-title"[^>]*>.*?(?=</p>)',
    re.S,
)
_CODE = re.compile(
    r'(<div class="highlight-[\w-]+ notranslate"><div class="highlight"><pre><span></span>)(.*?)(?=</pre>)',
    re.S,
)
_FORMULA = re.compile(r'(?<=<span class="math notranslate nohighlight")(?=>\\\((.*?)\\\)</span>)', re.S)
_NO_WIDTH = re.compile(r"[{}_^]|\\[,;!:]")
_SYMBOL = re.compile(r"\\[A-Za-z]+|\\.|\S")
_WIDE = re.compile(
    r"[=<>+−-]|\\(le|ge|to|in|notin|approx|ne|cdot|times|gg|ll|pm|sim|subset|propto|mid|max|min|exp|log)"
)


def with_links(body: str) -> str:
    """Statements (theorems, lemmas, ...) get a link to themselves; the ids that sphinx_proof gives to all go."""
    body = body.replace(' id="proof-content"', "").replace(' id="proof"', "")
    return _STATEMENT.sub(lambda found: found.group() + _link(found.group(1), "statement"), body)


def with_data(body: str, save: Callable[[str, dict[str, Any]], str]) -> str:
    """Captions of figures get a link to the figure and, for readers without scripts, to its data.

    ``save(name, table)`` stores a table, which has ``columns`` (names) and ``rows`` (lists of values), and
    returns its address as seen from the page.
    """

    def captioned(found: re.Match) -> str:
        """The figure with what its caption gains."""
        name, spec = found.group(1), _SPEC.search(found.group())
        tables = json.loads(spec.group(1))["tables"].values() if spec else ()
        links = [
            f'<a href="{html.escape(save(f"{name}-{number}", table))}">Data {number} (CSV)</a>'
            for number, table in enumerate(tables, 1)
        ]
        more = f"{_link(name, 'figure')}<noscript> {' '.join(links)}</noscript></figcaption>"
        return found.group().replace("</figcaption>", more)

    return _WHOLE_FIGURE.sub(captioned, body)


def with_lines(body: str) -> str:
    """Each line of code becomes an element that knows its indentation in columns, so that it can wrap below itself."""
    return _CODE.sub(lambda found: found.group(1) + _lines(found.group(2)), body)


def with_room(body: str) -> str:
    """Formulas in the text say about how wide they will be, so that lines stay where they are when MathJax is done.

    The measure is one per symbol and two per relation; 0.65 em each is right to 13 % (mean, over this book).
    """
    return _FORMULA.sub(lambda found: f' style="--room:{_width(html.unescape(found.group(1)))}"', body)


def with_breaks(body: str) -> str:
    """``body`` with the headings of tables free to break after an underscore, as paper needs it."""
    return re.sub(
        r"(<th\b[^>]*>)([^<]*)(?=</th>)", lambda found: found[1] + found[2].replace("_", "_<wbr>"), body
    )


def with_named_folds(page: str) -> str:
    """``page`` with a name for each button that folds a list of the side bar; the theme gives it none."""
    fold = r'(<a class="[^"]*\binternal\b[^"]*" href="[^"]*">([^<]*)</a><details[^>]*>)<summary>'
    return re.sub(fold, r'\1<summary aria-label="Pages below \2">', page)


def _link(anchor: str, kind: str) -> str:
    """The mark that headings have as well."""
    words = f"Link to this {kind}"
    return f'<a class="headerlink" href="#{anchor}" title="{words}" aria-label="{words}">#</a>'


def _lines(code: str) -> str:
    lines = []
    for line in code.splitlines(keepends=True):
        words = html.unescape(re.sub(r"<[^>]*>", "", line))
        indent = len(words) - len(words.lstrip(" "))
        lines.append(f'<span class="al-line" style="--indent:{indent}">{line}</span>')
    return "".join(lines)


def _width(tex: str) -> int:
    symbols = _SYMBOL.findall(_NO_WIDTH.sub(" ", tex))
    return len(symbols) + sum(bool(_WIDE.fullmatch(symbol)) for symbol in symbols)
