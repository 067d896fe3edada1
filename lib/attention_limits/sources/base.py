"""What all sources share: the error, the provenance, hashes, and a cache that is checked at each use."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from attention_limits.atomic import write_text

MANIFEST = "manifest.json"


class SourceError(Exception):
    """A model or text cannot be had. The message says what was tried, with what value, and what to do."""


@dataclass(frozen=True)
class Provenance:
    """Where a model or text came from: enough to get the same bytes, and no path of this machine.

    ``sha256`` and ``size`` (bytes) are those of the file as it was fetched; for weights in several files, the
    hash of the lines ``sha256  name`` sorted by name, and the sum of the sizes; for a text in several files the
    same, in the order they are read. ``files`` are a reader's own ones: name, size and SHA-256 of each.
    ``notice`` is empty unless ``auto`` fell back.
    """

    kind: str
    requested: str
    name: str
    revision: str
    sha256: str
    size: int
    licence: str
    origin: str
    notice: str = ""
    files: tuple[tuple[str, int, str], ...] = ()

    @property
    def identity(self) -> tuple[str, str]:
        """What a record says of it: its name and its sha256."""
        return self.name, self.sha256

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a dict of plain JSON values, in the order above."""
        return asdict(self)

    def asked(self, requested: str, notice: str) -> Provenance:
        """Return a copy that says what was requested and why something else may have been taken."""
        return replace(self, requested=without_folders(requested), notice=notice)


def without_folders(requested: str) -> str:
    """Return a requested name as it may be recorded: the last part of a path, a model's hub name as it is.

    Of several paths (``:`` between them) the last part of each.
    """
    if os.pathsep in requested and not os.path.exists(requested):
        return os.pathsep.join(map(without_folders, requested.split(os.pathsep)))
    is_path = (
        requested.startswith((".", "/", "~"))
        or os.path.exists(requested)
        or requested.partition("@")[0].count("/") > 1
    )
    return Path(os.path.abspath(expanded(requested))).name if is_path or "\\" in requested else requested


def expanded(name: str) -> Path:
    """Return a path that may begin with ``~``; where that means nobody's home it stays as it is."""
    return Path(os.path.expanduser(name))


def is_folder(name: str) -> bool:
    """Say whether there is a folder of this name; of one that no folder can have there is none."""
    return os.path.isdir(os.path.expanduser(name))


def say(message: str) -> None:
    """Tell the person at the terminal what is going on (standard error, so that outputs stay clean)."""
    print(message, file=sys.stderr, flush=True)


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal (one that stays the same is read once per process)."""
    state = path.stat()
    return _sha256_of(os.path.realpath(path), state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=256)
def _sha256_of(path: str, size: int, modified: int) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def cache_folder() -> Path:
    """Return this project's cache folder, which need not exist; ``ATTENTION_LIMITS_CACHE`` names another one.

    Raises SourceError where there is no home folder to put it in.
    """
    import platformdirs

    named = os.environ.get("ATTENTION_LIMITS_CACHE")
    try:
        return Path(named or platformdirs.user_cache_dir("attention-limits")).expanduser().absolute()
    except RuntimeError as error:  # "~" means nothing here
        raise SourceError(
            f"There is no home folder for a cache ({error}). Set the environment variable "
            "ATTENTION_LIMITS_CACHE to a folder that can be written."
        ) from error


def writable_cache_folder() -> Path:
    """Return the cache folder, made if needed. Raises SourceError where it cannot be written."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise SourceError(
            f"The cache folder {str(folder)!r} cannot be written ({error}). Free or unlock it, or set the "
            "environment variable ATTENTION_LIMITS_CACHE to a folder that can be written."
        ) from error


@contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    """Let one process at a time fetch ``name``; the others wait and say so. Raises SourceError as the cache does."""
    from filelock import FileLock, Timeout

    lock = FileLock(writable_cache_folder() / f"{name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say(f"Another run is fetching {name}; waiting for it to end.")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def cached_entry(name: str, build: Callable[[Path], dict[str, Any]]) -> tuple[Path, dict[str, Any]]:
    """Return folder ``name`` of the cache and its manifest, built first if it is absent or damaged.

    ``build`` fills an empty folder and returns what the manifest should remember beside each file's size and
    SHA-256. The folder gets its name only when it is complete, and one process builds while others wait.
    Raises SourceError.
    """
    folder = cache_folder() / name
    fault = entry_fault(folder)
    if not fault:
        return folder, read_manifest(folder)
    with one_at_a_time(name):
        fault = entry_fault(folder)  # another process may have built it while this one waited
        if fault and folder.exists():
            say(f"The cached {name} cannot be used ({fault}); it is fetched again.")
        if fault:
            _build_entry(folder, build)
    return folder, read_manifest(folder)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a cache entry."""
    return json.loads((folder / MANIFEST).read_text(encoding="utf-8"))


def entry_fault(folder: Path) -> str:
    """Say what is wrong with a cache entry (first missing, truncated or changed file); "" if nothing."""
    try:
        manifest = read_manifest(folder)
    except FileNotFoundError:
        return "no manifest"
    except (OSError, ValueError) as error:
        return f"unreadable manifest: {error}"
    try:
        for name, known in sorted(manifest["files"].items()):
            path = folder / name
            if not path.is_file():
                return f"{name} is missing"
            if path.stat().st_size != known["size"]:
                return f"{name} has {path.stat().st_size} bytes instead of {known['size']}"
            if sha256_file(path) != known["sha256"]:
                return f"{name} has changed"
    except OSError as error:
        return f"{error.filename} cannot be read: {error.strerror}"
    except (KeyError, TypeError, AttributeError):
        return "its manifest has another form than this version writes"
    return "" if manifest["files"] else "its manifest names no file"


def _build_entry(folder: Path, build: Callable[[Path], dict[str, Any]]) -> None:
    """Build under a temporary name and move into place; the caller holds the entry's lock."""
    for leftover in folder.parent.glob(f"{folder.name}.*.partial"):  # of a run that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix=folder.name + ".", suffix=".partial"))
    try:
        manifest = build(partial)
        files = {
            path.relative_to(partial).as_posix(): {"size": path.stat().st_size, "sha256": sha256_file(path)}
            for path in sorted(partial.rglob("*"))
            if path.is_file()
        }
        write_text(partial / MANIFEST, json.dumps({**manifest, "files": files}, indent=1) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(partial, folder)
    except OSError as error:
        raise SourceError(
            f"{folder.name} could not be written to the cache folder {str(folder.parent)!r} ({error}). "
            "Check its free space and permissions."
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
