"""A book of one's own under a label: its comparison with the reference, and the commands that make both."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path

import nbformat
import pytest
import yaml
from attention_limits import execute, pages, parameters, records
from attention_limits.rerun import compare, label, render
from attention_limits.scorecard import rules
from bad_days import case
from toy import project

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "tests" / "reference"
ODD = "{{x}} $y_1$ `z` <b>.txt"  # the name of a text
MARKUP = "A `secretword` <b>$z$</b> {{secretword}}.\n" * 50
COMPARISON = ROOT / "notebooks" / "rerun" / "comparison.md"
SOURCES = {
    kind: {
        "name": name,
        "requested": name,
        "revision": "1",
        "sha256": f"{index:064x}",
        "size": 10 + index,
        "licence": "MIT",
        "origin": "somewhere",
        "notice": "",
        "files": [],
    }
    for index, (kind, name) in enumerate([("model", "smollm2-135m"), ("text", "king-james")])
}


def write_run(folder: Path, text: str = "king-james", change=lambda name, record: record, names=None) -> Path:
    """A build folder with the committed records of a small run, changed as told, as if made with ``text``."""
    (folder / "records").mkdir(parents=True)
    sources = copy.deepcopy(SOURCES)
    sources["text"] |= {"name": text, "sha256": f"{sum(map(ord, text)):064x}"}
    for path in REFERENCE.glob("*.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        record["text"] = record["text"] and text
        record["sha256"] = {kind: record[kind] and source["sha256"] for kind, source in sources.items()}
        if record := change(path.stem, record):
            (folder / "records" / path.name).write_text(json.dumps(record), encoding="utf-8")
    (folder / "sources.json").write_text(json.dumps(sources), encoding="utf-8")
    return folder


def shift(id: str, by: float, **fields):
    """A change of every result ``id`` in every record: its value and interval by ``by``, its record by ``fields``."""

    def change(name, record):
        for result in record["results"]:
            if result["id"] == id:
                for part in ("value", "low", "high"):
                    result[part] = None if result[part] is None else result[part] + by
        record["parameters"] |= fields.get(name.replace("-", "_"), {})
        return record

    return change


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> compare.Run:
    return compare.load_run(write_run(tmp_path_factory.mktemp("reference") / "_build"))


def compared(tmp_path, reference, **options):
    """Another run, and its comparison: run, judged claims, pairs of numbers."""
    own = compare.load_run(write_run(tmp_path / "own", **options))
    judged = compare.judge(own, reference)
    return own, judged, compare.pairs(own, reference, judged)


# --- labels


@pytest.mark.parametrize("good", ["mine", "A-1_b.c", "2024-letters", "x" * 64])
def test_labels(good):
    assert label.checked(good) == good


def test_no_label_is_a_folder_that_the_makefile_makes_anew_or_removes():
    made = set(re.findall(r"_build/(\w+)", (ROOT / "Makefile").read_text(encoding="utf-8")))
    assert made and made <= label.TAKEN


@pytest.mark.parametrize(
    ("value", "words"),
    [
        case("an empty label", "", "NAME is ''; a label consists of letters a to z, digits and . _ -"),
        case("a label that is a path", "a/b", "NAME is 'a/b'; a label consists"),
        case("a label that leads out of the build folder", "..", "NAME is '..'"),
        case("a label that is an option", "-n", "NAME is '-n'"),
        case("a label with a space", "my run", "NAME is 'my run'"),
        case("a label with a line end", "run\n", r"NAME is 'run\n'"),
        case("a label in other letters", "мой", "NAME is 'мой'"),
        case("a label of 65 letters", "x" * 65, "64 at most"),
        case("a label that the build folder uses itself", "Records", "which the build folder uses itself"),
        case("a label that the Makefile has a folder for", "mutants", "which the build folder uses itself"),
        case("a label that Snakemake read as a number", 7, "was read as 7 and not as text"),
    ],
)
def test_what_is_no_label(value, words):
    with pytest.raises(label.LabelError) as refusal:
        label.checked(value)
    assert words in str(refusal.value)


# --- the comparison


def test_equal_records_differ_in_nothing(tmp_path, reference):
    own, judged, pairs = compared(tmp_path, reference)
    assert compare.obstacles(own, reference) == {}
    assert [both.claim.id for both in judged] == [f"C{i}" for i in range(1, 15)]
    assert {both.changed for both in judged} == {False}
    assert len(pairs) > 200 and {d for pair in pairs for d in pair.differences} == {0}
    assert not any(pair.apart for pair in pairs)
    assert "0 changed the verdict." in render.counts(judged)
    assert "byte for byte" in render.setting(own, reference, "mine")
    assert "same parameters in both books" in render.obstacles({})


def test_a_changed_verdict_and_a_moved_number_are_marked(tmp_path, reference):
    """The bound of Theorem 1 is broken in 7 rows of the other text."""
    own, judged, pairs = compared(tmp_path, reference, text="a_b.txt", change=shift("bound.violations", 7))
    changed = [both for both in judged if both.changed]
    assert {both.claim.id for both in changed} >= {"C3"}
    (third,) = (both for both in changed if both.claim.id == "C3")
    assert (third.reference.verdict, third.own.verdict) == (rules.HOLDS, rules.NOT)
    line = next(line for line in render.verdicts(judged).splitlines() if "[C3]" in line)
    assert line.endswith("| **holds** (6 of 6) | **not reproduced** (0 of 6) | **changed verdict** |")
    assert "C3" in render.counts(judged)
    moved = [pair for pair in pairs if pair.claim.id == "C3" and pair.use.id == "bound.violations"]
    assert moved and {d for pair in moved for d in pair.differences} == {7}
    assert {render.difference(pair) for pair in moved} == {"+7 **rule turned**"}
    said = render.setting(own, reference, "mine")
    assert (
        "The model is the same in both: where the parameters are too, a difference comes from the text."
        in said
    )
    assert r"a\_b\.txt" in said and "a_b.txt" not in said  # literal in Markdown


def test_intervals_that_lie_apart_are_marked(tmp_path, reference):
    """Shifted by 10, no interval of the exponents overlaps what it was; shifted by nothing, all others do."""
    _, _, pairs = compared(tmp_path, reference, text="other", change=shift("fit.exponent", 10))
    moved = [pair for pair in pairs if pair.use.id == "fit.exponent"]
    assert len(moved) == 6 and moved == [pair for pair in pairs if pair.apart]
    assert {render.difference(pair) for pair in moved} == {"+10.0 (intervals apart)"}
    assert [p for p in pairs if p not in moved and p.results[0][0]["low"] is not None]
    line = next(line for line in render.numbers(pairs).splitlines() if "intervals apart" in line)
    assert line.startswith("| C12: ") and "all 6 readings: +10.0" in line


def test_the_figure_shows_the_judged_numbers(tmp_path, reference):
    _, _, pairs = compared(tmp_path, reference, text="other", change=shift("exponent.smallest", 10))
    points = render.points(pairs)
    judged = [pair for pair in pairs if pair.use.rule not in ("", "unbroken")]
    # What two claims judge alike, such as the critical N of C6 and C14, is drawn once.
    which = [(pair.use.record, own["id"], str(own["reading"])) for pair in judged for _, own in pair.results]
    assert 50 < len(set(which)) <= len(points) < len(which)
    assert set((points.own - points.reference).round(6)) == {0, 10}
    assert (points.own_low <= points.own).all() and (points.reference <= points.reference_high).all()
    turned = points[points.rule == "turned"]  # one met its rule before
    assert (turned.own - turned.reference).round(6).tolist() == [10]


def test_results_of_other_parameters_are_listed_and_not_compared(tmp_path, reference):
    change = shift("bound.violations", 7, algorithm_1={"windows": 5}, weights={"new": "yes"})
    own, judged, pairs = compared(tmp_path, reference, text="other", change=change)
    found = compare.obstacles(own, reference)
    assert found == {
        "algorithm-1": "windows = 5 here, 2 in the reference",
        "weights": 'new = "yes" here, absent in the reference',
    }
    by_id = {both.claim.id: both for both in judged}
    uses = {both.claim.id: {use.record for use in both.claim.uses} for both in judged}
    assert {id for id in uses if uses[id] & found.keys()} == {b.claim.id for b in judged if b.changed is None}
    assert by_id["C3"].obstacle == "algorithm-1" and by_id["C3"].changed is None
    assert "not comparable (algorithm\\-1)" in render.verdicts(judged)
    assert not [pair for pair in pairs if pair.use.record in found]
    assert [pair for pair in pairs if pair.claim.id == "C3"]  # its numbers of other chapters do compare
    assert "windows \\= 5 here" in render.obstacles(found)


@pytest.mark.bad_day("a reference of which records are missing, damaged or of another text")
def test_a_reference_with_gaps_is_compared_as_far_as_it_goes(tmp_path):
    def change(name, record):
        return None if name == "weights" else record

    folder = write_run(tmp_path / "_build", change=change)
    (folder / "records" / "algorithm-2.json").write_text("{", encoding="utf-8")
    stale = records.load(folder / "records" / "algorithm-3.json") | {"text": "older.txt"}
    (folder / "records" / "algorithm-3.json").write_text(json.dumps(stale), encoding="utf-8")
    edited = records.load(folder / "records" / "algorithm-5.json") | {
        "sha256": {"model": "0" * 64, "text": "f" * 64}
    }
    (folder / "records" / "algorithm-5.json").write_text(json.dumps(edited), encoding="utf-8")
    reference = compare.load_run(folder)
    own, judged, _ = compared(tmp_path, reference, text="other")
    found = compare.obstacles(own, reference)
    assert set(found) == {"weights", "algorithm-2", "algorithm-3", "algorithm-5"}
    assert found["weights"] == "there is no record of it in the reference"
    assert found["algorithm-2"].startswith("its record in the reference is damaged: ")
    assert found["algorithm-3"].endswith("names: text 'older.txt' instead of 'king-james'")
    assert found["algorithm-5"].endswith("text 'king-james' of other bytes")
    assert next(both for both in judged if both.claim.id == "C2").reference is None
    assert "no verdict" in render.verdicts(judged)


def test_without_a_reference_the_page_says_how_to_make_one(tmp_path):
    assert compare.load_run(tmp_path) is None
    assert compare.load_run(tmp_path / "nowhere") is None
    assert "no reference yet" in render.NO_REFERENCE and "`make book`" in render.NO_REFERENCE


@pytest.mark.bad_day("a reference whose sources.json is damaged")
def test_a_damaged_sources_file_is_named(tmp_path):
    folder = write_run(tmp_path / "_build")
    (folder / "sources.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match=r"sources\.json: not a sources file .* delete it"):
        compare.load_run(folder)


def test_the_provenance_lists_every_file_of_a_text_as_it_is_called():
    files = [["a_b $x$.txt", 3, "0" * 64], ["`c`.md", 4000, "1" * 64]]
    sources = {kind: SOURCES[kind] | {"files": files if kind == "text" else []} for kind in SOURCES}
    said = render.origin(compare.Run({}, sources, {})).split("these files, in this order:")[1]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in said.strip().splitlines()[2:]]
    plain = [[re.sub(r"<wbr>|\\(?=\W|_)", "", cell).strip() for cell in row] for row in rows]
    assert plain == [["1", "a_b $x$.txt", "3", "0" * 64], ["2", "`c`.md", "4000", "1" * 64]]
    assert r"a\_b \$x\$\.txt" in said
    alone = {**sources, "text": SOURCES["text"] | {"files": [["king-james", 11, "0" * 64]]}}
    assert "these files" not in render.origin(compare.Run({}, alone, {}))  # its name says it all


# --- the commands


def readme_commands(heading: str) -> list[str]:
    """The lines of the shell blocks in a section of the README, continued lines joined."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {heading}\n(.*?)^## ", text, re.DOTALL | re.MULTILINE)[1]
    blocks = "\n".join(re.findall(r"^```sh\n(.*?)^```", section, re.DOTALL | re.MULTILINE))
    return [line for line in blocks.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]


def test_a_list_of_files_survives_snakemakes_own_reader():
    from snakemake.cli import parse_config

    assert parse_config(["text=my texts/a b.txt:c.txt"]) == {"text": "my texts/a b.txt:c.txt"}
    assert parse_config(["text=-"]) == {"text": [""]}  # which the Snakefile turns back


def test_the_readme_says_how_many_tokens_the_chapters_take():
    chapters = [execute.declared(execute.read(path)) for path in (ROOT / "notebooks").glob("*.md")]
    few = {"windows": 1, "long_lengths": []}
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"{max(map(parameters.tokens, chapters)):,} tokens from the text's beginning" in text
    assert f"{max(parameters.tokens(given | few) for given in chapters):,} tokens only" in text
    assert " ".join(f"{name}={value}" for name, value in few.items()) in text


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> Path:
    """The toy project with the Makefile, the comparison page, an installed environment and a text full of markup."""
    folder = project(tmp_path_factory.mktemp("rerun") / "a toy")
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, folder)
    (folder / "notebooks" / "rerun").mkdir()
    shutil.copy(COMPARISON, folder / "notebooks" / "rerun")
    (folder / "stamp").write_text(f"{folder}\n")
    return folder


@pytest.fixture(scope="module")
def made(toy) -> Path:
    """Build folder of `make rerun` in the toy project: make, Snakemake, chapters, comparison and pages run for real."""
    write_run(toy / "_build", text=ODD)
    done = make(toy, "rerun", "TEXT=-", "MODEL=a model", "NAME=mine", "CORES=2", given=MARKUP)
    assert done.returncode == 0, done.stdout
    own = toy / "_build" / "mine"
    assert done.stdout.rstrip().splitlines()[-2:] == [
        f"The book's first page: {own}/html/index.html",
        f"The comparison:        {own}/html/notebooks/comparison.html",
    ]
    return own


def test_a_rerun_is_a_book_of_its_own(toy, made):
    assert (made / "html" / "notebooks" / "seed.html").is_file()
    contents = yaml.safe_load((made / "source" / "_toc.yml").read_text(encoding="utf-8"))
    assert "notebooks/comparison" in pages.files(contents)
    used = json.loads((made / "sources.json").read_text(encoding="utf-8"))["text"]
    assert (used["name"], used["origin"], used["requested"]) == ("standard input", "standard input", "-")
    assert (used["sha256"], used["size"]) == (
        hashlib.sha256(MARKUP.encode()).hexdigest(),
        len(MARKUP.encode()),
    )
    own = {path.name for path in made.iterdir() if not path.name.startswith(".")}
    assert own - {"standard input"} <= label.TAKEN  # no label can be the name of what the engine makes
    assert {path.name for path in (toy / "_build").iterdir()} == {"records", "sources.json", "mine", "home"}


def test_the_comparison_names_both_and_no_page_holds_the_text_or_a_place(toy, made):
    page = (made / "html" / "notebooks" / "comparison.html").read_text(encoding="utf-8")
    text = unescape(re.sub(r"<[^>]+>", "", page.replace("<wbr>", "")))
    for out, name in ((toy / "_build", ODD), (made, "standard input")):
        sources = json.loads((out / "sources.json").read_text(encoding="utf-8"))
        assert name in text and sources["text"]["sha256"] in text
    assert "there is no record of it here" in text  # the toy's chapters are not those of the reference
    for path in (made / "html").rglob("*.html"):
        content = path.read_text(encoding="utf-8")
        assert str(toy) not in content and "secretword" not in content


def test_the_commands_of_the_readme_do_what_make_rerun_does(toy, made):
    """The plain Snakemake command finds all done; papermill by hand gives the same record, and a comparison."""
    snakemake, *by_hand = commands = readme_commands("Your own text")[-6:]
    assert [line.split()[0].split("/")[-1] for line in commands] == [
        "python", "python", "jupytext", "papermill", "jupytext", "papermill",
    ]  # fmt: skip
    done = shell(toy, snakemake.replace("my-text.txt", "-"), given=MARKUP)
    assert done.returncode == 0 and "started" not in done.stdout, done.stdout
    done = shell(toy, "\n".join(by_hand).replace("mine", "by-hand").replace("my-text.txt", "'a text.txt'"))
    assert done.returncode == 0, done.stdout
    records = [(made.parent / out / "records" / "seed.json").read_bytes() for out in ("mine", "by-hand")]
    assert records[0] == records[1]
    (path,) = toy.glob("*by-hand*comparison*.ipynb")
    outputs = [o for cell in nbformat.read(path, 4).cells for o in cell.get("outputs", [])]
    said = "".join(o.get("data", {}).get("text/markdown", "") for o in outputs)
    assert "a difference comes from" in said or "both differ" in said


@pytest.mark.parametrize(
    ("given", "words"),
    [
        case(
            "a rerun without a label",
            ["TEXT=a text.txt"],
            "Give the run a label of its own: make rerun TEXT=",
        ),
        case("a rerun of nothing new", ["NAME=x"], "Name a text or a model: make rerun TEXT="),
        case(
            "a misspelt variable of make", ["NAME=x", "MODLE=a model"], "MODLE: no variable of this Makefile"
        ),
        case(
            "a rerun with a path as label",
            ["NAME=../x", "TEXT=a text.txt"],
            "NAME is '../x'; a label consists of",
        ),
        case("a rerun of an empty standard input", ["NAME=x", "TEXT=-"], "Standard input is empty"),
        case(
            "a rerun against a folder that is not there",
            ["NAME=x", "TEXT=a text.txt", "MODEL=a model", "ARGS=--config reference=nowhere"],
            "--config reference=nowhere: there is no such folder",
        ),
    ],
)
def test_make_rerun_refuses_with_a_sentence(toy, given, words):
    done = make(toy, "rerun", *given, environment={"NAME": "a machine's name"})
    assert done.returncode != 0
    assert words in "\n".join(done.stdout.rstrip().splitlines()[-3:])
    assert "Traceback" not in done.stdout and "started" not in done.stdout


def make(folder: Path, *arguments: str, environment=None, given: str = "") -> subprocess.CompletedProcess:
    """Run `make` in a project that uses this one's packages; what it says, in order."""
    return run(
        folder, ["make", "STAMP=stamp", f"PY={shlex.quote(sys.executable)}", *arguments], environment, given
    )


def shell(folder: Path, commands: str, given: str = "") -> subprocess.CompletedProcess:
    """Run commands of the README with the toy's chapter and model in place of the real ones."""
    toys = {
        ".venv/bin/": f"{shlex.quote(str(Path(sys.executable).parent))}/",
        "algorithm-1": "seed",
        "gpt2": "'a model'",
    }
    for real, ours in toys.items():
        commands = commands.replace(real, ours)
    return run(folder, ["sh", "-e", "-c", commands], {}, given)


def unasked() -> dict[str, str]:
    """The environment without what the `make` that may run these tests was given, which it hands on to all below it."""
    given = {
        "MODEL",
        "TEXT",
        "DEVICE",
        "CORES",
        "PROFILE",
        "OUT",
        "ARGS",
        "TABLE",
        "NAME",
        "MAKEFLAGS",
        "MAKELEVEL",
    }
    given |= {f"ATTENTION_LIMITS_{name}" for name in ("MODEL", "TEXT", "DEVICE", "OUT", "NAME", "SWEEP")}
    return {name: value for name, value in os.environ.items() if name not in given}


def run(folder: Path, command: list[str], environment, given: str) -> subprocess.CompletedProcess:
    own = {"PYTHONPATH": str(folder / "lib"), **(environment or {})}
    return subprocess.run(
        command,
        cwd=folder,
        env=unasked() | own,
        input=given,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
    )
