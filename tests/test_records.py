"""The record file: what it accepts, what it refuses, and that it is the same byte for byte."""

import json

import numpy as np
import pytest
from attention_limits import records
from bad_days import case


def sample():
    record = records.Record(
        "algorithm-1", {"lengths": [32, 64], "seed": 0}, ("gpt2", "0a"), ("war-and-peace", "1b")
    )
    record.add(
        "growth.r2", np.float64(0.99), low=0.9, high=1.0, n=np.int64(144), meaning="R2", space="hidden"
    )
    record.add("growth.r2", 0.5, meaning="R2", space="value")
    return record


def test_round_trip(tmp_path):
    sample().save(tmp_path / "new" / "a.json")
    content = records.load(tmp_path / "new" / "a.json")
    assert (content["model"], content["parameters"]["lengths"]) == ("gpt2", [32, 64])
    assert records.find(content, "growth.r2", space="hidden")["n"] == 144
    assert records.find(content, "growth.r2", space="value")["low"] is None
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.json"]


def test_same_results_give_the_same_bytes(tmp_path):
    sample().save(tmp_path / "a.json")
    sample().save(tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_empty_path_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sample().save("")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "value",
    [
        case("a result that is NaN", float("nan")),
        case("a result that is infinite", float("inf")),
        case("a result that is missing", None),
        case("a result that is a text", "1"),
        case("a result that is true or false", True),
    ],
)
def test_values_that_are_no_finite_numbers_are_refused(value):
    with pytest.raises(ValueError, match="not a finite number"):
        sample().add("x", value, meaning="")


def test_results_are_added_once_and_intervals_are_ordered():
    record = sample()
    with pytest.raises(ValueError, match="added twice"):
        record.add("growth.r2", 1.0, meaning="", space="value")
    with pytest.raises(ValueError, match="above high"):
        record.add("x", 1.0, low=2, high=1, meaning="")


def test_what_is_added_is_given_back_for_a_sentence():
    assert sample().add("x", 2.5, meaning="") == 2.5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, []),
        ({"model": {"name": "gpt2-xl", "sha256": "0a"}}, ["model 'gpt2' instead of 'gpt2-xl'"]),
        ({"text": {"name": "war-and-peace", "sha256": "2c"}}, ["text 'war-and-peace' of other bytes"]),
    ],
)
def test_a_record_of_other_sources_is_told(change, words):
    sources = {"model": {"name": "gpt2", "sha256": "0a"}, "text": {"name": "war-and-peace", "sha256": "1b"}}
    assert records.strange(sample().content, sources | change) == words
    assert records.strange(records.Record("a", {}).content, sources | change) == []


@pytest.mark.parametrize(
    "id, reading", [("growth.r2", {}), ("growth.r2", {"space": "embedding"}), ("other", {})]
)
def test_find_wants_exactly_one(id, reading):
    with pytest.raises(KeyError, match="wanted one"):
        records.find(sample().content, id, **reading)


@pytest.mark.bad_day("a record of another form")
@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.update(schema=1),
        lambda c: c.pop("text"),
        lambda c: c["sha256"].pop("text"),
        lambda c: c.update(extra=1),
        lambda c: c.update(results={}),
        lambda c: c["results"][0].pop("n"),
        lambda c: c["results"][0].update(value=None),
        lambda c: c["results"][0].update(reading=[]),
        lambda c: c.update(parameters=None),
    ],
)
def test_damaged_files_are_refused_with_their_name(tmp_path, change):
    content = sample().content
    change(content)
    (tmp_path / "bad.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"record .*bad\.json"):
        records.load(tmp_path / "bad.json")


@pytest.mark.bad_day("a record that breaks off")
def test_a_file_cut_short_is_refused(tmp_path):
    (tmp_path / "cut.json").write_text(json.dumps(sample().content)[:100])
    with pytest.raises(ValueError, match=r"cut\.json"):
        records.load(tmp_path / "cut.json")
