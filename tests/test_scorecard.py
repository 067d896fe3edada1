"""The scorecard's rules on both sides of each threshold, its verdicts on made-up records, and its page."""

import copy
import json
import re
from pathlib import Path

import numpy as np
import pytest
from attention_limits import records, scorecard, statistics
from attention_limits.scorecard import picks, render, runtimes
from attention_limits.scorecard.rules import CORRECTED, HOLDS, NOT, SOME, UNMEASURED

ROOT = Path(__file__).resolve().parents[1]
CLAIMS = {claim.id: claim for claim in scorecard.CLAIMS}
# For each rule: numbers that meet it, numbers that do not. Written by hand, not read from the rules.
SIDES = {
    "unbroken": ([0], [1, -1, 17]),
    "falls as 1/L": ([-0.9, -1, -2.5], [-0.899, -0.5, 0.1]),
    "straight line": ([0.995, 1], [0.9949, 0]),
    "plateau": ([0.9, 1, 1.1], [0.899, 1.101]),
    "collapse": ([0, 0.1], [0.101, 1]),
    "found": ([1], [0.99, 0]),
    "about 0.06 L": ([0.03, 0.06, 0.12], [0.029, 0.121, 0.9]),
    "below linear": ([0.99, 0.5, -1], [0.991, 1, 1.2]),
    "falls": ([0.999, 0.5, 0], [0.9991, 1, 1.2]),
    "0.70 to 0.85": ([0.695, 0.78, 0.855], [0.694, 0.856]),
    "99 %": ([0.985, 1], [0.9849, 0.9]),
    "1/T": ([-0.9, -1, -1.1], [-0.89, -1.11, 0]),
    "two orders": ([1.5, 2, 4], [1.49, 0]),
    "one order": ([1, 2], [0.99, -1]),
    "relaxes one": ([1, 2, 3], [0]),
}


@pytest.mark.parametrize("key", SIDES)
def test_each_rule_on_both_sides(key):
    rule, (good, bad) = scorecard.RULES[key], SIDES[key]
    assert [rule.met(value) for value in good] == [True] * len(good)
    assert [rule.met(value) for value in bad] == [False] * len(bad)
    assert not rule.met(float("inf")) or key in ("two orders", "one order")
    with pytest.raises(ValueError, match="NaN"):
        rule.met(float("nan"))


def test_every_rule_is_tested_used_and_argued():
    used = {use.rule for claim in scorecard.CLAIMS for use in claim.uses if use.rule}
    assert set(scorecard.RULES) == set(SIDES) == used
    assert all(len(rule.why) > 20 and rule.why.endswith(".") for rule in scorecard.RULES.values())


def test_the_straight_line_rule_means_the_powers_that_it_says():
    lengths = np.array([32, 64, 128, 256, 512, 1024])
    rule = scorecard.RULES["straight line"]
    passes = {
        p: rule.met(statistics.r_squared_line(lengths, lengths**p)[1]) for p in (0.8, 0.82, 1.0, 1.21, 1.23)
    }
    assert passes == {0.8: False, 0.82: True, 1.0: True, 1.21: True, 1.23: False}


def test_a_close_call_is_an_interval_across_a_threshold():
    rule = scorecard.RULES["0.70 to 0.85"]
    assert rule.close(0.84, 0.80, 0.86) and rule.close(0.86, 0.85, 0.9)
    assert rule.close(0.9, 0.6, 1.0) and rule.close(0.6, 0.5, 0.95)  # from one side of the range to the other
    assert (
        not rule.close(0.8, 0.75, 0.85)
        and not rule.close(0.9, 0.87, 0.93)
        and not rule.close(0.8, None, None)
    )


@pytest.mark.parametrize(
    ("readings", "corrected", "word"),
    [
        ([[True], [True, True]], None, HOLDS),
        ([[True], [True, False]], None, SOME),
        ([[True, False], [False, True]], None, NOT),
        ([[False]], [True, True], CORRECTED),
        ([[True], [False]], [True], CORRECTED),
        ([[False]], [True, False], NOT),
        ([[True]], [True], HOLDS),
        ([], None, UNMEASURED),
        ([], [True], UNMEASURED),
    ],
)
def test_verdicts(readings, corrected, word):
    assert scorecard.verdict(readings, corrected) == word


@pytest.mark.parametrize(("readings", "corrected"), [([[]], None), ([[True], []], None), ([[True]], [])])
def test_a_verdict_needs_numbers(readings, corrected):
    with pytest.raises(ValueError, match="without numbers"):
        scorecard.verdict(readings, corrected)


# --- made-up records: every claim supported, then one number after the other moved across its threshold ------------
SPACE = [{"space": "hidden", "support": "causal"}, {"space": "value", "support": "causal"}]
LEVEL = [space | {"level": level} for space in SPACE for level in (0.01, 0.05)]
STEP = [{"logits": "model", "epsilon": epsilon} for epsilon in (0.001, 0.1)]
TOP_N = [space | {"top_n": n} for space in SPACE for n in (1, 4, 16, 32)]
RULE = [{"normaliser": name, "selection": s, "top_n": 16, "temperature": 0.1}
        for name in ("sparsemax", "SSMax") for s in ("top N", "own support")]  # fmt: skip
GOOD = {  # record, id: readings, then the value or what gives it for a reading
    ("vanishing", "lemma-1.violations"): ([{}], 0),
    ("vanishing", "extremes.violations"): ([{}], 0),
    ("weights", "bound.violations"): ([{}], 0),
    ("weights", "exponent.smallest"): ([{}], -1.2),
    ("weights", "exponent.median"): ([{}], -1.0),
    ("weights", "exponent.largest"): ([{}], -0.95),
    ("theorem-1", "fixed-set.violations"): ([{}], 0),
    ("algorithm-1", "bound.violations"): (SPACE, 0),
    ("algorithm-2", "bound.violations"): (SPACE, 0),
    ("algorithm-1", "growth.r2"): (SPACE, 0.999),
    ("algorithm-2", "plateau.d_ratio"): ([s | {"from_n": 20, "to_n": 100} for s in SPACE], 1.05),
    ("algorithm-2", "collapse.d_ratio"): ([s | {"from_n": 20, "to_n": 973} for s in SPACE], 0.05),
    ("algorithm-3", "combined.lengths"): (LEVEL, 6),
    ("algorithm-3", "combined.share"): ([r | {"length": n} for r in LEVEL for n in (32, 1024)], 0.06),
    ("algorithm-3", "combined.exponent"): (LEVEL, 0.7),
    ("theorem-2", "fixed_r.violations"): ([{}], 0),
    ("theorem-2", "data_r.sure_violations"): ([{}], 0),
    ("theorem-2", "data_r.broken.lower.markov"): ([{}], 0),
    ("theorem-2", "data_r.broken.upper.mcdiarmid"): ([{}], 0),
    ("algorithm-4", "bound.violations"): (SPACE, 0),
    ("algorithm-4", "bound.sharp_broken"): (SPACE, 0),
    ("algorithm-4", "bound.upper_broken"): (SPACE, 0),
    ("algorithm-4", "ratio.median"): (TOP_N, lambda reading: 0.98 if reading["top_n"] < 16 else 0.8),
    ("algorithm-4", "coverage.union"): ([s | {"heads": 3} for s in SPACE], 0.99),
    ("algorithm-4", "coverage.shared"): ([s | {"heads": 3} for s in SPACE], 0.99),
    ("gradients", "lemma-2.violations"): ([{}], 0),
    ("gradients", "corollary-3.printed_violations"): ([{}], 0),
    ("gradients", "corollary-3.corrected_violations"): ([{}], 0),
    ("gradients", "finite_difference.violations"): ([{}], 0),
    ("algorithm-5", "printed.violations"): ([{"logits": "model"}], 0),
    ("algorithm-5", "bound.violations"): ([{"logits": "model"}], 0),
    ("algorithm-5", "fit.exponent"): (STEP, -1.0),
    ("algorithm-5", "fall.from_tenth"): (STEP, 1.6),
    ("algorithm-5", "fall.from_lowest"): (STEP, 2.0),
    ("normalisers", "relaxed.limits"): (RULE, 1),
    ("normalisers", "worse.limits"): (RULE, 1),
}
PARAMETERS = {"lengths": [32, 64, 128, 256, 512, 1024], "temperatures": [0.01, 0.1, 1.0], "windows": 2}


def made_up():
    """Records in which every claim that is measured holds; those that are only shown are one."""
    found = {}
    shown = {
        (u.record, u.id): ([{}], 1.0) for c in scorecard.CLAIMS for u in c.uses if not u.rule and not u.derive
    }
    shown |= {(u.record, u.id): GOOD["algorithm-2", "plateau.d_ratio"] for c in scorecard.CLAIMS for u in c.uses
              if not u.rule and u.derive is picks.from_twenty}  # fmt: skip
    shown["algorithm-4", "coverage.one_head"] = ([{"heads": 3}], 0.8)
    for (name, id), (readings, value) in (shown | GOOD).items():
        record = found.setdefault(
            name, records.Record(name, dict(PARAMETERS), ("made-up", "0"), ("made-up", "1"))
        )
        for reading in readings:
            number = value(reading) if callable(value) else value
            record.add(id, number, meaning=f"{id}, made up", n=6, **reading)
    for record in found.values():
        records.validate(record.content)
    return {name: record.content for name, record in found.items()}


def change(found, name, id, value, *, first_only=False, **reading):
    """A copy of the records in which results ``id`` (of a reading, or just the first) have another value."""
    found = copy.deepcopy(found)
    hit = [r for r in found[name]["results"] if r["id"] == id and reading.items() <= r["reading"].items()]
    for result in hit[: 1 if first_only else None]:
        result["value"] = value
    assert hit
    return found


def verdict_of(claim, found):
    return scorecard.score(CLAIMS[claim], found).verdict


def test_made_up_support_gives_holds_everywhere():
    verdicts = {f.claim.id: f.verdict for f in scorecard.score_all(scorecard.CLAIMS, made_up())}
    assert verdicts == {f"C{n}": HOLDS for n in range(1, 15)}


ACROSS = [  # claim, record, id, a value across the threshold: for every reading, then the verdict
    ("C1", "vanishing", "lemma-1.violations", 1, NOT),
    ("C1", "vanishing", "extremes.violations", 1, NOT),
    ("C1", "weights", "bound.violations", 1, NOT),
    ("C2", "weights", "exponent.largest", -0.89, SOME),
    ("C3", "theorem-1", "fixed-set.violations", 1, NOT),
    ("C3", "algorithm-1", "bound.violations", 1, NOT),
    ("C3", "algorithm-2", "bound.violations", 1, NOT),
    ("C4", "algorithm-1", "growth.r2", 0.9949, NOT),
    ("C5", "algorithm-2", "plateau.d_ratio", 1.11, NOT),
    ("C5", "algorithm-2", "collapse.d_ratio", 0.11, NOT),
    ("C6", "algorithm-3", "combined.lengths", 5, NOT),
    ("C6", "algorithm-3", "combined.share", 0.13, NOT),
    ("C6", "algorithm-3", "combined.exponent", 1.0, NOT),
    ("C7", "theorem-2", "fixed_r.violations", 1, SOME),
    ("C7", "theorem-2", "data_r.sure_violations", 1, SOME),
    ("C7", "algorithm-4", "bound.sharp_broken", 1, SOME),
    ("C8", "algorithm-4", "ratio.median", 0.8, NOT),  # flat: it does not fall
    ("C9", "algorithm-4", "coverage.union", 0.98, SOME),
    ("C10", "gradients", "lemma-2.violations", 1, NOT),
    ("C11", "gradients", "corollary-3.printed_violations", 1, CORRECTED),
    ("C11", "algorithm-5", "printed.violations", 1, CORRECTED),
    ("C12", "algorithm-5", "fit.exponent", -0.8, NOT),
    ("C12", "algorithm-5", "fall.from_tenth", 1.4, SOME),
    ("C13", "normalisers", "relaxed.limits", 0, NOT),
    ("C14", "algorithm-3", "combined.exponent", 1.0, SOME),
    ("C14", "algorithm-5", "fall.from_lowest", 0.9, SOME),
]


@pytest.mark.parametrize(("claim", "name", "id", "value", "word"), ACROSS)
def test_a_number_across_its_threshold_changes_the_verdict(claim, name, id, value, word):
    assert verdict_of(claim, change(made_up(), name, id, value)) == word


@pytest.mark.parametrize(
    ("claim", "name", "id", "value", "word"), [case for case in ACROSS if case[0] in ("C4", "C5", "C13")]
)
def test_one_reading_across_is_some_readings(claim, name, id, value, word):
    found = change(made_up(), name, id, value, first_only=True)
    finding = scorecard.score(CLAIMS[claim], found)
    assert finding.verdict == SOME
    assert sum(finding.supports.values()) == len(finding.supports) - 1


def test_a_broken_correction_is_not_a_correction():
    found = change(made_up(), "algorithm-5", "printed.violations", 3)
    assert verdict_of("C11", change(found, "algorithm-5", "bound.violations", 1)) == NOT


def test_one_point_past_sixteen_outside_the_band_is_enough():
    found = change(made_up(), "algorithm-4", "ratio.median", 0.69, space="hidden", top_n=32)
    finding = scorecard.score(CLAIMS["C8"], found)
    assert finding.supports == {
        (("space", "hidden"), ("support", "causal")): False,
        (("space", "value"), ("support", "causal")): True,
    }


def test_the_upper_end_of_the_exponent_is_judged():
    found = made_up()
    for result in found["algorithm-3"]["results"]:
        if result["id"] == "combined.exponent":
            result.update(value=0.9, low=0.7, high=1.1)
    assert verdict_of("C6", found) == NOT


def test_no_critical_n_at_all_is_not_reproduced():
    found = change(made_up(), "algorithm-3", "combined.lengths", 0)
    kept = [
        r for r in found["algorithm-3"]["results"] if r["id"] not in ("combined.share", "combined.exponent")
    ]
    found["algorithm-3"]["results"] = kept
    assert verdict_of("C6", found) == NOT


@pytest.mark.parametrize(
    ("claim", "name", "parameters"),
    [
        ("C4", "algorithm-1", {"lengths": [32, 64, 128]}),
        ("C6", "algorithm-3", {"lengths": [32, 64]}),
    ],
)
def test_small_settings_are_not_judged(claim, name, parameters):
    found = made_up()
    found[name]["parameters"] |= parameters
    finding = scorecard.score(CLAIMS[claim], found)
    assert finding.open
    assert finding.verdict == UNMEASURED or claim == "C6"
    assert "too small" in render.block(finding)


@pytest.mark.parametrize(
    ("claim", "name", "id", "key", "limit"),
    [
        ("C5", "algorithm-2", "plateau.d_ratio", "to_n", 40),
        ("C8", "algorithm-4", "ratio.median", "top_n", 16),
        ("C13", "normalisers", "relaxed.limits", "top_n", 16),
    ],
)
def test_without_its_range_a_curve_is_not_judged(claim, name, id, key, limit):
    found = made_up()
    kept = [r for r in found[name]["results"] if r["id"] != id or r["reading"][key] < limit]
    found[name]["results"] = kept
    assert verdict_of(claim, found) == UNMEASURED


@pytest.mark.parametrize(
    ("pick", "reading", "parameters", "kept"),
    [
        (picks.lengths_from(4), {}, {"lengths": [1, 2, 3, 4]}, True),
        (picks.lengths_from(4), {}, {"lengths": [1, 2, 3, 3]}, False),
        (picks.from_twenty, {"from_n": 20, "to_n": 40}, {}, True),
        (picks.from_twenty, {"from_n": 20, "to_n": 39}, {}, False),
        (picks.from_twenty, {"from_n": 19, "to_n": 40}, {}, False),
        (picks.past_sixteen, {"top_n": 16}, {}, True),
        (picks.past_sixteen, {"top_n": 15}, {}, False),
        (picks.from_hundredth, {}, {"temperatures": [1.0, 0.01]}, True),
        (picks.from_hundredth, {}, {"temperatures": [1.0, 0.011]}, False),
    ],
)
def test_what_is_too_small_to_judge_is_so_from_its_threshold_on(pick, reading, parameters, kept):
    results = [{"reading": reading, "value": 1}]
    beside = {"reading": {"top_n": 32}, "value": 2}  # of a curve one point alone is not judged
    found = pick([*results, beside] if "top_n" in reading else results, parameters)
    assert found == ([*results, beside] if "top_n" in reading else results if kept else []) * kept


@pytest.mark.parametrize(
    ("low", "high", "close"), [(0.996, 0.9995, False), (0.99, 1.0, True), (None, None, False)]
)
def test_an_interval_across_a_threshold_is_called_close(low, high, close):
    found = made_up()
    for result in found["algorithm-1"]["results"]:
        if result["id"] == "growth.r2":
            result.update(low=low, high=high)
    finding = scorecard.score(CLAIMS["C4"], found)
    rows = [row for row in finding.rows if row.use.id == "growth.r2"]
    assert [row.close for row in rows] == [close] * len(rows)
    assert ("(close call)" in render.block(finding)) == close


def test_beside_a_number_stands_where_it_was_taken_and_what_it_needs():
    block = render.block(scorecard.score(CLAIMS["C5"], made_up()))
    # Space and support tell the readings apart and stand at the values; what is the same for all stands once, with n.
    assert "([algorithm-2](#algorithm-2), from n 20, to n 100, n = 6)" in block
    assert "(corrected)" not in block
    assert "0 (corrected)" in render.block(scorecard.score(CLAIMS["C11"], made_up()))


def test_the_picture_of_the_readings_names_what_else_tells_them_apart():
    found = made_up()
    columns = {cell["column"] for cell in render.matrix(scorecard.score_all(scorecard.CLAIMS, found))}
    assert {"C3", "C4", "C5"} <= columns  # space and support alone tell these readings apart
    assert {
        "C6 0.01",
        "C6 0.05",
        "C14 0.01",
        "C14 0.05",
    } <= columns  # these have a level of significance besides
    assert not {"C6", "C14"} & columns


def test_a_reading_without_a_needed_number_is_left_out():
    found = made_up()
    kept = [
        r
        for r in found["algorithm-5"]["results"]
        if r["id"] != "fit.exponent" or r["reading"]["epsilon"] == 0.1
    ]
    found["algorithm-5"]["results"] = kept
    finding = scorecard.score(CLAIMS["C12"], found)
    assert {dict(group)["epsilon"] for group in finding.supports} == {0.1}
    assert finding.open == ("1/T",)


# --- what is missing or malformed ----------------------------------------------------------------------------------
def test_a_missing_record_and_a_missing_result_are_named():
    found = made_up()
    gone = found.pop("weights")
    with pytest.raises(scorecard.ScorecardError, match=r"C1: there is no record weights\.json"):
        scorecard.score(CLAIMS["C1"], found)
    found["weights"] = gone | {"results": [r for r in gone["results"] if r["id"] != "bound.violations"]}
    with pytest.raises(scorecard.ScorecardError, match=r"weights\.json has no result 'bound.violations'"):
        scorecard.score(CLAIMS["C1"], found)


def test_a_folder_without_records_and_a_broken_record_are_named(tmp_path):
    with pytest.raises(scorecard.ScorecardError, match="no records"):
        scorecard.load_all(tmp_path)
    (tmp_path / "weights.json").write_text('{"schema": 1}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"weights\.json"):
        scorecard.load_all(tmp_path)


# --- the real records, and the page -------------------------------------------------------------------------------
def test_the_reference_records_can_be_scored():
    """Every id that a claim uses is one that a chapter records."""
    found = scorecard.load_all(ROOT / "tests" / "reference")
    for finding in scorecard.score_all(scorecard.CLAIMS, found):
        shown = render.block(finding)
        absent = {(u.record, u.id) for u in finding.claim.uses} - {
            (name, r["id"]) for name, record in found.items() for r in record["results"]
        }
        assert absent == set()
        for row in finding.rows:
            assert render.value_words(row) in shown
    assert render.matrix(scorecard.score_all(scorecard.CLAIMS, found))


def test_every_claim_is_in_order_and_has_a_section_on_the_page():
    assert list(CLAIMS) == [f"C{n}" for n in range(1, 15)]
    page = (ROOT / "notebooks" / "scorecard.md").read_text(encoding="utf-8")
    for claim in CLAIMS:
        assert page.count(f"({render.anchor(claim)})=") == 1
        assert page.count(f'findings["{claim}"]') == 1


def test_all_evidence_exists():
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "notebooks").glob("*.md"))
    known = set(re.findall(r':label: (\S+)|^\((\S+)\)=|name="(fig-[a-z0-9-]+)"', sources, re.MULTILINE))
    known = {label for labels in known for label in labels if label}
    for claim in scorecard.CLAIMS:
        assert set(claim.evidence) <= known
        assert {use.record for use in claim.uses} <= known
        links = [render.link(label) for label in claim.evidence]
        assert len({link.partition("](")[0] for link in links}) == len(links)  # no two with the same words
    assert (
        render.link("fig-algorithm-1-mean-distance")
        == "[Algorithm 1, mean distance](#fig-algorithm-1-mean-distance)"
    )


def test_a_block_shows_rule_numbers_and_readings():
    found = change(made_up(), "algorithm-1", "growth.r2", 0.9, space="value")
    shown = render.block(scorecard.score(CLAIMS["C4"], found))
    assert "**holds under some readings** (1 of 2)" in shown
    assert "0.995 to 1" in shown
    assert "hidden, causal: 0.999 ✓<br>value, causal: 0.900 ✗" in shown
    assert "support it: hidden, causal. That do not: value, causal." in shown
    assert "[Algorithm 1, heads](#fig-algorithm-1-heads)" in shown


def test_readings_that_say_the_same_are_one_line():
    found = made_up()
    for result in found["algorithm-1"]["results"]:
        if result["id"] == "growth.r2":
            result["value"] = 0.9991
    shown = render.block(scorecard.score(CLAIMS["C4"], found))
    assert "| all 2 readings: 0.999 ✓ |" in shown
    assert "hidden, causal: 0.999" not in shown


def test_tables_keep_their_columns_whatever_a_meaning_holds():
    found = made_up()
    for result in found["algorithm-1"]["results"]:
        result["meaning"] = "|s| / d * $x$ <b>"
    rows = [
        line
        for line in render.block(scorecard.score(CLAIMS["C4"], found)).splitlines()
        if line.startswith("|")
    ]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {4}
    assert any(r"\|s\| \/" in line and r"\* \$x\$ \<b\>" in line for line in rows)


def test_the_summary_counts_what_it_lists():
    findings = scorecard.score_all(scorecard.CLAIMS, change(made_up(), "algorithm-1", "growth.r2", 0.9))
    assert render.counts(findings) == "*holds*: 13; *not reproduced*: 1"
    lines = render.summary(findings).splitlines()[2:]
    assert len(lines) == 14 and lines[3].endswith("| **not reproduced** (0 of 2) |")
    assert lines[13].endswith("*in part* |")


# --- runtimes ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "0.4 s"),
        (48, "48 s"),
        (59.7, "1 min"),
        (125, "2 min 5 s"),
        (3599.8, "1 h"),
        (61440, "17 h 4 min"),
    ],
)
def test_seconds_in_words(seconds, words):
    assert runtimes.in_words(seconds) == words


def test_runtimes_come_from_the_executed_notebooks(tmp_path):
    for position, name in enumerate(runtimes.PAPER_MINUTES, 1):
        content = {"metadata": {"papermill": {"duration": 60.0 * position}}, "cells": []}
        (tmp_path / f"{name}.ipynb").write_text(json.dumps(content), encoding="utf-8")
    times = runtimes.runtimes(tmp_path)
    assert [time.seconds for time in times] == [60.0, 120.0, 180.0, 240.0, 300.0]
    table = render.runtimes_table(times, "a | machine", "a model").splitlines()
    assert table[4] == "| [Algorithm 3](#algorithm-3) | 17 h 4 min (parallel) | 3 min |"
    assert r"a \| machine" in table[0]
    assert [time.seconds for time in runtimes.runtimes("")] == [None] * 5
    (tmp_path / "algorithm-2.ipynb").write_text('{"metadata": {}, "cells": []}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"algorithm-2\.ipynb: papermill noted no duration"):
        runtimes.runtimes(tmp_path)
    (tmp_path / "algorithm-2.ipynb").unlink()
    with pytest.raises(FileNotFoundError, match=r"algorithm-2\.ipynb"):
        runtimes.runtimes(tmp_path)
