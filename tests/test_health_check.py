"""The health check from outside: any model, a model in training, the JSON file, the command and the README's lines."""

import copy
import json
import re
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from attention_limits import capture, health, sources
from attention_limits.health.__main__ import main
from test_capture import gpt2, llama, some_ids

ROOT = Path(__file__).resolve().parents[1]


def training(kind):
    """A module as a training loop has it: dropout on, one part frozen in evaluation mode, gradients of a step."""
    module = kind().module.train()
    module.get_input_embeddings().eval()
    torch.manual_seed(3)
    ids = some_ids(40)[None]
    module(ids, labels=ids).loss.backward()
    return module


@pytest.mark.parametrize("kind", [gpt2, llama], ids=["gpt2", "llama"])
def test_a_model_in_training_is_left_as_it_was(kind):
    module = training(kind)
    modes = [part.training for part in module.modules()]
    grads = [p.grad.clone() for p in module.parameters()]
    state, attention = torch.get_rng_state(), module.config._attn_implementation
    report = health.check(module, some_ids(40), heads=[(1, 2)], top_n=5)
    assert len(report.table) == 1
    assert [part.training for part in module.modules()] == modes
    assert any(modes) and not all(modes)
    assert all(
        torch.equal(p.grad, g) and p.requires_grad for p, g in zip(module.parameters(), grads, strict=True)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert module.config._attn_implementation == attention
    assert not any(part._forward_pre_hooks for part in module.modules())


def test_training_goes_on_as_if_nobody_had_looked():
    looked_at, left_alone = training(gpt2), training(gpt2)
    ids = some_ids(40)[None]
    losses = []
    for module in (looked_at, left_alone):
        torch.manual_seed(5)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        for _ in range(2):
            if module is looked_at:
                health.check(module, ids, heads=[(0, 0)], top_n=5)
            optimizer.zero_grad()
            loss = module(ids, labels=ids).loss
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[0] == losses[1]


def test_modes_come_back_after_a_failure():
    module = training(gpt2)
    with torch.no_grad():
        module.transformer.h[1].attn.c_attn.weight[0, 0] = float("nan")
    state = torch.get_rng_state()
    with pytest.raises(capture.CaptureError, match="NaN or infinite"):
        health.check(module, some_ids(40), top_n=5)
    assert module.training and torch.equal(torch.get_rng_state(), state)


def test_dropout_plays_no_role():
    module = training(gpt2)
    evaluated = copy.deepcopy(module).eval()
    found, expected = (health.check(m, some_ids(40), top_n=5) for m in (module, evaluated))
    pd.testing.assert_frame_equal(found.table, expected.table)


@pytest.mark.parametrize("kind", [gpt2, llama], ids=["gpt2", "llama"])
def test_chosen_heads_are_rows_of_the_whole_table(kind):
    module, ids = kind().module, some_ids(60)
    whole = health.check(module, ids, top_n=5)
    assert len(whole.table) == 8
    some = health.check(module, ids, top_n=5, heads=[(1, 3), (0, 1), (1, 3)])
    expected = whole.table.iloc[[1, 7]].reset_index(drop=True)
    pd.testing.assert_frame_equal(some.table, expected)
    assert some.settings == whole.settings
    assert whole.settings == {
        "model": type(module).__name__,
        "text": "token ids",
        "length": 60,
        "windows": 1,
        "rows": 30,
        "stride": 1,
        "top_n": 5,
        "space": "hidden",
    }


def test_ids_are_cut_to_windows_and_length():
    module = gpt2().module
    ids = torch.stack([some_ids(60, seed) for seed in range(4)])
    report = health.check(module, ids, length=50, windows=3, top_n=5, stride=4)
    assert (report.settings["windows"], report.settings["length"], report.settings["rows"]) == (3, 50, 7)
    alone = [health.check(module, row[:50], top_n=5, stride=4).table["first"] for row in ids[:3]]
    np.testing.assert_allclose(report.table["first"], np.mean(alone, axis=0), rtol=1e-6)
    again = health.check(module, ids[:3, :50].tolist(), length=50, windows=3, top_n=5, stride=4)
    pd.testing.assert_frame_equal(again.table, report.table)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": "king-james"}, "no tokenizer: give token ids"),
        ({"text": some_ids(40).float()}, r"shape \(40,\) and type torch.float32; wanted whole numbers"),
        ({"text": some_ids(1)}, "with L at least 2"),
        ({"text": some_ids(40) + 80}, "the model knows 0 to 100"),
        ({"text": some_ids(40) - 80}, "the model knows 0 to 100"),
        ({"top_n": 21}, r"top_n is 21; it must be from 1 to 20, half of the window of 40 tokens"),
        ({"top_n": 0}, "top_n is 0"),
        ({"heads": []}, "heads is empty"),
        ({"heads": [(2, 0)]}, r"heads has \(2, 0\); the model has layers 0 to 1 with heads 0 to 3"),
        ({"heads": [(0, -1)]}, r"heads has \(0, -1\)"),
        ({"space": "hiden"}, "space is 'hiden'; it must be one of hidden, embedding, value"),
        ({"stride": 0}, "stride is 0; it must be at least 1"),
        ({"windows": 0}, "windows is 0; it must be at least 1"),
        ({"length": 1}, "length is 1; it must be at least 2"),
        ({"model": torch.nn.Linear(2, 2)}, "model is a Linear; give a name, a sources.Model"),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_forward_pass(change, message, monkeypatch):
    module = gpt2().module
    monkeypatch.setattr(module, "forward", lambda *_, **__: pytest.fail("a forward pass was made"))
    with pytest.raises(ValueError, match=message):
        health.check(**{"model": module, "text": some_ids(40), "top_n": 5, **change})


def test_a_window_beyond_the_context_is_refused():
    with pytest.raises(capture.CaptureError, match="context of 64"):
        health.check(gpt2().module, some_ids(65), top_n=5)


def test_a_loaded_model_with_its_text():
    class Words:
        def __call__(self, text, **_):
            return {"input_ids": [len(word) % 101 for word in text.split()]}

    bare = gpt2()
    named = SimpleNamespace(name="mine")
    model = sources.Model(bare.module, Words(), bare.device, named)
    text = sources.Text(" ".join("x" * (1 + i % 90) for i in range(200)), SimpleNamespace(name="words"))
    report = health.check(model, text, length=60, windows=2, top_n=5)
    assert (report.settings["model"], report.settings["text"], report.settings["windows"]) == (
        "mine",
        "words",
        2,
    )
    ids = capture.windows(Words(), text.content, 60, 2)
    pd.testing.assert_frame_equal(
        report.table, health.check(bare.module, ids, length=60, windows=2, top_n=5).table
    )


@pytest.fixture(params=[1, 2], ids=["one window", "two windows"])
def report(request):
    ids = torch.stack([some_ids(60, seed) for seed in range(request.param)])
    return health.check(llama().module, ids, windows=request.param, top_n=5)


def test_the_file_holds_the_report(report, tmp_path):
    path = tmp_path / "deep" / "report.json"
    report.save(path)
    assert [p.name for p in path.parent.iterdir()] == ["report.json"]
    loaded = health.load(path)
    pd.testing.assert_frame_equal(loaded.table, report.table, check_dtype=False)
    assert (loaded.settings, loaded.counts, loaded.guidelines) == (
        report.settings,
        report.counts,
        report.guidelines,
    )
    content = json.loads(path.read_text())
    assert [row["verdict"] for row in content["heads"]] == report.table.verdict.tolist()
    assert sum(content["counts"].values()) == len(content["heads"]) == 8
    assert [rule["threshold"] for rule in content["rules"]] == [0.5, 0.9, 0.8]
    assert ("entropy_low" in content["heads"][0]) == (report.settings["windows"] > 1)
    first = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == first


def test_an_empty_path_writes_nothing(report, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report.save("")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(schema=2), "not an attention health report of schema 1"),
        (lambda c: c.update(kind="record"), "not an attention health report of schema 1"),
        (lambda c: c.pop("counts"), "unexpected or missing keys"),
        (lambda c: c["settings"].pop("space"), "settings must be"),
        (lambda c: c.update(heads=[]), "there is no head"),
        (lambda c: c["heads"][2].pop("ratio"), r"layer 0, head 2: unexpected or missing keys \['ratio'\]"),
        (lambda c: c["heads"][2].update(ratio="0.5"), "ratio = '0.5' is not a finite number"),
        (lambda c: c["heads"][2].update(first=float("nan")), "first = nan is not a finite number"),
        (lambda c: c["heads"][2].update(first=0.7), "does not follow from its numbers, 'sink' does"),
        (lambda c: c["counts"].update(sink=99), "counts are not those that follow from the heads"),
        (
            lambda c: c["guidelines"].update(top_k=10**6),
            "guidelines are not those that follow from the heads",
        ),
        (lambda c: c["rules"][0].update(threshold=0.4), "rules are not those"),
    ],
)
def test_a_file_that_does_not_hold_together_is_refused(change, message, tmp_path):
    content = health.check(gpt2().module, some_ids(60), top_n=5).to_json()
    change(content)
    path = tmp_path / "report.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message) as caught:
        health.load(path)
    assert str(path) in str(caught.value)


def test_guidelines_follow_from_the_table(report):
    table, found = report.table, report.guidelines
    assert found["top_k"] == int(np.ceil(np.median(table.mass90)))
    assert found["top_k_most"] == int(np.ceil(np.quantile(table.mass90, 0.9)))
    assert found["growth"] == pytest.approx(np.log2(np.median(table.mass90) / np.median(table.mass90_half)))
    assert found["watch"] == [[r["layer"], r["head"]] for r in table.to_dict("records") if r["watch"]]
    advice = " ".join(report.advice.split())
    assert f"Suggested top-k (ours): {found['top_k']} for the median head" in advice
    assert f"the median grows like L^{found['growth']:.2f} ({report.pace})" in advice
    assert advice.count("The paper:") == 3
    assert max(map(len, [*report.advice.splitlines(), *report.rules.splitlines()])) <= 100


@pytest.mark.parametrize(
    ("here", "half", "pace"),
    [
        (80, 50, "sub-linear"),
        (91, 49, "sub-linear"),
        (99, 50, "about linear"),
        (110, 50, "faster than linear"),
    ],
)
def test_pace_of_the_active_set(report, here, half, pace):
    given = health.Report(report.settings, report.table.assign(mass90=float(here), mass90_half=float(half)))
    assert given.pace == pace
    assert given.guidelines["growth"] == pytest.approx(np.log2(here / half))


def test_a_printed_report_says_everything(report):
    text = str(report)
    assert re.search(r"LlamaForCausalLM reading token ids: 8 heads, \d window\(s\) of 60 tokens", text)
    for line in (*report.rules.splitlines(), *report.advice.splitlines()):
        assert line in text
    for name, count in report.counts.items():
        assert f"{name} {count}" in text
    rows = [line.split() for line in text.splitlines()[-8:]]
    assert [(int(r[0]), int(r[1]), r[2]) for r in rows] == list(
        report.table[["layer", "head", "verdict"]].itertuples(index=False, name=None)
    )
    assert [r[-1] for r in rows] == ["none" if pd.isna(n) else str(n) for n in report.table.critical_n]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--length", "99999"], "length is 99999; it must be a whole number from 2 to the model's context"),
        (["--text", "none.txt"], "There is no text file 'none.txt'"),
        (["--text", "short.txt"], "the text has 5 bytes, but 256 tokens of it are read"),
    ],
)
def test_the_command_says_what_is_wrong_before_the_model_loads(tmp_path, capsys, monkeypatch, given, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short.txt").write_text("Short")
    config = {"model_type": "gpt2", "n_positions": 1024}
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))  # nothing to load
    assert main(["--model", "model", *given]) == 1
    assert capsys.readouterr().err.startswith(f"attention_limits.health: {words}")


def test_the_command_prints_and_writes(tmp_path, capsys):
    path = tmp_path / "report.json"
    given = [
        "--model",
        "smollm2-135m",
        "--text",
        "king-james",
        "--device",
        "cpu",
        "--length",
        "64",
        "--top-n",
        "8",
    ]
    assert main([*given, "--heads", "0.1", "3.2", "--output", str(path)]) == 0
    report = health.load(path)
    assert report.table[["layer", "head"]].values.tolist() == [[0, 1], [3, 2]]
    assert str(report) in capsys.readouterr().out
    assert str(tmp_path) not in path.read_text()
    assert main([*given, "--heads", "0.9"]) == 1
    assert "heads has (0, 9); the model has layers 0 to 29" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*given, "--heads", "1-2"])
    assert "'1-2' is not LAYER.HEAD" in capsys.readouterr().err


def test_the_lines_of_the_readme_work_as_written(monkeypatch, capsys):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.split("## Check the heads of your own model")[1].split("\n## ")[0]
    three, training_loop = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert len(three.strip().splitlines()) == 3
    known = {"model": "smollm2-135m", "text": "king-james"}  # what auto stands for without a network
    monkeypatch.setattr("attention_limits.sources.choice.decide", lambda kind, asked: (known[kind], ""))
    exec(three, names := {})
    assert "Attention health of smollm2-135m reading king-james: 270 heads" in capsys.readouterr().out
    assert len(names["report"].table) == 270
    names |= {"model": training(gpt2), "ids": some_ids(60)[None], "step": 1000}
    exec(training_loop, names)
    assert names["report"].table[["layer", "head"]].values.tolist() == [[0, 3], [1, 1]]


def test_eight_heads_of_gpt2_124m_are_analysed_in_seconds_even_on_a_busy_machine():
    module = transformers.GPT2LMHeadModel(transformers.GPT2Config())
    seen = capture.capture(
        SimpleNamespace(module=module.eval(), device=torch.device("cpu")), torch.arange(256)
    )
    heads = [(layer, head) for layer in (0, 5, 8, 11) for head in (2, 7)]
    health.measure(seen, heads[:1], top_n=16, stride=8)
    start = time.process_time()
    table, _ = health.measure(seen, heads, top_n=16, stride=8)
    assert len(table) == 8
    assert time.process_time() - start < 5  # 0.05 s of one core where it was measured


def test_a_model_in_half_precision():
    """The forward pass is the model's own; from the captured numbers on everything is float64."""
    module = llama().module.to(torch.bfloat16)
    row = health.check(module, some_ids(40), heads=[(1, 1)], top_n=5).table.iloc[0]
    seen = capture.capture(SimpleNamespace(module=module, device=torch.device("cpu")), some_ids(40))
    expected = seen.weights(1, 1)[20:, 0].double().mean()
    assert row["first"] == pytest.approx(float(expected), rel=1e-5)
    assert next(module.parameters()).dtype == torch.bfloat16
