"""Execute one MyST notebook headless: jupytext reads it, papermill runs it.

    python -m attention_limits.execute notebooks/theorem-1.md theorem-1.ipynb --parameters model=gpt2 seed=3

The notebook runs under ``OUT.partial.ipynb`` and becomes ``OUT.ipynb`` after its last cell succeeded. After a
failure the partial file stays for reading, and the last lines on stderr say which cell failed, and how.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
from pathlib import Path
from typing import Any

from attention_limits import heartbeat
from attention_limits import parameters as rules
from attention_limits.sources import SourceError, check_local_model, check_size

PARAMETERS_TAG = "parameters"
TRACEBACK_LINES = 12
LIGHTER = "If memory is short, run one notebook at a time (CORES=1), or ask for less: shorter lengths, fewer windows."


class ExecutionError(Exception):
    """A notebook could not be executed to its end; the message says which, where and why."""


def read(path: str | os.PathLike) -> Any:
    """The notebook in a MyST (.md) or Jupyter (.ipynb) file as an nbformat node, for this Python's kernel.

    Raises ExecutionError for a file that is missing or is no notebook.
    """
    import jupytext

    try:
        notebook = jupytext.read(path)
    except Exception as error:  # file, YAML and Jupytext errors have no class in common
        raise ExecutionError(f"{path}: cannot be read as a notebook: {error}") from error
    kernel = notebook.metadata.setdefault("kernelspec", {})
    # papermill refuses a kernelspec without language
    kernel.update({"name": "python3", "language": "python"})
    kernel.setdefault("display_name", "Python 3")
    return notebook


def is_notebook(path: str | os.PathLike) -> bool:
    """Whether a Markdown file's front matter names a kernel (else it is a plain page of the book)."""
    front = re.match(r"---\n(.*?)\n---\n", Path(path).read_text(encoding="utf-8"), re.DOTALL)
    return bool(front and re.search(r"^kernelspec:", front[1], re.MULTILINE))


def declared(notebook: Any) -> dict[str, Any]:
    """Parameters of the notebook's cell tagged ``parameters``: name to default value.

    A default that is not a literal is given as its source text. Papermill's own reader is not used because it
    skips a line whose comment contains ``=``. Raises ExecutionError for a cell that is not Python.
    """
    found: dict[str, Any] = {}
    for cell in notebook.cells:
        if PARAMETERS_TAG not in cell.metadata.get("tags", []):
            continue
        try:
            found |= rules.assigned(cell.source)
        except SyntaxError as error:
            raise ExecutionError(
                f"The cell tagged `parameters` cannot be read: {error}: {error.text}"
            ) from error
    return found


def execute(
    notebook: str | os.PathLike, output: str | os.PathLike, parameters: dict[str, Any], name: str = ""
) -> None:
    """Execute ``notebook`` and write it with its results to ``output``; progress is told under ``name``.

    Parameters are checked before the kernel starts (see `attention_limits.parameters`). The kernel works in the
    current folder. Two runs of the same output wait for each other. Raises ExecutionError for a parameter that the
    notebook does not have or cannot work with, a failing cell, an unreadable notebook, a kernel that died, or a
    disk on which nothing can be written.
    """
    try:
        _execute(Path(notebook), Path(output), parameters, name or Path(notebook).stem)
    except OSError as error:
        raise ExecutionError(
            f"{notebook} could not be executed into {output} ({error.strerror or error}). Check the free space and "
            "the permissions of its folder."
        ) from error


def _execute(notebook: Path, output: Path, parameters: dict[str, Any], name: str) -> None:
    import nbformat
    from filelock import FileLock

    partial = output.with_name(output.stem + ".partial.ipynb")
    output.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(output.with_name(f".{output.stem}.lock")):
        node = read(notebook)
        known = declared(node)
        values = {**known, **parameters}
        output.unlink(missing_ok=True)  # after a failure, no older result looks like this run's
        try:
            rules.check(notebook.stem, known, parameters)
            _check_paths(values)
        except (rules.ParameterError, SourceError) as error:
            raise ExecutionError(str(error)) from None
        for old in (Path(values[name]) for name in ("record", "report") if values.get(name)):
            if old.is_file():
                old.unlink()
        result = _run(notebook, node, partial, parameters, name)
        result.metadata.papermill.update(input_path=notebook.as_posix(), output_path=output.as_posix())
        if "device" in known:  # said here, since pages may be built on another machine than chapters run on
            from attention_limits.provenance import machine_rows

            result.metadata["machine"] = dict(machine_rows(values["device"]))
        nbformat.write(result, partial)
        partial.replace(output)


def _check_paths(values: dict[str, Any]) -> None:
    """Raise SourceError for a model or text given by path that is not there, and for a text that is too short.

    Names are left to the notebook.
    """
    if "model" in values:
        check_local_model(values["model"])
    if "text" in values:
        check_size(values["text"], rules.tokens(values))


def _run(notebook: Path, node: Any, partial: Path, parameters: dict[str, Any], name: str) -> Any:
    """Let papermill execute ``node`` into ``partial``; every way to fail becomes an ExecutionError."""
    # Set before the imports: never a kernel from the user's own folder.
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    # Threads that wait sleep instead of spinning: beside another process that makes a run ten times as fast.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # Progress bars are told in lines, which needs no widgets; the executed notebook keeps few states of them.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:IProgress not found")
    os.environ.setdefault("TQDM_DELAY", str(heartbeat.SECONDS / 4))
    os.environ.setdefault("TQDM_MININTERVAL", str(heartbeat.SECONDS / 4))
    import nbformat
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    logging.getLogger("papermill").setLevel(logging.ERROR)
    where = f"The notebook as far as it ran: {partial}"
    nbformat.write(node, partial)
    try:
        with heartbeat.Heartbeat(name, node) as beat:
            return papermill.execute_notebook(
                partial,
                partial,
                parameters,
                engine_name=beat.engine(),
                progress_bar=False,
                stderr_file=beat,
                start_timeout=180,
                extra_arguments=["--IPKernelApp.log_level=50"],  # no word on encryption or shutdown
            )
    except PapermillExecutionError as error:
        raise ExecutionError(f"{_describe(notebook, beat.place, error)}\n{where}") from None
    except (DeadKernelError, CellTimeoutError) as error:
        died = isinstance(error, DeadKernelError)
        reason = f"the kernel died (out of memory, or killed from outside). {LIGHTER}" if died else error
        raise ExecutionError(f"{notebook} failed in {beat.place}: {reason}\n{where}") from error
    except RuntimeError as error:  # nbclient: the kernel did not start
        raise ExecutionError(f"{notebook}: the Python kernel did not start: {error}") from error


def _describe(notebook: Path, place: str, error: Any) -> str:
    """Traceback's end, then one line that names notebook, cell and error."""
    said = f"{error.ename}: {error.evalue}"
    trace = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback)).rstrip().removesuffix(said).rstrip()
    return "\n".join([*trace.splitlines()[-TRACEBACK_LINES:], "", f"{notebook} failed in {place}:", said])


def parse_parameters(items: list[str]) -> dict[str, Any]:
    """``name=value`` items (value as JSON, else as text) and JSON files of an object; later ones win.

    Raises ExecutionError for an item that is neither.
    """
    parameters: dict[str, Any] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if equals and name.isidentifier():
            try:
                parameters[name] = json.loads(value)
            except ValueError:
                parameters[name] = value
            continue
        try:
            content = json.loads(Path(item).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ExecutionError(
                f"--parameters {item!r}: neither name=value nor a readable JSON file: {error}"
            ) from error
        if not isinstance(content, dict):
            raise ExecutionError(f"--parameters {item!r}: the file must hold a JSON object")
        parameters.update(content)
    return parameters


def main(arguments: list[str] | None = None) -> int:
    """Command line; returns the exit status: 0, 1 with the reason as the last lines on stderr, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m attention_limits.execute", description=__doc__.split("\n")[0]
    )
    parser.add_argument("notebook", help="MyST notebook (.md) or Jupyter notebook (.ipynb)")
    parser.add_argument("output", help="executed notebook to write (.ipynb)")
    parser.add_argument(
        "--parameters", nargs="*", default=[], metavar="NAME=VALUE", help="or a JSON file of an object"
    )
    parser.add_argument("--name", default="", help="what to call it in the terminal; else as its file")
    options = parser.parse_args(arguments)
    try:
        execute(options.notebook, options.output, parse_parameters(options.parameters), options.name)
    except ExecutionError as error:
        print(f"\n{error}", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # what nbclient left undone is no news
        print(
            f"\n{options.notebook} was interrupted; run it again to complete it.", file=sys.stderr, flush=True
        )
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
