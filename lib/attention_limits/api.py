"""The API pages: one per part of the library, written when the book is staged and filled by autodoc from docstrings.

As a Sphinx extension this module loads autodoc, makes docstrings, which are plain text, into reStructuredText, and
tells with each function which statements of the chapters it computes.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import nbformat
from sphinx.application import Sphinx

from attention_limits.statements import statements

PACKAGE = "attention_limits"
PAGE = "api"
# The two paths behind `attention_limits.kernels`, whose functions hand over to one of them; and commands.
LEFT_OUT = ("kernels.compiled", "kernels.batched")
_ONE_FILE = "modules"  # the page of the modules that are no package
_KEPT = re.compile(r"(:[\w:]+:`[^`]+`|``.+?``|`[^`]+`)", re.DOTALL)


# --- the pages, at staging ------------------------------------------------------------------------------------------
def modules(library: Path = Path(__file__).parent) -> list[str]:
    """Names within the package of all modules that the API documents, packages as their own name, sorted."""
    found = []
    for path in sorted(library.rglob("*.py")):
        parts = path.relative_to(library).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name and parts[-1] != "__main__" and not name.startswith(LEFT_OUT):
            found.append(name)
    return sorted(found)


def page_names(library: Path = Path(__file__).parent) -> list[str]:
    """The API pages as the table of contents has them, the first one left out."""
    parts = [name for name in modules(library) if (library / name).is_dir()]
    return [f"{PAGE}/{part}" for part in (*parts, _ONE_FILE)]


def write_pages(source: Path, library: Path = Path(__file__).parent) -> None:
    """Write ``api.md`` and the pages below it into the staged ``source``."""
    names = modules(library)
    lines = []
    for page in page_names(library):
        part = page.removeprefix(f"{PAGE}/")
        if part == _ONE_FILE:
            own = [name for name in names if "." not in name and not (library / name).is_dir()]
            title, text = "single modules", ""
        else:
            own = [name for name in names if name.split(".")[0] == part]
            title, text = part, _exports(library, part)
        (source / PAGE).mkdir(exist_ok=True)
        sections = "\n".join(_section(name, heading=name != part) for name in own)
        (source / f"{page}.md").write_text(f"# {title}\n\n{text}\n{sections}", encoding="utf-8")
        lines.append(f"- [{title}]({page}.md): {_summary(library, part) or ', '.join(f'`{n}`' for n in own)}")
    text = f"Every public function and class of `{PACKAGE}`, from its docstrings. Letters are those of [](#notation)."
    head = f"({PAGE})=\n# API\n\n{text}\n\n"
    (source / f"{PAGE}.md").write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


def _section(name: str, *, heading: bool) -> str:
    """The documentation of one module."""
    # Without ignore-module-all a package would document again what it imports from its modules.
    options = "   :members:\n   :ignore-module-all:\n   :member-order: bysource\n"
    title = f"## {name}\n\n" if heading else ""
    return f"{title}```{{eval-rst}}\n.. automodule:: {PACKAGE}.{name}\n{options}```\n"


def _exports(library: Path, part: str) -> str:
    """What a package hands over from its modules, each name a link."""
    tree = ast.parse((library / part / "__init__.py").read_text(encoding="utf-8"))
    links = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            home = f"{PACKAGE}.{part}.{node.module}" if node.level else node.module
            names = [alias.name for alias in node.names]
            links += [
                f"{{py:obj}}`{name} <{home}.{name}>`"
                for name in names
                if home.startswith(f"{PACKAGE}.{part}.")
            ]
    return f"At hand in the package: {', '.join(links)}.\n" if links else ""


def _summary(library: Path, part: str) -> str:
    path = library / part / "__init__.py"
    text = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "") if path.exists() else ""
    return " ".join(text.split("\n\n")[0].split()).replace("*", r"\*")


# --- the docstrings, at building ------------------------------------------------------------------------------------
def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the extension; called by Sphinx."""
    app.setup_extension("sphinx.ext.autodoc")
    app.config.add_module_names = False
    app.config.autodoc_preserve_defaults = (
        True  # as written: a default that is computed may be a path of this machine
    )
    app.config.autodoc_type_aliases = {"Floats": "Floats"}
    app.config.python_maximum_signature_line_length = 88
    # A type in a signature is written as in its module, where it is clear; two modules have a class Selection.
    app.config.suppress_warnings = [*app.config.suppress_warnings, "ref.python"]
    stated: dict[str, list[str]] = {}
    app.connect("builder-inited", lambda app: stated.update(uses(Path(app.srcdir))))
    app.connect(
        "autodoc-process-docstring",
        lambda app, what, name, obj, options, lines: make_readable(lines, stated.get(name, [])),
    )
    app.connect("autodoc-process-signature", lambda app, what, name, obj, options, *found: readable(*found))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def uses(source: Path) -> dict[str, list[str]]:
    """References to the statements of the staged chapters that each function, by its full name, computes."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(source.glob("notebooks/*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        for statement in statements(text):
            for name in () if statement.inside else statement.functions:
                role = "eq" if statement.kind == "equation" else "prf:ref"
                found[name].append(f":{role}:`{statement.label}`")
    return found


def readable(signature: str | None, returned: str | None) -> tuple[str | None, str | None]:
    """A signature that Sphinx can read: ``<factory>`` of a dataclass is no Python, and leaves it all as raw text."""
    return signature and signature.replace("<factory>", "..."), returned


def make_readable(lines: list[str], stated: list[str]) -> None:
    """Replace a docstring's lines by reStructuredText, and add where its function is ``stated``."""
    lines[:] = restructured("\n".join(lines)).splitlines()
    if stated:
        lines += ["", f"Stated in {', '.join(stated)}.", ""]


def restructured(text: str) -> str:
    """Plain text as reStructuredText that shows it: ``|x|`` and ``x_`` are no markup, single backticks are code.

    Double backticks, roles and lists stay what they are; a paragraph set in by four or more is shown as it is.
    """
    paragraphs, literal = [], False
    for paragraph in re.split(r"\n[ \t]*\n", text.strip("\n")):
        set_in = all(line.startswith("    ") for line in paragraph.splitlines())
        if set_in:
            paragraphs += [paragraph] if literal else ["::", paragraph]
        else:
            paragraphs.append(_escaped(paragraph))
        literal = set_in or paragraph.endswith("::")
    return "\n\n".join(paragraphs) + "\n"


def _escaped(paragraph: str) -> str:
    pieces = _KEPT.split(paragraph)
    for index, piece in enumerate(pieces):
        if index % 2 == 0:
            pieces[index] = re.sub(r"([\\*|_`])", r"\\\1", piece)
        elif not piece.startswith((":", "``")):
            pieces[index] = f"`{piece}`"
    return "".join(pieces)
