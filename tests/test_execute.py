"""Executing one notebook: what is passed to it, where it runs, and every way in which it can end."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import disks
import jupytext
import nbformat
import psutil
import pytest
from attention_limits import execute, heartbeat
from bad_days import case
from toy import write_notebook


def outputs(path) -> list[str]:
    """What each code cell of an executed notebook printed."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    return ["".join(o.get("text", "") for o in cell.outputs if o.get("name") == "stdout") for cell in cells]


def test_declared_reads_every_literal_and_ignores_other_cells(tmp_path):
    source = (
        'lengths = [1,\n  2]\nn: int = 5  # n = 5, or more\nrate = -1e-3\nother = len("ab")\nname = "a=b"'
    )
    path = write_notebook(tmp_path / "a.md", source, "later = 3")
    found = execute.declared(execute.read(path))
    assert found == {"lengths": [1, 2], "n": 5, "rate": -0.001, "other": "len('ab')", "name": "a=b"}


def test_is_notebook_only_with_a_kernel(tmp_path):
    assert execute.is_notebook(write_notebook(tmp_path / "a.md", "n = 1"))
    plain = tmp_path / "b.md"
    for text in ("# Title\n", "---\ntitle: x\n---\n# Title\n", "# Title\n\n---\nkernelspec: 1\n---\n", ""):
        plain.write_text(text, encoding="utf-8")
        assert not execute.is_notebook(plain)


def test_parameters_arrive_with_their_types(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    show = (
        "import os, sys\nprint(repr((n, lengths, label, 'extra' in globals(), os.getcwd(), sys.executable)))"
    )
    path = write_notebook(tmp_path / "my notebook.md", 'n = 1\nlengths = [1]\nlabel = ""', show)
    given = ["lengths=[2, 3]", "label=a 'quoted' = name.txt"]
    assert execute.main([str(path), "out/my notebook.ipynb", "--parameters", *given]) == 0
    expected = (1, [2, 3], "a 'quoted' = name.txt", False, str(tmp_path), sys.executable)
    assert outputs("out/my notebook.ipynb")[-1].strip() == repr(expected)
    run = nbformat.read("out/my notebook.ipynb", as_version=4).metadata.papermill
    assert run.parameters == {"lengths": [2, 3], "label": "a 'quoted' = name.txt"}
    assert (run.input_path, run.output_path) == (path.as_posix(), "out/my notebook.ipynb")
    assert [name for name in os.listdir("out") if not name.startswith(".")] == ["my notebook.ipynb"]


def test_a_jupyter_notebook_and_a_parameter_file_will_do(tmp_path):
    path = tmp_path / "a.ipynb"
    jupytext.write(jupytext.read(write_notebook(tmp_path / "a.md", "n = 1", "print(n)")), path)
    (tmp_path / "p.json").write_text(json.dumps({"n": 7}), encoding="utf-8")
    execute.execute(path, tmp_path / "out.ipynb", execute.parse_parameters([str(tmp_path / "p.json")]))
    assert outputs(tmp_path / "out.ipynb")[-1] == "7\n"


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        case(
            "a cell that raises",
            "x = 1\nraise ValueError('bad $x$')",
            ["code cell 2 of 3: x = 1:", "ValueError: bad $x$"],
        ),
        case("a cell that is not Python", "1 +", ["code cell 2 of 3: 1 +:", "SyntaxError: invalid syntax"]),
        case(
            "a kernel that is killed in the middle of a notebook, as where the memory is out",
            "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
            [
                "code cell 2 of 3",
                "the kernel died (out of memory, or killed from outside). If memory is short, run one",
            ],
        ),
        case(
            "a cell that asks for more memory than there is",
            "import resource\nresource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32))\nx = bytearray(2**33)",
            ["code cell 2 of 3", "MemoryError"],
        ),
    ],
)
def test_a_failure_is_told_last_and_the_partial_notebook_is_kept(tmp_path, capfd, cell, words):
    path = write_notebook(tmp_path / "bad.md", "n = 1", cell, "print('never')")
    output = tmp_path / "bad.ipynb"
    output.write_text("from an older run", encoding="utf-8")
    assert execute.main([str(path), str(output), "--parameters", "n=2"]) == 1
    end = "\n".join(capfd.readouterr().err.rstrip().splitlines()[-4:])
    assert all(word in end for word in [str(path), *words])
    assert end.endswith(f"The notebook as far as it ran: {tmp_path / 'bad.partial.ipynb'}")
    assert not output.exists()
    partial = nbformat.read(tmp_path / "bad.partial.ipynb", as_version=4)
    assert any(c.source == "n = 2" or "n = 2" in c.source for c in partial.cells)
    assert "never\n" not in outputs(tmp_path / "bad.partial.ipynb")


@pytest.fixture
def no_kernel(monkeypatch):
    """Any start of a kernel fails the test."""

    def run(*_):
        raise AssertionError("a kernel was started")

    monkeypatch.setattr(execute, "_run", run)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        case(
            "an unknown parameter, close to a known one",
            "lenghts=[2]",
            "a has no parameter 'lenghts'. Did you mean lengths?",
        ),
        case(
            "an unknown parameter, close to none", "zzz=1", "a has no parameter 'zzz'. It has lengths, top_n."
        ),
        case(
            "N that is no smaller than L",
            "top_n=9",
            "a: top_n is 9; it must be a whole number from 1 to min(lengths) - 1 (min(lengths) - 1 is 8, "
            "lengths is [9, 10]).",
        ),
    ],
)
def test_a_wrong_parameter_is_said_before_a_kernel_starts(tmp_path, capfd, no_kernel, given, said):
    path = write_notebook(tmp_path / "a.md", "lengths = [9, 10]\ntop_n = 2", "pass")
    output = tmp_path / "a.ipynb"
    output.write_text("from an older run", encoding="utf-8")
    assert execute.main([str(path), str(output), "--parameters", given]) == 1
    assert capfd.readouterr().err == f"\n{said}\n"
    assert not output.exists() and not (tmp_path / "a.partial.ipynb").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("text=none.txt", "There is no text file 'none.txt'"),
        ("model=./none", "The model './none': no such folder."),
        ("text=a.txt:", "In the list of texts 'a.txt:' a path is empty."),
        ("text=short.txt", "the text has 17 bytes, but 18 tokens of it are read. Give a longer text"),
        ("text=binary.txt", "'binary.txt' is not a text file: byte 0 is zero."),
    ],
)
def test_a_path_that_will_not_do_is_said_before_a_kernel_starts(
    tmp_path, capfd, no_kernel, monkeypatch, given, said
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short.txt").write_text("x" * 17, encoding="utf-8")
    (tmp_path / "binary.txt").write_bytes(b"\0\1\xff" * 4)
    path = write_notebook(tmp_path / "a.md", "model = 'auto'\ntext = 'auto'\nlength = 18", "pass")
    assert execute.main([str(path), str(tmp_path / "a.ipynb"), "--parameters", given]) == 1
    assert capfd.readouterr().err.startswith(f"\n{said}")


@pytest.mark.bad_day("a second run that fails")
def test_what_an_older_run_recorded_does_not_outlive_a_failure(tmp_path):
    path = write_notebook(
        tmp_path / "a.md", "fail = 0\nrecord = ''", "assert not fail", "open(record, 'w').close()"
    )
    given = {"record": str(tmp_path / "a.json")}
    execute.execute(path, tmp_path / "a.ipynb", given)
    assert (tmp_path / "a.json").exists() and (tmp_path / "a.ipynb").exists()
    with pytest.raises(execute.ExecutionError, match="AssertionError"):
        execute.execute(path, tmp_path / "a.ipynb", given | {"fail": 1})
    assert not (tmp_path / "a.json").exists() and not (tmp_path / "a.ipynb").exists()


def test_a_folder_in_place_of_the_output_is_said_before_anything_runs(tmp_path, capfd):
    (tmp_path / "a.ipynb").mkdir()
    path = write_notebook(tmp_path / "a.md", "record = ''", "raise SystemExit('it ran')")
    for given in ([], ["--parameters", "record=5"]):
        assert execute.main([str(path), str(tmp_path / ("b.ipynb" if given else "a.ipynb")), *given]) == 1
        said = capfd.readouterr()
        assert "started" not in said.out and "Traceback" not in said.err


def test_an_error_is_said_once(tmp_path, capfd):
    path = write_notebook(tmp_path / "a.md", "n = 1", "raise ValueError('two\\nlines')")
    assert execute.main([str(path), str(tmp_path / "a.ipynb")]) == 1
    assert capfd.readouterr().err.count("ValueError: two\nlines") == 1


def test_only_long_loops_show_progress_and_do_so_in_lines(tmp_path, capfd, monkeypatch):
    loop = "import time\nfrom tqdm import tqdm\nfor i in tqdm(range({2}), desc='{0}'): time.sleep({1})"
    cells = loop.format("short", 0, 3), loop.format("long", 0.5, 5), "# no loop\nimport time\ntime.sleep(1.5)"
    path = write_notebook(tmp_path / "a.md", "n = 1", *cells)
    monkeypatch.setattr(heartbeat, "SECONDS", 1)
    for name in ("TQDM_DELAY", "TQDM_MININTERVAL"):
        monkeypatch.delenv(name, raising=False)
    execute.execute(path, tmp_path / "a.ipynb", {})
    said = capfd.readouterr()
    assert re.search(
        r"^a: in code cell 3 of 4: import time; long: +\d0%\|.*\| \d/5 .* \(\d s\)$", said.out, re.MULTILINE
    )
    assert re.search(r"^a: in code cell 4 of 4: # no loop \(\d s\)$", said.out, re.MULTILINE)
    assert "short" not in said.out and "\r" not in said.out and said.err == ""


@pytest.mark.parametrize(
    ("disk", "reason"),
    [
        case(
            "a full disk under the executed notebook",
            lambda folder: disks.full(folder, 2**18),
            "No space left|File too large",
        ),
        case(
            "a folder for executed notebooks that cannot be written",
            disks.read_only,
            "Read-only|Permission denied",
        ),
    ],
)
def test_a_disk_that_takes_no_more_is_said(tmp_path, capfd, disk, reason):
    path = write_notebook(tmp_path / "a.md", "n = 1", "print('x' * 2**20)")
    (tmp_path / "out").mkdir()
    with disk(tmp_path / "out"):
        assert execute.main([str(path), str(tmp_path / "out" / "a.ipynb")]) == 1
        assert not (tmp_path / "out" / "a.ipynb").exists()
    last = capfd.readouterr().err.rstrip().splitlines()[-1]
    assert re.match(
        rf"{path} could not be executed into .*/a.ipynb \(({reason}).*\)\. Check the free space", last
    )


@pytest.mark.bad_day("Ctrl-C in the middle of a notebook")
def test_an_interrupt_is_no_failure_and_leaves_no_kernel(tmp_path):
    wait = "import os, pathlib, time\npathlib.Path('pid').write_text(str(os.getpid()))\ntime.sleep(60)"
    write_notebook(tmp_path / "a.md", "n = 1", wait)
    command = [sys.executable, "-m", "attention_limits.execute", "a.md", "a.ipynb"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert said.rstrip().splitlines()[-1] == "a.md was interrupted; run it again to complete it."
    assert "Traceback" not in said and not (tmp_path / "a.ipynb").exists()
    kernel = int((tmp_path / "pid").read_text())
    assert not psutil.pid_exists(kernel) or psutil.Process(kernel).status() == psutil.STATUS_ZOMBIE


def test_the_plain_commands_of_the_readme_do_the_same(tmp_path):
    write_notebook(tmp_path / "a.md", "n = 1\nname = ''", "print(n + 1, name)")
    for command in (
        ["jupytext", "--to", "ipynb", "a.md", "-o", "a.ipynb"],
        ["papermill", "a.ipynb", "b.ipynb", "-p", "n", "41", "-p", "name", "x y", "-k", "python3"],
    ):
        subprocess.run([sys.executable, "-m", *command], cwd=tmp_path, check=True, capture_output=True)
    assert outputs(tmp_path / "b.ipynb")[-1] == "42 x y\n"


def test_what_a_notebook_says_on_stderr_is_seen_while_it_runs(tmp_path, capfd):
    path = write_notebook(tmp_path / "a.md", "n = 1", "import sys\nprint('half way', file=sys.stderr)")
    execute.execute(path, tmp_path / "a.ipynb", {})
    said = capfd.readouterr()
    assert "half way" in said.err
    assert "a: started, 2 code cells" in said.out
    assert "a: finished" in said.out


def test_a_long_cell_is_named_while_it_runs(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(heartbeat, "SECONDS", 0.5)
    path = write_notebook(tmp_path / "a.md", "n = 1", "# wait a while\nimport time\ntime.sleep(1.5)")
    execute.execute(path, tmp_path / "a.ipynb", {})
    assert "a: in code cell 2 of 2: # wait a while" in capfd.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        case("the path of a notebook that is not there", None),
        case("a notebook whose head is no YAML", "---\nkernelspec: [\nx: y\n---\n"),
    ],
)
def test_a_file_that_is_no_notebook(tmp_path, capfd, text):
    path = tmp_path / "a.md"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    assert execute.main([str(path), str(tmp_path / "a.ipynb")]) == 1
    assert f"{path}: cannot be read as a notebook" in capfd.readouterr().err


@pytest.mark.bad_day("a parameters cell that is not Python")
def test_a_parameter_cell_that_is_not_python(tmp_path):
    path = write_notebook(tmp_path / "a.md", "n = = 1")
    with pytest.raises(execute.ExecutionError, match=r"parameters` cannot be read.*n = = 1"):
        execute.declared(execute.read(path))


@pytest.mark.parametrize(
    "content",
    [
        case("a file of parameters that is not there", None),
        case("a file of parameters that is a list", "[1]"),
        case("a file of parameters that breaks off", "{"),
    ],
)
def test_a_parameter_file_that_is_none(tmp_path, content):
    path = tmp_path / "p.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(execute.ExecutionError, match="--parameters"):
        execute.parse_parameters([str(path)])


def test_parameters_are_json_where_they_can_be_and_text_else():
    items = ["a=1", "b=[1, 2]", "c=true", 'd="1"', "e=war and peace.txt", "f=", "a=2"]
    expected = {"a": 2, "b": [1, 2], "c": True, "d": "1", "e": "war and peace.txt", "f": ""}
    assert execute.parse_parameters(items) == expected
