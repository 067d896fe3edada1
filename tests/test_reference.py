"""The chapters, run again at the small setting of tests/small_book.py, give the committed records.

Tolerances. What is counted (``n``, ids, readings, violations) must be the same. A number may differ by 2e-4 of itself
plus 2e-4 of its interval's half width, and an end of an interval, which two windows hardly settle, by 2e-3 of that: ten
times what the largest difference was when the chapters ran with every vector instruction of the processor switched off,
which reorders all float32 sums of the forward pass, or the largest that the same code gave on another processor.
Numbers that are rounding errors themselves need only stay as small, and those that can jump are named with what they
may jump by.
"""

import json

import pytest
import small_book
from attention_limits import records

RELATIVE, END = 2e-4, 2e-3
ROUNDING = {"extremes.attained_error": 1e-12, "norms.largest_error": 1e-12}  # errors of exact formulas
# Chapter 4 counts tokens inside a radius, where a near tie is a whole token, and heads on the wrong side of a bound; at
# T = 0.01 chapter 5 multiplies float32 logits by a hundred before it fits powers.
# The normalisers chapter counts rows, and some of its exponents are near zero. The selection chapter takes small
# differences of losses.
JUMPS = {"algorithm-4": 5e-3, "algorithm-5": 6e-3, "normalisers": 1e-3, "selection": 3e-5}
ONE_HEAD = {"critical.heads": 1 / 270}  # a share of heads: one whose d and E_J nearly meet
HEADS = {"bound.sharp_broken": 3, "bound.upper_broken": 3}


def key(result):
    return json.dumps([result["id"], result["reading"]], sort_keys=True)


def differences(old, new, jump=0.0):
    """One sentence per result of two records that differs beyond the tolerances; numbers may jump by ``jump``."""
    found = []
    old, new = ({key(r): r for r in content["results"]} for content in (old, new))
    if old.keys() != new.keys():
        found.append(f"only in one of them: {sorted(old.keys() ^ new.keys())}")
    for name in old.keys() & new.keys():
        a, b = old[name], new[name]
        if any(a[part] != b[part] for part in ("n", "unit", "meaning")):
            found.append(f"{name}: {a} is now {b}")
        half = (a["high"] - a["low"]) / 2 if a["low"] is not None and a["high"] is not None else 0
        for part in ("value", "low", "high"):
            if (a[part] is None) != (b[part] is None) or (
                a[part] is not None
                and not near(a["id"], a[part], b[part], half * (RELATIVE if part == "value" else END), jump)
            ):
                found.append(f"{name}: {part} {a[part]} is now {b[part]}")
    return found


def near(id, a, b, slack, jump):
    if id in ROUNDING:
        return abs(b) <= ROUNDING[id]
    if isinstance(a, int) and isinstance(b, int):
        return abs(a - b) <= HEADS.get(id, 0)
    return abs(a - b) <= RELATIVE * abs(a) + slack + max(jump, ONE_HEAD.get(id, 0.0)) + 1e-9


@pytest.mark.parametrize("name", small_book.chapters())
def test_a_rerun_gives_the_reference(book, name):
    reference = records.load(small_book.REFERENCE / f"{name}.json")
    new = records.load(book / "records" / f"{name}.json")
    assert {k: new[k] for k in ("notebook", "parameters", "model", "text")} == {
        k: reference[k] for k in ("notebook", "parameters", "model", "text")
    }
    assert differences(reference, new, JUMPS.get(name, 0.0)) == []


@pytest.mark.parametrize("name", ["theorem-1", "algorithm-1"])
def test_the_same_seed_gives_the_same_bytes(book, tmp_path, name):
    """A chapter run alone, by the command line, against the engine's."""
    assert small_book.run(name, tmp_path).read_bytes() == (book / "records" / f"{name}.json").read_bytes()


def test_every_chapter_has_a_reference():
    assert sorted(path.stem for path in small_book.REFERENCE.glob("*.json")) == sorted(small_book.chapters())


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({}, False),
        ({"value": 2.0001}, False),
        ({"value": 2.001}, True),
        ({"high": 3.002}, False),
        ({"high": 3.004}, True),
        ({"low": None}, True),
        ({"n": 4}, True),
        ({"meaning": "other"}, True),
        ({"reading": {"space": "value"}}, True),
    ],
)
def test_the_comparison_sees_what_it_should(change, seen):
    result = {
        "id": "a",
        "value": 2.0,
        "low": 1.0,
        "high": 3.0,
        "n": 3,
        "unit": "",
        "meaning": "m",
        "reading": {},
    }
    assert bool(differences({"results": [result]}, {"results": [result | change]})) == seen


def test_counts_are_compared_exactly():
    result = {
        "id": "a",
        "value": 0,
        "low": None,
        "high": None,
        "n": 3,
        "unit": "",
        "meaning": "m",
        "reading": {},
    }
    assert differences({"results": [result]}, {"results": [result | {"value": 1}]})
