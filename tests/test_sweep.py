"""Sweeps: the table and its check, the jobs here and on a Slurm cluster, what is gathered from them, the profiles."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import kube
import pandas as pd
import pytest
import slurm
import yaml
from attention_limits import sweep
from attention_limits.records import Record
from toy import ROOT, chapter, project

DECLARED = {
    "one": {"model": "auto", "text": "auto", "length": 64, "top_ns": [1, 5, 100], "stride": 64, "record": ""},
    "two": {
        "model": "auto",
        "text": "auto",
        "lengths": [1, 2],
        "windows": 3,
        "share": 0.5,
        "seed": 0,
        "record": "",
    },
}
HEADER = "label,model,text,length"


def table(folder: Path, *rows: str, header: str = HEADER) -> Path:
    path = folder / "table.csv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


# --- the table --------------------------------------------------------------------------------------------------------
def test_a_table_is_read_as_a_spreadsheet_writes_it(tmp_path):
    rows = ['a-1, ,king-james,64,"[3, 5]"', "", "b,gpt2,auto,32,"]
    path = table(tmp_path, *rows, header=f"{HEADER}, top_ns")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert list(sweep.read(path, DECLARED).values()) == [
        sweep.Cell("a-1", "auto", "king-james", 64, {"top_ns": [3, 5]}),
        sweep.Cell("b", "gpt2", "auto", 32),
    ]


def test_numbers_may_be_written_with_an_exponent():
    words = "[1e-3, 2E+5, 0.1, 7, e5, 1e]", "1e-3", "[x"
    assert [sweep.from_yaml(word) for word in words] == [[0.001, 2e5, 0.1, 7, "e5", "1e"], 0.001, "[x"]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("a b,auto,auto,64", "row 3, label = 'a b': it must be 1 to 60 letters"),
        ("../x,auto,auto,64", "row 3, label = '../x'"),
        ("first,auto,auto,128", "row 3, label = 'first': an earlier row has this label"),
        ("First,auto,auto,128", "row 3, label = 'First': an earlier row has this label"),
        (
            "b,no model,auto,64",
            "row 3, model = 'no model': it must be auto, gpt2, smollm2-135m, a name on the hub",
        ),
        (
            "b,auto,nowhere.txt,64",
            "row 3, text = 'nowhere.txt': There is no text file 'nowhere.txt', and it is none of the named texts",
        ),
        ("b,auto,auto,31", "row 3, length = '31': it must be a whole number of tokens, at least 32"),
        ("b,auto,auto,1e3", "row 3, length = '1e3'"),
        ("b,auto,auto,64.0", "row 3, length = '64.0'"),
        ("b,auto,auto,", "row 3, length = ''"),
        ("b,~nobody-of-this-name/x,auto,64", "row 3, model = '~nobody-of-this-name/x': it must be auto"),
        ("b,auto,auto,64", "row 3 asks for the same as row 2"),
        ("b,auto,auto", "row 3 has 3 fields; the header has 4"),
        ("b,auto,auto,64,5", "row 3 has 5 fields; the header has 4"),
    ],
)
def test_a_wrong_row_is_named_with_what_is_allowed(tmp_path, row, words):
    with pytest.raises(sweep.SweepError, match=re.escape(words)):
        sweep.read(table(tmp_path, "first,auto,auto,64", row), DECLARED)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("stride", "2.5", "row 2, stride = '2.5': it must be a whole number, like 64"),
        ("stride", "true", "row 2, stride = 'true'"),
        ("top_ns", "5", "row 2, top_ns = '5': it must be a list, like [1, 5, 100]"),
        ("top_ns", '"[1, x]"', "row 2, top_ns = '[1, x]'"),
        ("share", "half", "row 2, share = 'half': it must be a number, like 0.5"),
        ("strid", "3", "no chapter of this sweep has a parameter 'strid'. Did you mean stride?"),
        ("record", "x", "no chapter of this sweep has a parameter 'record'"),
        ("model", "gpt2", "the column 'model' comes twice"),
    ],
)
def test_a_wrong_parameter_is_named(tmp_path, column, value, words):
    path = table(tmp_path, f"a,auto,auto,64,{value}", header=f"{HEADER},{column}")
    with pytest.raises(sweep.SweepError, match=re.escape(words)):
        sweep.read(path, DECLARED)


def test_a_column_of_lengths_needs_a_chapter_that_has_them(tmp_path):
    path = table(tmp_path, 'a,auto,auto,64,"[32]"', header=f"{HEADER},lengths")
    assert sweep.read(path, DECLARED)["a"].others == {"lengths": [32]}
    with pytest.raises(sweep.SweepError, match="no chapter of this sweep has a parameter 'lengths'"):
        sweep.read(path, {"one": {"length": 64}})


def test_a_table_without_commas_is_named(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("label;model;text;length\na;auto;auto;64\n", encoding="utf-8")
    with pytest.raises(sweep.SweepError, match="separated by ';'; save it with commas"):
        sweep.read(path, DECLARED)


def test_every_fault_of_a_table_is_told_at_once(tmp_path):
    with pytest.raises(sweep.SweepError) as told:
        sweep.read(table(tmp_path, *(f"x{i},auto,auto,{i}" for i in range(30))), DECLARED)
    lines = str(told.value).splitlines()
    assert (len(lines), lines[-1].split(": ")[1]) == (21, "and 10 more.")


def test_what_is_no_table_is_named(tmp_path):
    (tmp_path / "wide.csv").write_bytes("label,model".encode("utf-16"))
    (tmp_path / "short.csv").write_text("label,model,text\na,auto,auto\n")
    for path, words in [
        (tmp_path / "none.csv", "cannot be read (No such file or directory)"),
        (tmp_path / "wide.csv", "is not a CSV table in UTF-8"),
        (tmp_path / "short.csv", "row 1 lacks length"),
        (table(tmp_path), "it has no row below its header"),
    ]:
        with pytest.raises(sweep.SweepError, match=re.escape(words)):
            sweep.read(path, DECLARED)


def test_settings_follow_the_length_then_the_run_then_the_row():
    cell = sweep.Cell("a", "auto", "auto", 48)
    assert sweep.settings(DECLARED["one"], cell) == {"length": 48, "top_ns": [1, 5], "stride": 48}
    assert sweep.settings(DECLARED["two"], cell) == {"lengths": [12, 24, 48], "windows": 2}
    run = {"model": "gpt2", "windows": 5, "seed": 3, "lengths": [7], "top_ns": [100], "stride": 9}
    assert sweep.settings(DECLARED["two"], cell, run) == {"lengths": [12, 24, 48], "windows": 5, "seed": 3}
    own = sweep.Cell("a", "auto", "auto", 48, {"windows": 1, "lengths": [30, 48], "stride": 4})
    assert sweep.settings(DECLARED["two"], own, run) == {"lengths": [30, 48], "windows": 1, "seed": 3}
    assert sweep.settings(DECLARED["one"], own, run) == {"length": 48, "top_ns": [100], "stride": 4}


def test_collect_takes_no_results_of_other_settings_for_those_of_a_row(tmp_path, capsys, monkeypatch):
    from attention_limits.sweep.__main__ import main

    monkeypatch.chdir(tmp_path)
    chapter(tmp_path, "one", "length = 64\nwindows = 1\nmodel = 'auto'\ntext = 'auto'", "length")
    for label, length, more in (("a", 64, {}), ("b", 32, {}), ("c", 64, {"windows": 3})):
        left_behind(tmp_path, label, "one", 1.5, {"length": length, "windows": 2} | more)
    path = table(
        tmp_path, "a,auto,auto,64,", "b,auto,auto,64,2", "c,auto,auto,64,5", header=f"{HEADER},windows"
    )
    assert main(["collect", str(path), str(tmp_path), "--chapters", "one"]) == 1
    said = capsys.readouterr().out
    assert said.startswith(
        "1 of 3 jobs of the sweep are done"
    )  # whose windows the run had settled, not the row
    assert (
        "old: b, one: " in said and "length = 32 instead of 64" in said and "windows = 3 instead of 5" in said
    )


def test_a_grid_is_a_table_with_labels_of_its_own(tmp_path, capsys):
    from attention_limits.sweep.__main__ import main

    (tmp_path / "a").mkdir()
    texts = [str(tmp_path / name) for name in ("my text.txt", "a/my-text.txt")]
    for text in texts:
        Path(text).write_text("words")
    given = ["grid", "--models", "gpt2", "owner/name-2", "--texts", *texts, "--lengths", "64", "128"]
    assert main(given) == 0
    path = tmp_path / "grid.csv"
    path.write_text(capsys.readouterr().out)
    cells = sweep.read(path, DECLARED)
    assert len(cells) == 8
    assert list(cells)[:3] == ["gpt2-my-text-64", "gpt2-my-text-128", "gpt2-my-text-64-2"]
    assert {(c.model, c.text, c.length) for c in cells.values()} == {
        (model, text, length) for model in ("gpt2", "owner/name-2") for text in texts for length in (64, 128)
    }


# --- what is gathered -------------------------------------------------------------------------------------------------
def left_behind(out: Path, label: str, name: str, value: float, parameters: dict, **reading) -> None:
    record = Record(name, parameters, ("the model", "m" * 64), ("the text", "t" * 64))
    record.add(
        "bound.tightness", value, low=value - 1, high=value + 1, n=3, unit="ln", meaning='a, "b"', **reading
    )
    record.save(out / "sweep" / label / "records" / f"{name}.json")
    source = {kind: {"name": f"the {kind}", "sha256": kind[0] * 64} for kind in ("model", "text")}
    (out / "sweep" / label / "sources.json").write_text(json.dumps(source))


def test_results_and_reasons_are_gathered(tmp_path):
    cells = {
        label: sweep.Cell(label, "auto", "x.txt", length, {"seed": 1} if length == 64 else {})
        for label, length in (("a", 32), ("b", 64), ("c", 128))
    }
    wanted = {(label, name): {"windows": 2} for label in cells for name in ("one", "two")}
    left_behind(tmp_path, "a", "one", 1.5, {"windows": 2}, space="hidden")
    left_behind(tmp_path, "a", "two", 2.5, {"windows": 3})
    reports = tmp_path / "failed" / "sweep"
    reports.mkdir(parents=True)
    where = f"The notebook as far as it ran: {tmp_path}/x.partial.ipynb"
    (reports / "b.one.txt").write_text(f"b/one: failed (3 s)\n\nValueError: first\nthe last line\n{where}\n")
    (reports / "b.two.txt").write_text(
        "b/two: started, 9 code cells (0 s)\nb/two: in code cell 4 of 9: x = 1 (20 s)\n"
    )
    (reports / "c.sources.txt").write_text("There is no model 'x'.\n")
    said = {("b", "two"): "SLURM-job '7' failed, SLURM status is: 'CANCELLED'."}
    jobs = sweep.gather(cells, wanted, tmp_path, said)
    words = sweep.collect(jobs, tmp_path)

    assert [(job.cell.label, job.chapter, job.state) for job in jobs] == [
        ("a", "one", "done"),
        ("a", "two", "old"),
        ("b", "one", "failed"),
        ("b", "two", "failed"),
        ("c", "one", "not run"),
        ("c", "two", "not run"),
    ]
    assert words.splitlines()[0] == f"1 of 6 jobs of the sweep are done: {tmp_path}/sweep/results.csv"
    assert "windows = 3 instead of 2" in words
    assert "failed: b, one: the last line" in words
    assert "SLURM status is: 'CANCELLED'. It was stopped from outside" in words
    assert "code cell 4 of 9: x = 1" in words
    assert (
        words.splitlines()[-1]
        == "not run: c, one, two: its model or text could not be had: There is no model 'x'."
    )
    with open(tmp_path / "sweep" / "results.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    assert row == {
        "label": "a", "model": "the model", "text": "the text", "length": "32", "chapter": "one",
        "id": "bound.tightness", "reading": '{"space": "hidden"}', "value": "1.5", "low": "0.5", "high": "2.5",
        "n": "3", "unit": "ln", "meaning": 'a, "b"',
    }  # fmt: skip
    results, states = sweep.load(tmp_path / "sweep" / "results.csv")
    assert results.reading.tolist() == [{"space": "hidden"}]
    assert states.others.tolist() == ["", "", '{"seed": 1}', '{"seed": 1}', "", ""]
    assert states.model_sha256[0] == "m" * 64


@pytest.mark.parametrize("change", [{"name": "another"}, {"sha256": "0" * 64}], ids=["name", "bytes"])
@pytest.mark.parametrize("kind", ["model", "text"])
def test_results_of_another_model_or_text_are_not_those_of_a_row(tmp_path, kind, change):
    """A row was changed under its label, and the run ended when its sources were there and its chapter had not run."""
    left_behind(tmp_path, "a", "one", 1.5, {})
    path = tmp_path / "sweep" / "a" / "sources.json"
    sources = json.loads(path.read_text())
    sources[kind] |= change
    path.write_text(json.dumps(sources))
    (job,) = sweep.gather({"a": sweep.Cell("a", "auto", "x.txt", 32)}, {("a", "one"): {}}, tmp_path)
    assert job.state == "old"
    assert (
        f"{kind} 'the {kind}' " + ("instead of 'another'" if "name" in change else "of other bytes")
        in job.why
    )
    sweep.collect([job], tmp_path)
    assert sweep.load(tmp_path / "sweep" / "results.csv")[0].empty


def test_a_results_table_that_is_none_is_named(tmp_path):
    (tmp_path / "results.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="is no table of a sweep: its columns are"):
        sweep.load(tmp_path / "results.csv")
    with pytest.raises(ValueError, match=re.escape("none.csv' cannot be read")):
        sweep.load(tmp_path / "none.csv")


def test_headlines_are_what_can_be_drawn():
    line = {"model": "m", "text": "t", "low": 0.0, "high": 1.0}
    results = pd.DataFrame(
        [
            {
                **line,
                "label": label,
                "length": length,
                "chapter": name,
                "id": id,
                "reading": reading,
                "value": value,
            }
            for value, (label, length, name, id, reading) in enumerate(
                [
                    ("b", 64, "algorithm-1", "bound.tightness", {"space": "hidden", "support": "causal"}),
                    ("a", 32, "algorithm-1", "bound.tightness", {"space": "hidden", "support": "causal"}),
                    ("a", 32, "algorithm-1", "control.growth", {"space": "hidden", "support": "causal"}),
                    ("a", 32, "unknown", "some.number", {}),
                ]
            )
        ]
    )
    cells = pd.DataFrame({"label": ["a", "b"], "others": ["", '{"seed": 1}'], "model": "m", "text": "t"})
    cells = cells.assign(model_sha256="0" * 64, text_sha256="1" * 64)
    drawn = sweep.headlines(results, cells)
    assert drawn[["series", "length", "value"]].values.tolist() == [
        ["m, t", 32, 1],
        ["m, t", 32, 3],
        ["m, t, seed = 1", 64, 0],
    ]
    assert drawn.number.tolist()[0] == drawn.number.tolist()[2]
    assert drawn.number[0].endswith("(hidden, causal)")
    assert drawn.number[1] == "unknown: some.number"
    # Two texts that are both called t.
    drawn = sweep.headlines(results, cells.assign(text_sha256=["1" * 64, "2" * 64]))
    assert set(drawn.series) == {"m, t (1111111)", "m, t (2222222), seed = 1"}


# --- the jobs ---------------------------------------------------------------------------------------------------------
SWEPT = ["sweep=table.csv", "chapters=[reach]"]
ROWS = ["good,a model,a text.txt,32,", "bad,a model,a text.txt,64,-1", "held,a model,a text.txt,128,3"]


def toy(folder: Path) -> Path:
    """A project whose chapter ``reach`` records length * factor, fails for a factor below 0, and waits where held."""
    made = project(folder)
    waits = (
        "import time\nfrom pathlib import Path\nassert factor > 0, 'no\\nfactor'\n"
        "while Path(f'hold-{length}').exists():\n    time.sleep(0.1)"
    )
    chapter(made, "reach", 'model = "auto"\ntext = "auto"\nlength = 64\nfactor = 2', "length * factor", waits)
    table(made, *ROWS, header=f"{HEADER},factor")
    return made


def environment(folder: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(folder / "lib")}


def python(folder: Path) -> Path:
    """This Python by a path without a space, which Snakemake's executors for clusters need."""
    own = Path(sys.executable)
    if " " not in str(own):
        return own
    link = folder / "environment"
    link.unlink(missing_ok=True)
    link.symlink_to(own.parents[1])
    return link / "bin" / own.name


def start(folder: Path, *arguments: str, environment: dict[str, str], log: Path) -> subprocess.Popen:
    command = [str(python(folder.parent)), "-m", "snakemake", "sweep", "--keep-going", *arguments]
    with open(log, "w") as file:
        said = {"stdout": file, "stderr": subprocess.STDOUT}
        return subprocess.Popen(command, cwd=folder, env=environment, **said, start_new_session=True)


def sweep_here(folder: Path, *config: str) -> tuple[int, str]:
    log = folder / "said.txt"
    process = start(folder, "--cores", "2", "--config", *config, environment=environment(folder), log=log)
    return process.wait(240), log.read_text()


def wait_for(ready, process: subprocess.Popen, log: Path, seconds: float = 180) -> None:
    until = time.monotonic() + seconds
    while not ready():
        assert process.poll() is None and time.monotonic() < until, log.read_text()
        time.sleep(0.1)


def started(words: str) -> set[str]:
    return set(re.findall(r"^(\w+)/reach: started", words, re.MULTILINE))


def values(folder: Path) -> dict[str, float]:
    results, _ = sweep.load(folder / "_build" / "sweep" / "results.csv")
    return dict(zip(results.label, results.value, strict=True))


def states(folder: Path) -> dict[str, str]:
    _, cells = sweep.load(folder / "_build" / "sweep" / "results.csv")
    return dict(zip(cells.label, cells.state, strict=True))


def test_one_failure_stops_no_other_and_an_interrupted_sweep_resumes(tmp_path):
    folder, log = toy(tmp_path / "a toy"), tmp_path / "said.txt"
    (folder / "hold-128").touch()
    process = start(folder, "--cores", "2", "--config", *SWEPT, environment=environment(folder), log=log)
    ended = ("good/reach: finished", "bad/reach: failed", "held/reach: started")
    report = folder / "_build" / "failed" / "sweep" / "good.reach.txt"  # removed after the last word of a job
    wait_for(lambda: all(words in log.read_text() for words in ended) and not report.exists(), process, log)
    time.sleep(2)  # for the engine to note the end of that job too
    os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it
    assert process.wait(180) != 0
    said = log.read_text()
    last = said[said.index("1 of 3 jobs") :].splitlines()[:3]  # before what is said of Ctrl-C itself
    assert last[0] == "1 of 3 jobs of the sweep are done: _build/sweep/results.csv"
    assert last[1] == "failed: bad, reach: factor"
    assert last[2].startswith("failed: held, reach:")
    assert "in the cache" not in said, "auto was decided though no cell asks for it"
    assert (values(folder), states(folder)) == (
        {"good": 64},
        {"good": "done", "bad": "failed", "held": "failed"},
    )

    (folder / "hold-128").unlink()
    table(folder, *(row.replace("-1", "5") for row in ROWS), header=f"{HEADER},factor")
    status, said = sweep_here(folder, *SWEPT)
    assert (status, started(said)) == (0, {"bad", "held"}), said
    assert said.rstrip().splitlines()[-1] == "3 of 3 jobs of the sweep are done: _build/sweep/results.csv"
    assert values(folder) == {"good": 64, "bad": 320, "held": 384}

    status, said = sweep_here(folder, *SWEPT, "factor=4")  # of the run: for the cell that has none of its own
    assert (status, started(said), values(folder)["good"]) == (0, {"good"}, 128), said


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (["chapters=[reach]"], "A sweep needs a table: make sweep TABLE=table.csv"),
        (
            ["sweep=table.csv", "chapters=[size]"],
            "size is no chapter that a sweep can run. These are: reach.",
        ),
        (["sweep=none.csv", "chapters=[reach]"], "The table 'none.csv' cannot be read"),
        (
            ["sweep=long.csv", "chapters=[reach]"],
            "long.csv: the row one: reach: the text has 8,400 bytes, but 9,999 tokens of it are read.",
        ),
    ],
)
def test_a_wrong_sweep_is_refused_before_anything_runs(tmp_path, config, words):
    folder = toy(tmp_path / "toy")
    (folder / "long.csv").write_text("label,model,text,length\none,,,9999\n", encoding="utf-8")
    status, said = sweep_here(folder, "model=a model", "text=a text.txt", *config)
    assert (status, words in said) == (1, True), said
    assert "Traceback" not in said
    assert not (folder / "_build" / "sweep").exists()


def test_a_chapter_that_reads_no_text_needs_none_however_long(tmp_path):
    folder = toy(tmp_path / "toy")
    chapter(folder, "blind", "length = 64", "length")
    (folder / "long.csv").write_text("label,model,text,length\none,,,9999\n", encoding="utf-8")
    status, said = sweep_here(
        folder, "model=a model", "text=a text.txt", "sweep=long.csv", "chapters=[blind]"
    )
    assert status == 0, said


@pytest.mark.parametrize(
    ("given", "where"),
    [([], "--cores all"), (["CORES=3"], "--cores 3"), (["PROFILE=slurm"], "--profile profiles/slurm")],
)
def test_make_runs_the_command_that_it_stands_for(given, where):
    show = "show: ; @printf '%s\\n' \"$$ATTENTION_LIMITS_SWEEP\""
    command = ["make", "--no-print-directory", "-o", ".venv/.installed", "TABLE=a $b.csv", *given]
    told = [
        subprocess.run([*command, *more], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
        for more in (["-n", "sweep", "ARGS=--rerun-triggers mtime"], ["--eval", show, "show"])
    ]
    assert told == [
        f".venv/bin/python -m snakemake sweep {where} --keep-going --rerun-triggers mtime",
        "a $b.csv",
    ]


# --- on clusters ------------------------------------------------------------------------------------------------------
QUICK = ["--set-threads", "cell=1", "--slurm-init-seconds-before-status-checks", "10", "--latency-wait", "10"]


def on_slurm(folder: Path, *config: str, environment: dict[str, str], log: Path) -> subprocess.Popen:
    arguments = ["--profile", "profiles/slurm", *QUICK, "--config", *config]
    return start(folder, *arguments, environment=environment, log=log)


def test_a_sweep_on_slurm_outlives_a_killed_job_and_a_rerun_completes_it_only(tmp_path):
    folder = toy(tmp_path / "toy")
    table(folder, *(row.replace("-1", "5") for row in ROWS), header=f"{HEADER},factor")
    shutil.copy(ROOT / "notebooks" / "algorithm-1.md", folder / "notebooks")
    real = f"{HEADER},windows,spaces\nreal,,auto,32,1,[hidden]\n"  # the run's model and text
    (folder / "real.csv").write_text(real)
    (folder / "hold-128").touch()
    cluster = tmp_path / "slurm"
    cluster.mkdir()
    with slurm.cluster(cluster) as known:
        known |= {"PYTHONPATH": str(folder / "lib")}
        logs = [tmp_path / "fake.txt", tmp_path / "real.txt"]
        fake = on_slurm(folder, *SWEPT, environment=known, log=logs[0])
        config = ["chapters=[algorithm-1]", "model=smollm2-135m", "text=king-james", "out=_build/real"]
        by_make = known | {"ATTENTION_LIMITS_SWEEP": "real.csv"}
        chapter_of_the_book = on_slurm(folder, *config, environment=by_make, log=logs[1])
        report = folder / "_build" / "failed" / "sweep" / "held.reach.txt"
        wait_for(lambda: report.exists() and "started" in report.read_text(), fake, logs[0])
        slurm.cancel("held", known)
        assert fake.wait(240) != 0, logs[0].read_text()
        assert chapter_of_the_book.wait(240) == 0, logs[1].read_text()
    said = logs[0].read_text()
    assert values(folder) == {"good": 64, "bad": 320}
    assert states(folder)["held"] == "failed"
    last = said.rstrip().splitlines()[-1]
    assert last.startswith("failed: held, reach: SLURM-job")
    assert "'CANCELLED'" in last and "It was stopped from outside" in last
    assert str(tmp_path) not in last
    results, _ = sweep.load(folder / "_build" / "real" / "sweep" / "results.csv")
    assert set(results.model) == {"smollm2-135m"}
    assert (results.id == "bound.violations").any() and (
        results[results.id == "bound.violations"].value == 0
    ).all()

    (folder / "hold-128").unlink()
    status, said = sweep_here(folder, *SWEPT)  # here: what the cluster did is done
    assert (status, started(said)) == (0, {"held"}), said
    assert values(folder) == {"good": 64, "bad": 320, "held": 384}


def test_a_sweep_without_a_shared_file_system_goes_through_a_volume(tmp_path):
    """With the Kubernetes executor and profile, against a stand-in for the cluster."""
    if not shutil.which("rsync"):
        slurm.missing("No rsync on this machine, which results on a volume are copied with")
    folder, volume = toy(tmp_path / "toy"), tmp_path / "volume"
    table(folder, *ROWS[:2], header=f"{HEADER},factor")
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    arguments = [
        "--profile",
        "profiles/kubernetes",
        "--default-storage-prefix",
        str(volume),
        "--config",
        *SWEPT,
        "device=cuda",  # which this machine may lack: it is the pods' business
    ]
    log = tmp_path / "said.txt"
    with kube.cluster(tmp_path / "cluster") as (known, submitted):
        process = start(folder, *arguments, environment=known | {"PYTHONPATH": str(folder / "lib")}, log=log)
        assert process.wait(240) == 1, log.read_text()
    assert len(submitted) == 2
    asked = submitted[0]["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
    assert asked["memory"] == "8000M"
    results, cells = sweep.load(volume / "_build" / "sweep" / "results.csv")
    assert dict(zip(results.label, results.value, strict=True)) == {"good": 64}
    assert dict(zip(cells.label, cells.state, strict=True)) == {"good": "done", "bad": "failed"}
    assert "kubectl describe job" in log.read_text().rstrip().splitlines()[-1]
    assert not list((folder / "_build").rglob("reach.json")), "a job ran here, not in the cluster"


@pytest.mark.parametrize("name", ["slurm", "kubernetes"])
def test_snakemake_accepts_a_profile_with_its_resources(tmp_path, name):
    folder = toy(tmp_path / "toy")
    profile = yaml.safe_load((ROOT / "profiles" / name / "config.yaml").read_text(encoding="utf-8"))
    rules = set(
        re.findall(r"^(?:use )?rule (?:\w+ as )?(\w+)", (ROOT / "Snakefile").read_text(), re.MULTILINE)
    )
    assert set(profile["set-resources"]) | set(profile["set-threads"]) <= rules
    storage = ["--default-storage-prefix", str(tmp_path / "volume")] if name == "kubernetes" else []
    log = tmp_path / "said.txt"
    arguments = [
        "--dry-run",
        "--quiet",
        "host",
        "--profile",
        f"profiles/{name}",
        *storage,
        "--config",
        *SWEPT,
    ]
    process = start(folder, *arguments, environment=environment(folder), log=log)
    assert process.wait(180) == 0, log.read_text()
    said = log.read_text()
    resources = re.findall(r"wildcards: label=\w+, name=reach\n(?:.*\n)*?    resources: (.*)", said)
    wanted = profile["set-resources"]["cell"]
    assert len(resources) == len(ROWS)
    for line in resources:
        assert f"mem_mb={wanted['mem_mb']}," in line and f"runtime={wanted['runtime']}" in line
    assert not (folder / "_build" / "sweep").exists()
