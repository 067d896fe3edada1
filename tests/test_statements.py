"""Each formula that the library computes leads to its function, whose docstring names it; proofs are folded."""

import importlib
import inspect
import re
from pathlib import Path

import pytest
from attention_limits.measures import TOLERANCE, distance
from attention_limits.statements import statements

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "notebooks").glob("*.md"))}
STATED = [(chapter, part) for chapter, text in CHAPTERS.items() for part in statements(text)]
LABELS = {part.label for _, part in STATED}
COMPUTED = sorted({name for _, part in STATED for name in part.functions})

# What no function computes, and why.
NOT_COMPUTED = {
    "ass-2": "an assumption: the functions take its delta as a number",
    "lem-mcdiarmid": "a step of a proof",
    "cor-floor": "a remark on the bound of thm-2-upper, whose function is named there",
    "cor-2": "limits, read off prop-sandwich, whose function is named there",
    "prop-selection-error": "an identity; tests/test_intervention.py checks it on the running model",
    "eq-selection-error": "part of prop-selection-error",
}
KINDS = "Theorem|Lemma|Corollary|Proposition|Definition|Assumption"


def resolved(name: str):
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def test_every_statement_leads_to_what_computes_it():
    bare = {part.label for _, part in STATED if not part.functions}
    assert bare - NOT_COMPUTED.keys() == set(), (
        "write `Computed by ...` beneath, or give the reason in NOT_COMPUTED"
    )
    assert NOT_COMPUTED.keys() - bare == set(), "these are computed, or gone"
    assert len(STATED) > 35 and len(COMPUTED) > 30  # the walk finds them


@pytest.mark.parametrize("name", COMPUTED)
def test_a_function_that_is_named_exists_and_names_a_statement(name):
    function = resolved(name)
    assert inspect.isfunction(function) and not function.__name__.startswith("_")
    assert f"{function.__module__}.{function.__qualname__}" == name, "its API entry is where it is defined"
    assert re.search(rf"\b({KINDS})\s(\d|[a-z])|\bEq\. \d|[Ee]quation", inspect.getdoc(function))


def test_a_label_that_a_docstring_names_exists():
    library = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "lib").rglob("*.py"))
    named = set(re.findall(rf"\b(?:{KINDS})\s+((?:thm|lem|cor|prop|def|ass)-[\w-]+)", library))
    assert len(named) > 8 and named <= LABELS


PLANTED = """
```{prf:theorem} One
:label: thm-one

$$
a = b
$$ (eq-inside)
```

{.computed-by}
Computed by {py:func}`~some.module.one` and
{py:func}`some.module.two`.

```{prf:lemma} Two
:label: lem-two
```

Words. Computed by {py:func}`some.module.one`.

$$
c = d
$$ (eq-alone)

Computed by {py:func}`~some.module.three`.

$$
e = f
$$ (eq-bare)

The end.
"""


def test_the_walk_over_a_chapter_sees_what_it_should():
    found = {part.label: (part.kind, part.functions, part.inside) for part in statements(PLANTED)}
    both = ("some.module.one", "some.module.two")
    assert found == {
        "thm-one": ("theorem", both, ""),
        "eq-inside": ("equation", both, "thm-one"),
        "lem-two": ("lemma", (), ""),
        "eq-alone": ("equation", ("some.module.three",), ""),
        "eq-bare": ("equation", (), ""),
    }


def test_every_proof_is_folded_and_every_theorem_has_one():
    """Its proof stands before the next statement; what is printed and false has a counter-example instead."""
    fold = "{dropdown} Proof\n:class-container: al-proof\n"
    assert not [name for name, text in CHAPTERS.items() if "{prf:proof}" in text]
    without = set()
    for text in CHAPTERS.values():
        pieces = re.split(r"^`{3,}\{prf:(\w+)\}.*\n:label: (\S+)$", text, flags=re.MULTILINE)
        for kind, label, following in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
            if kind not in ("definition", "assumption") and fold not in following:
                without.add(label)
    assert without == {"cor-3-printed"}
    assert "**Counter-example.**" in CHAPTERS["gradients"]


@pytest.mark.parametrize(
    ("chapter", "tolerance"),
    [
        ("weights", TOLERANCE),
        ("algorithm-1", distance.TOLERANCE),
        ("algorithm-2", distance.TOLERANCE),
        ("algorithm-4", TOLERANCE),
        ("algorithm-5", TOLERANCE),
    ],
)
def test_a_chapter_says_the_tolerance_that_violations_are_counted_with(chapter, tolerance):
    words = " ".join(CHAPTERS[chapter].split())
    found = re.search(r"A violation .*?more than \$(?:(\d)\\cdot )?10\^\{(-\d+)\}\$", words)
    factor, power = found.groups()
    assert int(factor or 1) * 10.0 ** int(power) == pytest.approx(tolerance)
