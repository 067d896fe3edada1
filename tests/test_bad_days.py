"""Whole files or none: what is written when the disk is full, or when the process is killed at any line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import bad_days
import disks
import pytest
from attention_limits import atomic, provenance, records
from bad_days import COLLECTED, ROOT, case

KILLED = """
import os, sys
from pathlib import Path
from attention_limits import atomic, records
from attention_limits.sources import base

FILES = {module.__file__ for module in (atomic, records, base)}
root = Path(sys.argv[1])
os.environ["ATTENTION_LIMITS_CACHE"] = str(root / "cache")

def build(folder):
    (folder / "data").write_bytes(b"0123456789" * 1000)
    return {"note": "ours"}

def work():
    base.cached_entry("thing", build)
    record = records.Record("one", {})
    record.add("value", 1.5, meaning="what the test put there")
    record.save(root / "one.json")

def child(line):
    '''Work in a process of its own that kills itself when it comes to its so-manieth line; its exit status.'''
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    left = [line]
    def trace(frame, event, _):
        if frame.f_code.co_filename not in FILES:
            return None
        if event == "line":
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), 9)
        return trace
    sys.settrace(trace)
    work()
    os._exit(0)

def found():
    '''Whatever looks finished.'''
    files = [path for path in root.rglob("*") if path.is_file() and path.suffix != ".lock"]
    names = {path.relative_to(root).as_posix(): path for path in files}
    return {name: path.read_bytes() for name, path in names.items() if ".partial" not in name}

def clear():
    for path in sorted(root.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()

work()
whole = found()
assert set(whole) == {"cache/thing/data", "cache/thing/manifest.json", "one.json"}, whole
clear()
line = 0
while True:
    line += 1
    status = child(line)
    left = found()
    assert set(left) <= set(whole) and all(whole[name] == content for name, content in left.items()), (line, left)
    if status == 0:
        break
    assert status == -9, (line, status)
    work()
    assert found() == whole, line
    assert not list(root.glob("cache/*.partial")), line
    clear()
print(line - 1)
"""


@pytest.mark.bad_day("kill -9 at any line of what writes the cache and the records")
def test_after_a_kill_at_any_line_nothing_half_looks_whole_and_a_rerun_gives_the_same(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50


def test_a_file_is_written_anew_even_if_it_says_the_same(tmp_path):
    """Snakemake takes an output that keeps its time for one that was not made."""
    path = tmp_path / "new" / "out.json"
    atomic.write_text(path, "é\n")
    os.utime(path, (0, 0))
    atomic.write_text(path, "é\n")
    assert path.stat().st_mtime > 0 and path.read_bytes() == "é\n".encode()
    assert [part.name for part in path.parent.iterdir()] == ["out.json"]
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.fixture
def small(tmp_path) -> Path:
    """An empty folder, to be put on a disk with a bad day."""
    folder = tmp_path / "small"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("disk", "reason"),
    [
        case("a full disk under a record", disks.full, "No space left|File too large"),
        case("a folder for records that cannot be written", disks.read_only, "Read-only|Permission denied"),
    ],
)
def test_a_record_that_cannot_be_written_is_named_and_no_half_of_it_stays(small, disk, reason):
    record = records.Record("one", {"note": "x" * 200_000})
    with disk(small):
        with pytest.raises(atomic.WriteError, match=rf"small/one.json' cannot be written \(({reason})"):
            record.save(small / "one.json")
        assert not list(small.iterdir())


@pytest.mark.bad_day("a full disk under the provenance page")
def test_a_provenance_page_that_cannot_be_written_is_said(small, capsys, monkeypatch):
    monkeypatch.setattr(provenance, "page", lambda *_: "x" * 200_000)
    sources = small.parent / "sources.json"
    sources.write_text("{}", encoding="utf-8")
    with disks.full(small):
        assert provenance.main([str(sources), "--output", str(small / "provenance.md")]) == 1
        assert not list(small.iterdir())
    assert capsys.readouterr().err.startswith("\nattention_limits.provenance: ")


@pytest.mark.bad_day("a full disk on which an older file lies")
def test_an_older_file_stays_as_it_was(small):
    with disks.full(small):
        atomic.write_text(small / "one.json", "older")
        with pytest.raises(atomic.WriteError):
            atomic.write_text(small / "one.json", "x" * 200_000)
        assert [path.read_text() for path in small.iterdir()] == ["older"]


def test_the_page_of_bad_days_is_up_to_date(request, tmp_path):
    marked = {
        path for path in (ROOT / "tests").rglob("test_*.py") if "bad_day" in path.read_text(encoding="utf-8")
    }
    collected = request.config.stash[COLLECTED]
    if marked <= {item.path for item in collected} and not any("::" in part for part in request.config.args):
        made = bad_days.page(collected)
    else:  # only some of the tests run now
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
        command += ["--bad-days-page", tmp_path / "page.md", *sorted(marked)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        made = (tmp_path / "page.md").read_text(encoding="utf-8")
    committed = (ROOT / "book" / "bad-days.md").read_text(encoding="utf-8")
    assert made == committed, f"book/bad-days.md is out of date: {bad_days.COMMAND}"


def test_the_page_counts_each_mark_once_and_shows_it_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(bad_days, "ROOT", tmp_path)
    (tmp_path / "test_a.py").write_text('"""Cats: and dogs."""\n', encoding="utf-8")

    def item(*descriptions):
        marks = [SimpleNamespace(args=(description,)) for description in descriptions]
        return SimpleNamespace(path=tmp_path / "test_a.py", iter_markers=lambda name: marks)

    page = bad_days.page([item("rain"), item("rain", "{{y}} $x$"), item()])
    assert "**2 bad inputs and events**" in page and "## Cats\n" in page and "\n2 in `test_a.py`:\n" in page
    assert page.endswith("\n- rain\n- \\{\\{y\\}\\} \\$x\\$\n")
