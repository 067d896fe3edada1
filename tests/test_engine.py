"""The Snakefile on a small project: what runs, what runs again, and what a failure or a kill leaves behind."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import disks
import nbformat
import pytest
from bad_days import case
from toy import chapter, project

SOURCES = ["model=a model", "text=a text.txt"]


def command(*config: str, cores: int = 2) -> list[str]:
    return [sys.executable, "-m", "snakemake", "--cores", str(cores), "--config", *SOURCES, *config]


def environment(folder) -> dict[str, str]:
    """The project's own copy of the library comes first, so that an edit of the real one disturbs no test."""
    return os.environ | {"PYTHONPATH": str(folder / "lib")}


def run(folder, *config: str) -> subprocess.CompletedProcess:
    """One run of the engine in ``folder``; stdout and stderr together."""
    return subprocess.run(
        command(*config),
        cwd=folder,
        env=environment(folder),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
    )


def started(folder, **options) -> subprocess.Popen:
    """A run of the engine in ``folder`` that goes on by itself; stdout and stderr together."""
    return subprocess.Popen(
        command(),
        cwd=folder,
        env=environment(folder),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        **options,
    )


def executed(done: subprocess.CompletedProcess) -> set[str]:
    """Names of the notebooks that a run started."""
    return set(re.findall(r"^(\w+): started", done.stdout, re.MULTILINE))


def value(folder, name: str, out: str = "_build") -> float:
    return json.loads((folder / out / "records" / f"{name}.json").read_text())["results"][0]["value"]


@pytest.fixture
def toy(tmp_path):
    return project(tmp_path / "a toy")


def test_from_nothing_to_a_book_and_then_only_what_changed(toy):
    done = run(toy)
    assert done.returncode == 0, done.stdout
    assert executed(done) == {"size", "seed", "index"}
    assert done.stdout.index("size: finished") < done.stdout.index("index: started")
    html = toy / "_build" / "html"
    for page in ("index", "notebooks/size", "notebooks/seed", "provenance"):
        assert (html / f"{page}.html").is_file()
    assert "seed.json size.json" in (html / "index.html").read_text(encoding="utf-8")
    assert not list((toy / "_build" / "failed").iterdir())

    start = time.monotonic()
    again = run(toy)
    assert (again.returncode, executed(again)) == (0, set())
    assert time.monotonic() - start < 15

    # Only the notebook that has the parameter, and the page that reads its record.
    changed = run(toy, "widths=[3,5]")
    assert (changed.returncode, executed(changed)) == (0, {"size", "index"})
    assert value(toy, "size") == 8

    (toy / "a text.txt").write_text("Other words. " * 500, encoding="utf-8")
    before = json.loads((toy / "_build" / "sources.json").read_text())["text"]["sha256"]
    renewed = run(toy, "widths=[3,5]")  # only the notebook that reads model or text
    assert (renewed.returncode, executed(renewed)) == (0, {"seed", "index"})
    after = json.loads((toy / "_build" / "sources.json").read_text())["text"]
    assert after["sha256"] != before
    assert (after["requested"], str(toy) in json.dumps(after)) == ("a text.txt", False)


def test_a_change_of_the_looks_executes_nothing_and_a_chapter_may_be_renamed(toy):
    assert run(toy).returncode == 0
    library = toy / "lib" / "attention_limits"
    # The book's looks; the claims and all else that only pages use; what chapters compute with.
    everything = {"size", "seed", "index"}
    for part, again in (("book", set()), ("scorecard/claims", {"index"}), ("theory", everything)):
        for path in (library / part).glob("*.py"):
            path.write_text(path.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
        changed = run(toy)
        assert (changed.returncode, executed(changed)) == (0, again)
        assert "building the pages" in changed.stdout

    (toy / "notebooks" / "size.md").rename(toy / "notebooks" / "extent.md")
    toc = toy / "book" / "_toc.yml"
    toc.write_text(toc.read_text(encoding="utf-8").replace("size", "extent"), encoding="utf-8")
    renamed = run(toy)
    assert (renamed.returncode, executed(renamed)) == (0, {"extent", "index"}), renamed.stdout
    pages = {path.stem for path in (toy / "_build" / "html" / "notebooks").glob("*.html")}
    assert pages == {"extent", "seed"}
    assert "extent.json seed.json" in (toy / "_build" / "html" / "index.html").read_text(encoding="utf-8")


@pytest.mark.bad_day("a failing cell, beside the pages of an older run")
def test_a_failing_cell_has_the_last_word_and_a_rerun_does_what_is_missing(toy):
    older = toy / "_build" / "html" / "notebooks" / "size.html"
    older.parent.mkdir(parents=True)
    older.write_text("what an older run found", encoding="utf-8")
    chapter(toy, "seed", "seed = 0", "seed", "total = 7\nraise ArithmeticError('the sum is wrong')")
    done = run(toy)
    assert done.returncode != 0
    assert "The older pages in _build/html no longer fit and are removed" in done.stdout
    assert done.stdout.rstrip().splitlines()[-3:] == [
        "notebooks/seed.md failed in code cell 2 of 3: total = 7:",
        "ArithmeticError: the sum is wrong",
        "The notebook as far as it ran: _build/executed/seed.partial.ipynb",
    ]
    partial = nbformat.read(toy / "_build" / "executed" / "seed.partial.ipynb", as_version=4)
    assert any(o.output_type == "error" for c in partial.cells if c.cell_type == "code" for o in c.outputs)
    assert not (toy / "_build" / "executed" / "seed.ipynb").exists()
    assert not (toy / "_build" / "html").exists()

    chapter(toy, "seed", "seed = 0", "seed + 4")
    fixed = run(toy)
    assert (fixed.returncode, "size" in executed(fixed)) == (0, False), fixed.stdout
    assert value(toy, "seed") == 4
    assert not (toy / "_build" / "executed" / "seed.partial.ipynb").exists()


@pytest.mark.bad_day("a page of the book that cannot be built")
def test_a_failed_page_leaves_no_book_and_says_why(toy):
    page = toy / "book" / "index.md"
    page.write_text(page.read_text() + "\nSee [](nowhere.md).\n", encoding="utf-8")
    done = run(toy)
    assert done.returncode != 0
    assert "nowhere.md" in done.stdout[done.stdout.index("--- book failed") :]
    assert not (toy / "_build" / "html").exists()


@pytest.mark.parametrize(
    ("kill", "number"),
    [
        case("kill -9 of a run and its jobs", os.killpg, signal.SIGKILL),
        case("kill -9 of the engine, whose jobs live on", os.kill, signal.SIGKILL),
        case("Ctrl-C in the middle of a run", os.killpg, signal.SIGINT),
    ],
)
def test_after_a_kill_a_rerun_completes(toy, kill, number):
    chapter(toy, "seed", "seed = 0", "seed", "import time\ntime.sleep(6)")
    process = started(toy, start_new_session=True)
    for line in process.stdout:
        if line.startswith("seed: started"):
            break
    time.sleep(1)
    kill(process.pid, number)
    if number == signal.SIGINT:
        said = process.communicate(timeout=60)[0]
        assert process.returncode == 130, said
        assert said.rstrip().splitlines()[-1] == "Interrupted. The same command goes on from what is missing."
        assert "failed" not in said and "Traceback" not in said
    process.wait()
    process.stdout.close()
    assert not (toy / "_build" / "executed" / "seed.ipynb").exists()
    done = run(toy)
    assert done.returncode == 0, done.stdout
    assert "seed" in executed(done)
    assert value(toy, "seed") == 0
    assert (toy / "_build" / "html" / "index.html").is_file()


@pytest.mark.bad_day("two builds at once in one folder")
def test_two_runs_at_once_wait_for_each_other(toy):
    first, second = started(toy), started(toy)
    said = [process.communicate(timeout=300)[0] for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), said
    assert sorted("size: started" in words for words in said) == [False, True]
    assert any("Another run is at work" in words for words in said)


@pytest.mark.bad_day("a text whose name means something to a shell, to Snakemake, to HTML and to Markdown")
def test_a_text_may_have_any_name_and_be_changed(toy):
    """Braces are Snakemake's wildcards, the rest means something to a shell, to HTML or to Markdown."""
    text = toy / "{name} {{a}} <b>$x_1$ `t` $(touch made) & 'q' *.txt"
    text.write_text("Nothing but a few words. " * 200, encoding="utf-8")
    done = run(toy, f"text={text.name}")
    assert done.returncode == 0, done.stdout
    assert json.loads((toy / "_build" / "sources.json").read_text())["text"]["name"] == text.name
    page = (toy / "_build" / "html" / "provenance.html").read_text(encoding="utf-8")
    assert "{name} {{a}} &lt;b&gt;$x_1$ `t` $(touch made) &amp; " in page
    assert not (toy / "made").exists()
    text.write_text("Some other words. " * 200, encoding="utf-8")
    assert executed(run(toy, f"text={text.name}")) == {"seed", "index"}


@pytest.mark.bad_day("no home folder, where model and text lie on this machine")
def test_another_folder_holds_another_run_and_no_home_is_needed(toy, monkeypatch):
    monkeypatch.setenv("HOME", os.devnull)  # nothing can be below it
    for name in ("XDG_CACHE_HOME", "ATTENTION_LIMITS_CACHE", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    done = run(toy, "out=_build/other label", "seed=5")
    assert done.returncode == 0, done.stdout
    assert value(toy, "seed", "_build/other label") == 5
    assert (toy / "_build" / "other label" / "html" / "index.html").is_file()


@pytest.mark.parametrize(
    ("config", "words"),
    [
        case(
            "an unknown setting of the book",
            "widhts=4",
            "--config widhts: no notebook has this parameter. Did you mean widths?",
        ),
        case("a text that is not there", "text=not there.txt", "not there.txt"),
        case("a model that is not there", "model=no model", "no model"),
        case(
            "a wrong seed for the whole book",
            "seed=-1",
            "seed: seed is -1; it must be a whole number from 0 to 2**32 - 1.",
        ),
        case(
            "an unknown device",
            "device=gpu",
            "The book: device is 'gpu'; it must be auto | cpu | cuda | mps.",
        ),
    ],
)
def test_a_wrong_setting_is_named_and_nothing_runs(toy, config, words):
    done = run(toy, config)
    assert done.returncode != 0
    assert words in "\n".join(done.stdout.rstrip().splitlines()[-4:])
    assert not executed(done)
    assert "Traceback" not in done.stdout


@pytest.mark.bad_day("a setting of the book without --config before it")
def test_a_setting_without_config_is_no_file_to_make(toy):
    done = run(toy, "seed=1", "--nolock", "widths=[4]")
    assert done.returncode == 1 and not executed(done)
    assert done.stdout.rstrip().splitlines()[-1] == (
        "widths=[4]: settings come after --config, as in ARGS='--config widths=[4]'."
    )


@pytest.mark.bad_day("a text with fewer bytes than a chapter reads tokens")
def test_a_text_that_is_surely_too_short_is_said_before_anything_runs(toy):
    chapter(toy, "seed", 'text = "auto"\nlengths = [8, 10]\nwindows = 2\napart = 3\nseed = 0', "seed")
    short = toy / "short.txt"
    short.write_text("x" * 39, encoding="utf-8")
    done = run(toy, "text=short.txt")
    assert done.returncode == 1 and not executed(done)
    said = "seed: the text has 39 bytes, but 40 tokens of it are read. Give a longer text, or ask for less"
    assert said in done.stdout.rstrip().splitlines()[-1]
    short.write_text("x" * 40, encoding="utf-8")
    assert run(toy, "text=short.txt").returncode == 0


@pytest.mark.bad_day("a build folder that cannot be written")
def test_a_build_folder_that_cannot_be_written_is_said(toy):
    (toy / "_build").mkdir()
    with disks.read_only(toy / "_build"):
        done = run(toy)
    assert done.returncode != 0 and not executed(done)
    assert re.search(
        r"The build folder '_build' cannot be written \((Read-only|Permission).*OUT=", done.stdout
    )
    assert "Traceback" not in done.stdout


@pytest.mark.bad_day("a chapter that records nothing")
def test_a_chapter_without_a_record_is_named(toy):
    path = toy / "notebooks" / "size.md"
    path.write_text(path.read_text().replace('record = ""', "recrod = 1"), encoding="utf-8")
    done = run(toy)
    assert done.returncode != 0
    assert "notebooks/size.md: its cell tagged `parameters` lacks `record`" in done.stdout
