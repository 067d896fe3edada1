"""Disks on a bad day, for tests: one that is full and one that cannot be written."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def full(folder: Path, size: int = 65536) -> Iterator[Path]:
    """``folder`` on a disk of ``size`` bytes; for a user who may not mount one, no file may grow beyond that."""
    folder.mkdir(parents=True, exist_ok=True)
    if _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)):
        try:
            yield folder
        finally:
            _unmount(folder)
        return
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield folder
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def read_only(folder: Path) -> Iterator[Path]:
    """``folder`` as it is, but on a disk that cannot be written (or, without root, in a folder that cannot)."""
    if _mount("--bind", str(folder), str(folder)):
        try:
            assert _mount("-o", "remount,bind,ro", str(folder))
            yield folder
        finally:
            _unmount(folder)
        return
    folder.chmod(0o500)
    try:
        yield folder
    finally:
        folder.chmod(0o700)


def _mount(*arguments: str) -> bool:
    try:
        return not subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode
    except OSError:
        return False


def _unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
