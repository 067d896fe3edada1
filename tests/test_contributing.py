"""What CONTRIBUTING.md says: an experiment and a normaliser are each added in one place, and everything follows.

A theorem is added in test_pages.py, a model and a text in sources/test_sources_added.py.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import small_book
import test_normalisers
import test_normalisers_compare
import toy
from attention_limits import kernels
from attention_limits import normalisers as nm
from attention_limits.kernels import batched
from attention_limits.normalisers import rules
from test_measures import seen  # noqa: F401  (a fixture)

ROOT = Path(__file__).resolve().parents[1]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


# --- an experiment --------------------------------------------------------------------------------------------------
def test_a_notebook_alone_is_an_experiment(tmp_path):
    """One file: the engine runs it, hands it what it declares, and the scorecard's reader waits for its record."""
    folder = toy.project(tmp_path / "project")
    toy.chapter(folder, "added", 'model = "auto"\nlength = 256  # tokens, from 2', "length")
    command = [sys.executable, "-m", "snakemake", "--dry-run", "--cores", "1", "--quiet", "host"]
    command += ["--printshellcmds"]
    command += ["--config", "model=a model", "text=a text.txt", "length=64"]
    own = os.environ | {"PYTHONPATH": str(folder / "lib")}
    done = subprocess.run(command, cwd=folder, env=own, text=True, capture_output=True, timeout=120)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    (run,) = (line for line in said.splitlines() if "attention_limits.execute notebooks/added.md" in line)
    for told, expected in (
        ("_build/executed/added.ipynb", 1),
        ("length=64", 1),
        ("model=", 1),
        ("widths", 0),
    ):
        assert (told in run) == expected, run
    page = said[said.index("rule page:") :]
    assert "_build/records/added.json" in page.partition("\n\n")[0]


def test_the_guides_own_notebook_is_one(tmp_path):
    """The example of CONTRIBUTING.md, as it stands there, is a notebook with the parameters that it shows."""
    from attention_limits import execute

    (example,) = re.findall(r"^`{5}markdown\n(---\n.*?)^`{5}$", GUIDE, re.MULTILINE | re.DOTALL)
    path = tmp_path / "example.md"
    path.write_text(example, encoding="utf-8")
    assert execute.is_notebook(path)
    assert execute.declared(execute.read(path)) == {"model": "auto", "length": 256, "record": ""}


def test_a_new_chapter_has_a_reference_to_be_written():
    """Every notebook that keeps a record is run by the tests at small settings and compared, and no list names it."""
    named = [path.stem for path in (ROOT / "notebooks").glob("*.md")]
    # They read records and keep none.
    assert set(named) - set(small_book.chapters()) == {"scorecard", "sweep"}


# --- a normaliser ---------------------------------------------------------------------------------------------------
def warm(rule, logits, hidden, temperature):
    """Softmax at twice the temperature."""
    return (logits / (2 * temperature)).masked_fill(hidden, -float("inf")).softmax(1)


@pytest.fixture
def added(monkeypatch):
    """The rule that one entry adds: no formula for its Jacobian."""
    kind = rules.Kind(
        warm, lambda rule, L, R: 1 / (1 + (L - 1) * 2.718281828459045 ** (-R / 2)), lambda rule, R: 0.0
    )
    monkeypatch.setitem(rules.KINDS, "warm", kind)
    definition = lambda rule, logits, z: test_normalisers.softmax(rule, logits, [x / 2 for x in z])  # noqa: E731
    monkeypatch.setitem(test_normalisers.DEFINITIONS, "warm", definition)
    return nm.normalisers([0.43])[-1]


def test_an_entry_alone_is_a_normaliser(added, seen, monkeypatch):  # noqa: F811
    """It is among the rules of the chapter, and the comparison measures it as it measures the others."""
    monkeypatch.setattr(kernels, "_path", lambda device: batched)  # nothing to compile
    assert added.name == "warm" and not (added.positive or added.sparse or added.exponential)
    both = [nm.normalisers([0.43])[0], added]
    weights, geometry, norms = nm.compare(
        seen, both, lengths=[10, 40], top_ns=[1, 3], temperatures=[0.5, 1.0], spaces=["value"], stride=5
    )
    for table in (weights, geometry, norms):
        assert set(table.normaliser) == {"softmax", "warm"} and not table.isna().any().any()
    # Softmax at T = 1 is this rule at T = 0.5, but for the norm's unit.
    softmax, warmed = (norms[norms.normaliser == name] for name in ("softmax", "warm"))
    one, half = softmax[softmax.temperature == 1.0].spectral, warmed[warmed.temperature == 0.5].spectral
    assert one.to_numpy() == pytest.approx(half.to_numpy(), rel=1e-9)


def test_the_tests_of_the_others_take_it(added):
    """By the same parametrised tests: autograd, dense norms, the largest weight and its limit, hidden columns."""
    test_normalisers.test_jacobians_equal_autograd(added, 0.0)
    test_normalisers.test_norms_of_long_rows_in_one_block_equal_dense_ones(added)
    test_normalisers.test_hidden_columns_and_other_rows_do_not_show(added)
    for length, spread in [(2, 0.0), (10, 1.7), (200, 5.0)]:
        test_normalisers.test_largest_weight_is_attained_and_never_passed(added, length, spread)
    test_normalisers.test_largest_weight_tends_to_its_limit(added, 4.0)
    got = added.weights(*test_normalisers.row([1.0, -2.0, 0.5]), 0.5)[0].tolist()
    assert got == pytest.approx(test_normalisers.plain(added, [1.0, -2.0, 0.5], 0.5))


def test_a_wrong_entry_is_caught(monkeypatch):
    """An entry whose largest weight is too small, or whose Jacobian is not that of its weights, fails the tests."""
    wrong = rules.Kind(warm, lambda rule, L, R: 1 / L, lambda rule, R: 0.0, lambda w: w)
    monkeypatch.setitem(rules.KINDS, "wrong", wrong)
    rule = nm.normalisers([0.43])[-1]
    with pytest.raises(AssertionError):
        test_normalisers.test_largest_weight_is_attained_and_never_passed(rule, 10, 1.7)
    with pytest.raises(AssertionError):
        test_normalisers.test_jacobians_equal_autograd(rule, 0.0)


# --- the guide itself -----------------------------------------------------------------------------------------------
def test_every_file_and_name_that_the_guide_names_exists():
    for path in re.findall(r"`((?:lib|tests|notebooks|book|\.ci|\.github)/[\w./-]+)`", GUIDE):
        assert (ROOT / path).exists() or path == "notebooks/NAME.md", path
    files = [path for folder in ("lib", "tests") for path in (ROOT / folder).rglob("*.py")]
    searched = [path.read_text(encoding="utf-8") for path in files]
    for name in set(re.findall(r"`([A-Z_]{4,})`", GUIDE)):
        assert any(name in text for text in searched), name
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:`|^)make (\w+)", GUIDE, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    assert test_normalisers.DEFINITIONS.keys() == rules.KINDS.keys()
    assert test_normalisers_compare.plain is test_normalisers.plain
