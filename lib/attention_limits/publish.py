"""Build the static book from executed notebooks: stage a clean source, run Jupyter Book, move the result in.

    python -m attention_limits.publish _build

Reads ``_config.yml``, ``book/``, and of the build folder ``executed/``, ``sources.json``, ``provenance.md``.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat

from attention_limits.provenance import escape

ERROR_WORDS = ("WARNING", "ERROR", "Error", "error:")


class PublishError(Exception):
    """The book could not be built; the message holds the lines that say why."""


def stage(build: Path, book: Path = Path("book")) -> Path:
    """Make ``build/source`` anew from ``book`` and the executed notebooks; return it.

    A notebook of ``book`` takes the place of its .md source, the others lie in ``notebooks``.
    """
    source = build / "source"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(book, source)
    sources = json.loads((build / "sources.json").read_text(encoding="utf-8"))
    for notebook in sorted((build / "executed").glob("[!.]*.ipynb")):
        if notebook.name.endswith(".partial.ipynb"):
            continue
        own = source / f"{notebook.stem}.md"
        folder = source if own.exists() else source / "notebooks"
        own.unlink(missing_ok=True)
        folder.mkdir(exist_ok=True)
        nbformat.write(without_places(nbformat.read(notebook, as_version=4), sources), folder / notebook.name)
    for extra in ("sources.json", "provenance.md"):
        shutil.copy(build / extra, source)
    return source


def without_places(notebook: Any, sources: dict[str, dict[str, Any]]) -> Any:
    """The executed notebook as a reader may have it: parameters that are paths of this machine go or become names."""
    run = notebook.metadata.get("papermill", {})
    for name in ("input_path", "output_path"):
        run.pop(name, None)
    given = run.get("parameters", {})
    names = {kind: source["name"] for kind, source in sources.items() if kind in given}
    for cell in notebook.cells:
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell.source = re.sub(
                r"^(record|records|executed) = .*\n?", "", cell.source, flags=re.MULTILINE
            ).rstrip()
            for kind, name in names.items():
                line = f"{kind} = {json.dumps(name, ensure_ascii=False)}"
                cell.source = re.sub(
                    rf"^{kind} = .*$", lambda _, line=line: line, cell.source, flags=re.MULTILINE
                )
            if not re.search(r"^[^#\s]", cell.source, re.MULTILINE):
                cell.metadata.tags.append("remove-cell")
        for output in cell.get("outputs", ()):
            if "text/markdown" in output.get("data", {}):
                output.data["text/markdown"] = _literal(output.data["text/markdown"], sources)
    run["parameters"] = {
        key: value for key, value in given.items() if key not in ("record", "records", "executed")
    } | names
    return notebook


def _literal(markdown: str, sources: dict[str, dict[str, Any]]) -> str:
    """A computed sentence in which a model's or text's name is no markup: a file may be called `{{a}} $b$.txt`."""
    for name in (source["name"] for source in sources.values()):
        if re.search(r"[^\w\s.,-]|_", name):
            markdown = markdown.replace(name, escape(name))
    return markdown


def build_pages(source: Path, config: Path, html: Path) -> None:
    """Run Jupyter Book on ``source`` with every warning an error, then put the pages at ``html`` in one move.

    The full output of Jupyter Book lies beside ``html`` in ``book.log``. Raises PublishError.
    """
    work, log = html.with_name("book"), html.with_name("book.log")
    shutil.rmtree(work, ignore_errors=True)
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", str(source)]
    command += ["--config", str(config), "--path-output", str(work), "-W", "--keep-going", "--all"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    log.write_text(done.stdout, encoding="utf-8")
    pages = work / "_build" / "html"
    if done.returncode or not (pages / "index.html").is_file():
        lines = done.stdout.splitlines()
        told = [line for line in lines if any(word in line for word in ERROR_WORDS)] or lines
        raise PublishError(
            "\n".join([*told[-20:], "", f"The book could not be built. All that was said: {log}"])
        )
    shutil.rmtree(html, ignore_errors=True)
    pages.replace(html)
    shutil.rmtree(work, ignore_errors=True)


def main(arguments: list[str] | None = None) -> int:
    """Command line; returns the exit status (0, or 1 with the reason as the last lines on stderr)."""
    parser = argparse.ArgumentParser(
        prog="python -m attention_limits.publish", description=__doc__.split("\n")[0]
    )
    parser.add_argument("build", type=Path, help="build folder; the pages are written to its html folder")
    build = parser.parse_args(arguments).build
    print("book: building the pages", flush=True)
    try:
        build_pages(stage(build), Path("_config.yml"), build / "html")
    except PublishError as error:
        print(f"\n{error}", file=sys.stderr, flush=True)
        return 1
    print("book: finished", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
