"""The command that fetches both and writes their provenance."""

from __future__ import annotations

import json

import pytest
from attention_limits.sources import __main__ as command


@pytest.fixture
def arguments(tiny, tmp_path):
    (tmp_path / "mine.txt").write_text("Some text.\n")
    return [
        "--model",
        str(tiny),
        "--text",
        str(tmp_path / "mine.txt"),
        "--output",
        str(tmp_path / "out" / "s.json"),
    ]


def test_the_command_writes_both_and_writes_the_same_again(arguments, tmp_path):
    assert command.main(arguments) == 0
    path = tmp_path / "out" / "s.json"
    written = path.read_bytes()
    record = json.loads(written)
    assert record["model"]["name"] == "tiny" and record["text"]["name"] == "mine.txt"
    assert str(tmp_path) not in written.decode()
    assert command.main(arguments) == 0
    assert path.read_bytes() == written


def test_the_command_records_what_was_decided_before_it(arguments, tmp_path):
    assert command.main([*arguments, "--requested-text", "auto", "--text-notice", "No network: mine."]) == 0
    record = json.loads((tmp_path / "out" / "s.json").read_text())
    assert record["text"]["requested"] == "auto" and record["text"]["notice"] == "No network: mine."
    assert record["model"]["requested"] == "tiny" and record["model"]["notice"] == ""


def test_the_command_fails_with_a_sentence(arguments, tmp_path, capsys):
    assert command.main([*arguments, "--text", str(tmp_path / "missing.txt")]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "There is no text file" in said
    assert not (tmp_path / "out").exists()


def test_a_device_that_is_not_there_is_named_before_anything_is_fetched(
    arguments, tmp_path, capsys, monkeypatch
):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert command.main([*arguments, "--device", "cuda"]) == 1
    assert "'cuda'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_on_a_cluster_the_device_is_the_nodes_business(arguments, tmp_path, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("ATTENTION_LIMITS_ELSEWHERE", "yes")
    assert command.main([*arguments, "--device", "cuda"]) == 0
    assert (tmp_path / "out").exists()
