"""Build the static book from executed notebooks: stage a clean source, run Jupyter Book, move the result in.

    python -m attention_limits.publish _build

Reads ``_config.yml``, ``book/``, ``CITATION.cff``, ``CONTRIBUTING.md``, ``CHANGELOG.md``, and of the build folder
``executed/``, ``sources.json``, ``provenance.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import yaml

from attention_limits import api, citation, pages
from attention_limits.provenance import PLACES, escape, public

ERROR_WORDS = ("WARNING", "ERROR", "Error", "error:")


class PublishError(Exception):
    """The book could not be built; the message holds the lines that say why."""


def stage(build: Path, book: Path = Path("book")) -> Path:
    """Make ``build/source`` anew from ``book`` and the executed notebooks; return it.

    A notebook of ``book`` takes the place of its .md source, the others lie in ``notebooks``. Each gets the block about
    its run, and ``build/files`` the notebooks that the block links to. Raises PublishError where a source is gone.
    """
    source, files = build / "source", build / pages.FILES
    for folder in (source, files):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(book, source)
    files.mkdir()
    sources = json.loads((build / "sources.json").read_text(encoding="utf-8"))
    works = _works(book.parent / "CITATION.cff")
    for path in sorted((build / "executed").glob("[!.]*.ipynb")):
        if path.name.endswith(".partial.ipynb"):
            continue
        notebook = nbformat.read(path, as_version=4)
        origin = Path(notebook.metadata.get("papermill", {}).get("input_path", ""))
        if not origin.is_file():
            raise PublishError(f"{path}: its source {str(origin)!r} is gone. Run `make book` again.")
        own = source / f"{path.stem}.md"
        folder = source if own.exists() else source / "notebooks"
        own.unlink(missing_ok=True)
        folder.mkdir(exist_ok=True)
        shutil.copy(origin, files)
        nbformat.write(without_places(notebook, sources), files / path.name)
        pages.add_about(notebook, origin.name, "" if folder == source else "../", works)
        if not origin.is_absolute():
            notebook.metadata["source"] = origin.as_posix()  # for the button that opens it elsewhere
        nbformat.write(notebook, folder / path.name)
    for extra in ("sources.json", "provenance.md"):
        shutil.copy(build / extra, source)
    _add_pages(source, book.parent)
    return source


def _add_pages(source: Path, root: Path) -> None:
    """The pages that no file of the book holds: those of the project's own files, the API, and a full contents."""
    path = source / "_toc.yml"
    if not path.exists():
        return
    toc = yaml.safe_load(path.read_text(encoding="utf-8"))
    listed = pages.files(toc)
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        if name.removesuffix(".md").lower() in listed:
            shutil.copy(root / name, source / name.lower())
    if api.PAGE in listed:
        api.write_pages(source)
    executed = [f"notebooks/{path.stem}" for path in sorted((source / "notebooks").glob("*.ipynb"))]
    every = {f"notebooks/{path.stem}" for path in (root / "notebooks").glob("*.md")}
    toc = pages.contents(toc, executed, api.page_names(), every.difference(executed))
    path.write_text(yaml.safe_dump(toc, sort_keys=False, allow_unicode=True), encoding="utf-8")


def _works(path: Path) -> list[dict[str, Any]]:
    """What readers are asked to cite; nothing where there is no citation file."""
    try:
        address = os.environ.get("ATTENTION_LIMITS_SITE") or os.environ.get("ATTENTION_LIMITS_REPOSITORY", "")
        return citation.load(path, address) if path.exists() else []
    except citation.CitationError as error:
        raise PublishError(str(error)) from error


def without_places(notebook: Any, sources: dict[str, dict[str, Any]]) -> Any:
    """The executed notebook as a reader may have it.

    Parameters that are paths of this machine go or become names, and so does what went to stderr, which was for the
    terminal: a warning names the file it comes from.
    """
    run = notebook.metadata.get("papermill", {})
    for name in ("input_path", "output_path"):
        run.pop(name, None)
    given = {key: value for key, value in run.get("parameters", {}).items() if key not in PLACES}
    shown = {key: public(value) for key, value in given.items()}
    shown |= {kind: source["name"] for kind, source in sources.items() if kind in given}
    for cell in notebook.cells:
        if "injected-parameters" in cell.metadata.get("tags", []):
            _hide_places(cell, {name: value for name, value in shown.items() if value != given[name]})
        if "outputs" in cell:
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for output in cell.get("outputs", ()):
            if "text/markdown" in output.get("data", {}):
                output.data["text/markdown"] = _literal(output.data["text/markdown"], sources)
    run["parameters"] = shown
    return notebook


def _hide_places(cell: Any, changed: dict[str, Any]) -> None:
    """Take the places of this run out of the cell that papermill put in, and give it the ``changed`` values."""
    kept = [line for line in cell.source.splitlines() if line.partition(" = ")[0] not in PLACES]
    for index, line in enumerate(kept):
        if (name := line.partition(" = ")[0]) in changed:
            kept[index] = f"{name} = {json.dumps(changed[name], ensure_ascii=False)}"
    cell.source = "\n".join(kept)
    if not re.search(r"^[^#\s]", cell.source, re.MULTILINE):
        cell.metadata.tags.append("remove-cell")


def _literal(markdown: str, sources: dict[str, dict[str, Any]]) -> str:
    """A computed sentence in which a model's or text's name is no markup: a file may be called `{{a}} $b$.txt`."""
    for name in (source["name"] for source in sources.values()):
        if re.search(r"[^\w\s.,-]|_", name):
            markdown = markdown.replace(name, escape(name))
    return markdown


def build_pages(source: Path, config: Path, html: Path) -> None:
    """Run Jupyter Book on ``source`` with every warning an error, then put the pages at ``html`` in one move.

    The files that pages link to come from ``files`` beside ``source``. The full output of Jupyter Book lies beside
    ``html`` in ``book.log``. Raises PublishError.
    """
    work, log = html.with_name("book"), html.with_name("book.log")
    shutil.rmtree(work, ignore_errors=True)
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", str(source)]
    command += ["--config", str(config), "--path-output", str(work), "-W", "--keep-going", "--all"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    log.write_text(done.stdout, encoding="utf-8")
    built = work / "_build" / "html"
    if done.returncode or not (built / "index.html").is_file():
        lines = done.stdout.splitlines()
        told = [line for line in lines if any(word in line for word in ERROR_WORDS)] or lines
        raise PublishError(
            "\n".join([*told[-20:], "", f"The book could not be built. All that was said: {log}"])
        )
    shutil.copytree(source.with_name(pages.FILES), built / pages.FILES)
    shutil.rmtree(html, ignore_errors=True)
    built.replace(html)
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
    except (PublishError, OSError) as error:
        said = error if isinstance(error, PublishError) else f"The pages cannot be written: {error}"
        print(f"\n{said}", file=sys.stderr, flush=True)
        return 1
    print("book: finished", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
