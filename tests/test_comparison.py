"""Models side by side, with tiny ones: numbers against plain loops, and which models are measured or missing."""

import gc
import socket
import time
import weakref
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from attention_limits import capture, comparison, controls, execute, kernels, records, sources
from attention_limits.comparison import Plan, run
from attention_limits.health import numbers
from attention_limits.kernels import batched
from attention_limits.sources import Model, Provenance, SourceError, Text, hub
from attention_limits.sources.reach import Answer
from attention_limits.theory import distance
from test_capture import gpt2, llama
from test_health import brute_force
from test_measures import seen, softmax_of_head  # noqa: F401  (seen is a fixture)

ROOT = Path(__file__).resolve().parents[1]
TINY = {"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 64}


class Letters:
    """A tokenizer with a token per character."""

    def __len__(self):
        return 101

    def __call__(self, text, **_):
        return {"input_ids": [ord(letter) % 101 for letter in text]}


def model_of(built, name, digest=None):
    provenance = Provenance(
        "model", name, name, "", name if digest is None else digest, 0, "", "made by the test"
    )
    return Model(built.module, Letters(), built.device, provenance)


def text_of(length):
    letters = np.random.default_rng(0).integers(0, 101, length)
    provenance = Provenance("text", "letters", "letters", "", "", length, "", "made by the test")
    return Text("".join(map(chr, letters)), provenance)


# --- the numbers ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("space", ["hidden", "value"])
def test_headline_equals_plain_loops(seen, space):  # noqa: F811
    plan = Plan([40], rows=7, top_n=5, space=space)
    assert plan.stride(40) == 2
    found = comparison.headline(seen, plan).set_index(["layer", "head"])
    assert len(found) == 8 and (found.rows == 10).all() and (found.extremes == 0).all()
    for layer, head in ((0, 1), (1, 3)):
        visible = range(22, 41, 2)
        own, (weights, _) = found.loc[layer, head], softmax_of_head(seen, layer, head)
        expected = brute_force(seen, layer, head, 5, space, visible)[0][
            ["ratio", "entropy_share", "first", "jacobian"]
        ]
        kept = [weights[n - 1] for n in visible]
        expected["largest"] = np.exp(np.mean([np.log(a.max()) for a in kept]))
        expected["median"] = np.exp(np.mean([np.log(np.median(a)) for a in kept]))
        expected["median_n"] = np.exp(np.mean([np.log(np.median(a) * len(a)) for a in kept]))
        x = seen.vectors(space, layer, head).double().numpy()
        pairs = {n: distances(weights, x, n, (24, 32, 40)) for n in (1, 2, 4, 5, 8, 16, 32, 39)}
        expected["gap"] = pairs[5][0] / pairs[5][1]
        for name, value in expected.items():
            assert own[name] == pytest.approx(value, rel=1e-8), name
        critical = [n for n, (d, random) in pairs.items() if d <= random]
        assert own.critical_n == min(critical) if critical else np.isnan(own.critical_n)


def distances(weights, x, top_n, rows):
    """Means of d and E_J over the rows that have an unselected token."""
    pairs = []
    for n in rows:
        if n > top_n:
            chosen = distance.top_set(weights[n - 1], top_n)
            d = distance.cumulative_distance(weights[n - 1], x[:n], chosen)
            pairs.append([d, distance.expected_distance_bound(weights[n - 1], x[:n], top_n)])
    return np.mean(pairs, axis=0)


def test_a_prefix_is_the_capture_of_the_first_tokens():
    model, ids = llama(), torch.arange(50)
    part, short = comparison.prefix(capture.capture(model, ids), 20), capture.capture(model, ids[:20])
    assert part.length == 20 and torch.equal(part.embedding, short.embedding)
    for one, two in zip(part.layers, short.layers, strict=True):
        for name in ("q", "k", "v", "hidden"):
            assert torch.allclose(getattr(one, name), getattr(two, name), atol=1e-5), name


def test_both_paths_of_the_kernels_agree(seen, monkeypatch):  # noqa: F811
    """As on an accelerator, whose kernels take all rows of a block at once."""
    plan = Plan([40], rows=7, top_n=5)
    own, counts = comparison.headline(seen, plan), comparison.violations(seen, plan)
    monkeypatch.setattr(kernels, "_path", lambda device: batched)
    pd.testing.assert_frame_equal(comparison.headline(seen, plan), own, rtol=1e-9)
    assert comparison.violations(seen, plan) == counts


def test_violations_are_counted_row_by_row(seen):  # noqa: F811
    """Rows 2, 4, ..., 40 of eight heads; the printed 1/4 is counted against eigenvalues of dense Jacobians."""
    found = comparison.violations(seen, Plan([40], rows=10, top_n=5))
    printed = 0
    for layer, head in seen.heads():
        for row in softmax_of_head(seen, layer, head)[0][1::2]:
            printed += np.linalg.eigvalsh(np.diag(row) - np.outer(row, row))[-1] > 0.25 * (1 + 1e-9)
    assert 0 < printed < 160
    rows = {"norm_rows": 8 * 20, "distance_rows": 8 * 18}
    assert found == rows | {"distance": 0, "sandwich": 0, "gradient": 0, "printed": printed}


def test_weights_that_are_no_softmax_are_seen_to_break_their_bounds(seen, monkeypatch):  # noqa: F811
    true = numbers.head_weights

    def wrong(part, head, visible):
        logits, weights = true(part, head, visible)
        return logits / 50, weights

    monkeypatch.setattr(numbers, "head_weights", wrong)
    assert comparison.headline(seen, Plan([40], top_n=5)).extremes.sum() > 0


def test_summary_is_the_mean_over_windows_of_medians_over_heads():
    rng = np.random.default_rng(3)
    rows = pd.DataFrame(
        [
            {"model": m, "window": w, "head": h, "a": rng.random(), "b": np.nan}
            for m in "xy"
            for w in (0, 1)
            for h in range(7)
        ]
    )
    rows.loc[0, "a"] = np.nan
    found = comparison.summarise(rows, ["model"], ["a", "b"]).set_index("model")
    assert found.number.tolist() == ["a", "a"]  # nothing is left of b
    heads = [rows[(rows.window == w) & (rows.model == "x")].a.dropna().to_numpy() for w in (0, 1)]
    medians, quartiles, most = (
        [f(a) for a in heads] for f in (np.median, lambda a: np.quantile(a, 0.25), max)
    )
    line = found.loc["x"]
    assert (line["median"], line.q25, line.most) == pytest.approx(
        (np.mean(medians), np.mean(quartiles), np.mean(most))
    )
    # Student's t, one degree of freedom; s / sqrt 2 = |a - b| / 2.
    half = 12.7062 * abs(medians[0] - medians[1]) / 2
    assert (line.low, line.high) == pytest.approx((line["median"] - half, line["median"] + half), rel=1e-4)
    assert (line.heads, line.windows) == (7, 2)


def test_exponents_of_exact_powers_and_models_with_too_few_lengths():
    heads = pd.DataFrame(
        [
            {
                "model": m,
                "window": 0,
                "layer": 0,
                "head": h,
                "length": n,
                "largest": 2 * n**-b,
                "median": 3 * n ** (b - 1),
            }
            for m, lengths in (("x", (8, 32, 64, 128)), ("short", (8, 32)))
            for h, b in ((0, 0.25), (1, 1.0))
            for n in lengths
        ]
    )
    heads.loc[(heads.length == 128), "largest"] = 77.0  # a long context that is not asked for
    found = comparison.exponents(heads, [8, 32, 64])
    assert found.model.tolist() == ["x", "x"]
    assert found.largest_power.tolist() == pytest.approx([-0.25, -1.0])
    assert found.median_power.tolist() == pytest.approx([-0.75, 0.0], abs=1e-12)


def test_trained_models_against_controls():
    kinds = pd.Series({"a": "trained", "b": "trained", "r": "random", "s": "shuffled"})
    wide = 0.6  # half of a quartile range, so that ranges of medians one apart meet
    medians = {
        "up": (5, 6, 1, 2),
        "up, close": (3, 4, 1, 2),
        "down": (0, 1, 5, 4),
        "down, close": (0, 1, 2, 3),
    }
    medians |= {"among": (0, 4, 1, 2), "touch": (2, 3, 1, 2), "far, but among": (-9, 9, 0, 1)}
    lines = [
        {"model": model, "number": name, "median": value, "q25": value - wide, "q75": value + wide}
        for name, values in medians.items()
        for model, value in zip("abrs", values, strict=True)
    ]
    own = {"model": "a", "number": "of no control", "median": 1, "q25": 0, "q75": 2}
    found = comparison.against_controls(pd.DataFrame([*lines, own]), kinds)
    words = dict(zip(found.number, zip(found.word, found.quartiles, strict=True), strict=True))
    assert words == {
        "up": ("above", True),
        "up, close": ("above", False),
        "down": ("below", True),
        "down, close": ("below", False),
    } | dict.fromkeys(["among", "touch", "far, but among"], ("among", False))
    assert found.iloc[0, 1:5].tolist() == [5, 6, 1, 2]
    assert comparison.against_controls(pd.DataFrame(lines), kinds.map(lambda kind: "trained")).empty


# --- which models ---------------------------------------------------------------------------------------------------
@pytest.fixture
def hub_of(monkeypatch):
    """Return a function that makes ``sources.load_model`` give tiny models by name, one alive at a time."""
    alive, loaded = [], []

    def put(**makers):
        def load(name, device="auto"):
            gc.collect()
            assert not [ref for ref in alive if ref() is not None], "another model is still in memory"
            loaded.append(name)
            if name not in makers:
                raise SourceError(f"{name!r} cannot be had. Choose another.")
            model = makers[name](name)
            alive.append(weakref.ref(model.module))
            return model

        monkeypatch.setattr(sources, "load_model", load)
        monkeypatch.setattr(hub, "cached_snapshot", lambda model: None)
        monkeypatch.setattr(hub, "ask", lambda model: Answer(True, 200, ""))
        for shape in ("gpt2", "llama"):
            monkeypatch.setitem(controls.SHAPES, shape, TINY)
        return loaded

    return put


def failing_at(length, call, error):
    """A llama whose forward pass fails at windows of ``length`` tokens from the ``call``-th on."""
    built, calls = llama(), []

    def fail(module, args, kwargs):
        calls.append(args[0].shape[1])
        if calls.count(length) >= call and args[0].shape[1] == length:
            raise error

    built.module.register_forward_pre_hook(fail, with_kwargs=True)
    return built


def broken():
    built = llama()
    with torch.no_grad():
        built.module.model.layers[1].self_attn.k_proj.weight[0, 0] = float("nan")
    return built


FIVE = {
    "main": lambda name: model_of(llama(), name),
    "short": lambda name: model_of(gpt2(n_positions=20), name),
    "soft": lambda name: model_of(llama("Gemma2", head_dim=8, attn_logit_softcapping=50.0), name),
    "half": lambda name: model_of(failing_at(32, 2, torch.OutOfMemoryError("memory is full")), name),
    "org/other": lambda name: model_of(gpt2(), name),
}
PLAN = Plan([8, 16, 32], [48], windows=2, rows=4, top_n=4)


def test_five_models_of_which_one_fails_half_way_and_one_is_refused(hub_of):
    loaded = hub_of(**FIVE)
    others = ["random:gpt2", "short", "soft", "shuffled", "half", "absent", "org/other", "main", "short"]
    text = text_of(500)
    found = comparison.compare("main", others, text, PLAN, "cpu")
    # The last one to be shuffled.
    assert loaded == ["main", "short", "soft", "half", "absent", "org/other", "main"]
    kinds = dict(zip(found.models.model, found.models.kind, strict=True))
    assert kinds == dict.fromkeys(["main", "short", "half", "org/other"], "trained") | {
        "gpt2 shape, random weights (seed 0)": "random",
        "main, weights shuffled (seed 0)": "shuffled",
    }
    measured = {
        key: sorted(set(zip(part.window, part.length, strict=True)))
        for key, part in found.heads.groupby("model")
    }
    control = [(0, 8), (0, 16), (0, 32)]
    both = [(w, n) for w in (0, 1) for n in (8, 16, 32)]
    assert measured["main"] == measured["org/other"] == sorted([*both, (0, 48)])
    assert measured["short"] == [(w, n) for w in (0, 1) for n in (8, 16)]
    assert measured["half"] == sorted([(w, n) for w in (0, 1) for n in (8, 16)] + [(0, 48)])
    assert (
        measured["main, weights shuffled (seed 0)"]
        == measured["gpt2 shape, random weights (seed 0)"]
        == control
    )
    missing = {(line.model, line.lengths): line.reason for line in found.missing.itertuples()}
    assert missing.keys() == {("short", "32, 48"), ("soft", "all"), ("half", "32"), ("absent", "all")}
    assert missing["short", "32, 48"] == "the context is 20 tokens"
    assert "softcap" in missing["soft", "all"] and missing["half", "32"] == "memory is full"
    assert missing["absent", "all"] == "'absent' cannot be had. Choose another."


def test_numbers_of_a_model_are_those_of_its_own_windows(hub_of):
    hub_of(**FIVE)
    text = text_of(500)
    found = comparison.compare("main", ["org/other"], text, PLAN, "cpu")
    model = FIVE["org/other"]("again")
    ids = capture.windows(model.tokenizer, text.content, 32, 2)[1]
    alone = comparison.headline(capture.capture(model, ids[:16]), PLAN).drop(columns=["rows", "extremes"])
    part = found.heads[
        (found.heads.model == "org/other") & (found.heads.window == 1) & (found.heads.length == 16)
    ]
    pd.testing.assert_frame_equal(part[alone.columns].reset_index(drop=True), alone, rtol=1e-4)
    assert found.models.context.tolist() == [64, 64] and found.models["heads"].tolist() == [8, 8]
    assert found.models.parameters.tolist()[0] == sum(p.numel() for p in llama().module.parameters())
    checks = found.checks[found.checks.model == "main"].set_index(["length", "window"])
    assert sorted(checks.index) == [(32, 0), (32, 1), (48, 0)]
    assert checks.rows[32, 0] == 8 * (4 + 4 + 4) and checks.norm_rows[48, 0] == 8 * 8
    assert (found.checks[list(comparison.CHECKS)] == 0).all(axis=None)


def test_a_broken_model_is_listed_once_and_the_text_may_be_too_short_for_long_windows(hub_of):
    hub_of(**FIVE, broken=lambda name: model_of(broken(), name))
    found = comparison.compare(
        "main", ["broken"], text_of(66), Plan([8, 16, 32], [64], windows=2, top_n=4), "cpu"
    )
    assert found.models.model.tolist() == ["main"] and len(found.missing) == 1
    assert found.missing.model[0] == "broken" and found.missing.lengths[0] == "all"

    assert "layer 1, head 0: the key holds NaN" in found.missing.reason[0]
    found = comparison.compare("main", [], text_of(60), Plan([8, 16, 32], [64], windows=1, top_n=4), "cpu")
    assert found.missing.lengths.tolist() == ["64"] and "the text has 60 tokens" in found.missing.reason[0]


def test_a_model_measured_at_no_length_is_one_line_with_all_its_reasons():
    missing = [("a", 64, "no memory"), ("a", 1024, "the context is 512"), ("b", 1024, "the context is 512")]
    lines = run._grouped(missing, {"b"}).to_dict("records")
    assert lines == [
        {"model": "b", "lengths": "1024", "reason": "the context is 512"},
        {"model": "a", "lengths": "all", "reason": "no memory; the context is 512"},
    ]


def test_a_length_that_is_also_a_long_one_is_measured_once(hub_of):
    hub_of(**FIVE)
    plan = Plan([8, 32], [32, 16], windows=2, top_n=4)
    heads = comparison.compare("main", [], text_of(500), plan, "cpu").heads
    measured = sorted(set(zip(heads.window, heads.length, strict=True)))
    assert measured == [(0, 8), (0, 16), (0, 32), (1, 8), (1, 32)] and len(heads) == 5 * 8


def test_the_same_weights_under_two_names_are_measured_once(hub_of):
    hub_of(main=FIVE["main"], twin=lambda name: model_of(llama(), name, digest="main"))
    found = comparison.compare("main", ["twin"], text_of(500), PLAN, "cpu")
    assert found.models.model.tolist() == ["main"]
    assert found.missing.reason.tolist() == ["its weights are those of main, which is measured"]


def test_auto_stands_for_a_name_and_is_measured_once(hub_of, monkeypatch):
    loaded = hub_of(**FIVE)
    monkeypatch.setattr(
        sources, "decide", lambda kind, name: ("main", "a notice") if name == "auto" else (name, "")
    )
    found = comparison.compare("auto", ["main", "auto"], text_of(500), PLAN, "cpu")
    assert loaded == ["main"] and found.models.model.tolist() == ["main"] and found.missing.empty


def test_two_folders_of_the_same_name_are_told_apart(hub_of):
    hub_of(main=FIVE["main"], folder=lambda name: model_of(gpt2(), "main", digest="other"))
    found = comparison.compare("main", ["folder"], text_of(500), PLAN, "cpu")
    assert found.models.model.tolist() == ["main", "main (2)"]
    assert found.heads.groupby("model").ngroups == 2


def test_the_first_model_must_be_had_and_something_must_be_measured(hub_of):
    hub_of(**FIVE, broken=lambda name: model_of(broken(), name))
    with pytest.raises(SourceError, match="'absent' cannot be had"):
        comparison.compare("absent", ["main"], text_of(500), PLAN, "cpu")
    with pytest.raises(
        capture.CaptureError, match="no model could be measured: broken: layer 1, head 0: the key holds NaN"
    ):
        comparison.compare("broken", ["soft"], text_of(500), PLAN, "cpu")


def test_other_errors_are_not_hidden(hub_of):
    hub_of(main=lambda name: model_of(failing_at(32, 1, ZeroDivisionError("a fault")), name))
    with pytest.raises(ZeroDivisionError, match="a fault"):
        comparison.compare("main", [], text_of(500), PLAN, "cpu")


def test_controls_read_the_first_models_tokens_and_depend_on_the_seed(hub_of, monkeypatch):
    loaded = hub_of(**FIVE)
    monkeypatch.setattr(Letters, "__len__", lambda self: 60_000)
    shelf = comparison.Shelf("main", 3, "cpu")
    first = shelf.get("main")
    tokenizer, weights = first.tokenizer, first.module.model.embed_tokens.weight.clone()
    del first
    random = shelf.get("random:llama")
    assert random.tokenizer is tokenizer and random.module.config.vocab_size == 60_000
    assert random.provenance.name == "llama shape, random weights (seed 3)"
    del random
    shuffled = shelf.get("shuffled").module.model.embed_tokens.weight
    assert not torch.equal(shuffled, weights) and torch.equal(
        shuffled.flatten().sort()[0], weights.flatten().sort()[0]
    )
    assert loaded == ["main", "main"]


def test_a_silent_hub_is_asked_once(hub_of, monkeypatch, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "empty").mkdir()
    folder, empty = str(tmp_path / "mine"), str(tmp_path / "empty")
    loaded = hub_of(
        main=FIVE["main"], cached=FIVE["org/other"], **{folder: FIVE["short"], "smollm2-135m": FIVE["half"]}
    )
    asked = []
    monkeypatch.setattr(
        hub, "ask", lambda model: asked.append(model.repository) or Answer(False, 0, "no answer in 9 s")
    )
    monkeypatch.setattr(
        hub, "cached_snapshot", lambda model: tmp_path if model.repository == "cached" else None
    )
    others = ["a", "b/c", "cached", folder, empty, "smollm2-135m", "d"]
    found = comparison.compare("main", others, text_of(500), Plan([8], top_n=2), "cpu")
    assert asked == ["a"] and loaded == ["main", "cached", folder, empty, "smollm2-135m"]
    assert found.missing.model.tolist() == ["a", "b/c", "empty", "d"]
    silent = found.missing.reason[found.missing.model != "empty"].unique().tolist()
    assert silent == [f"not in the cache, and {hub.host()} could not be reached (no answer in 9 s)"]


def test_a_hub_that_answers_says_of_each_model_what_it_has(hub_of, monkeypatch):
    loaded = hub_of(**FIVE)
    monkeypatch.setattr(hub, "ask", lambda model: Answer(False, 404, "HTTP status 404"))
    found = comparison.compare("main", ["absent", "org/other"], text_of(500), Plan([8], top_n=2), "cpu")
    assert loaded == ["main", "absent", "org/other"] and found.missing.model.tolist() == ["absent"]


def test_a_hub_that_hangs_costs_seconds_not_seconds_per_model(monkeypatch, tmp_path):
    from huggingface_hub import constants

    for name in ("http_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{listener.getsockname()[1]}")
        shelf, began = comparison.Shelf("smollm2-135m", 0, "cpu"), time.monotonic()
        for name in ("gpt2", "gpt2-medium", "distilgpt2", "HuggingFaceTB/SmolLM2-360M", "Qwen/Qwen2.5-0.5B"):
            with pytest.raises(
                SourceError, match=r"not in the cache, and 127.0.0.1 could not be reached \(no answer"
            ):
                shelf.get(name)
    assert time.monotonic() - began < 5  # one question is 1.5 s; five would be 7.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lengths": []}, r"lengths are \[\]; there must be one or more, each at least 32"),
        ({"lengths": [31, 64]}, r"lengths are \[31, 64\]; .* at least 32 \(top_n is 16"),
        ({"lengths": [3], "top_n": 1}, r"lengths are \[3\]; .* at least 4"),
        ({"long_lengths": [80, 31]}, r"long_lengths are \[80, 31\]; each must be at least 32"),
        ({"windows": 0}, "windows is 0; it must be at least 1"),
        ({"rows": 0}, "rows is 0; it must be at least 1"),
        ({"top_n": 0}, "top_n is 0; it must be at least 1"),
        ({"seed": -1}, "seed is -1; it must be at least 0"),
        ({"space": "hiden"}, "space is 'hiden'; it must be one of hidden, embedding, value"),
    ],
)
def test_senseless_plans_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Plan(**{"lengths": [64], **change})


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("gpt2", "models is 'gpt2'; it must be a list of names"),
        (["gpt2", ""], "it must be a list of names"),
        ([3], "it must be a list of names"),
        (
            ["random:bert"],
            r"models has \['random:bert'\]; with random weights there are random:gpt2, random:llama",
        ),
    ],
)
def test_senseless_names_are_refused_before_anything_is_loaded(hub_of, names, message):
    loaded = hub_of()
    with pytest.raises(ValueError, match=message):
        comparison.compare("main", names, text_of(500), PLAN, "cpu")
    assert loaded == []


# --- the chapter ----------------------------------------------------------------------------------------------------
def read_chapter(monkeypatch, tmp_path, main="main", models=(), **settings):
    """Run the chapter's cells on tiny models; its namespace, its last Markdown and its record."""
    monkeypatch.setattr(sources, "load_text", lambda name: text_of(600))
    small = {
        "lengths": [8, 16, 32],
        "long_lengths": [48],
        "windows": 2,
        "rows": 4,
        "top_n": 4,
        "device": "cpu",
    }
    given = (
        {"model": main, "models": list(models), "record": str(tmp_path / "record.json")} | small | settings
    )
    names, said = {}, []
    for cell in execute.read(ROOT / "notebooks" / "models.md").cells:
        if cell.cell_type == "code":
            exec(compile(cell.source.replace("Markdown(f", "SAID(f"), "models.md", "exec"), names)
            if "parameters" in cell.metadata.get("tags", []):
                assert given.keys() <= names.keys()
                names |= given | {"SAID": said.append}
    return names, said[-1], records.load(tmp_path / "record.json")


def test_the_chapter_with_five_models(hub_of, monkeypatch, tmp_path):
    hub_of(**FIVE)
    models = [
        "short",
        "soft",
        "half",
        "org/other",
        "absent",
        str(tmp_path / "gone"),
        "random:gpt2",
        "shuffled",
    ]
    names, said, record = read_chapter(monkeypatch, tmp_path, models=models)
    assert names["COMMON"] == 16  # `short` reads no more than 20 tokens, `half` fails at 32
    assert (
        "Missing: soft; absent; gone." in said and "Among the 4 trained models the medians at L = 16" in said
    )
    assert "main, from L = 32 to 48:" in said and "half, from L = 16 to 48:" in said
    assert "Bounds: 0 violations in" in said and "short, from" not in said
    assert records.find(record, "models.measured")["value"] == 6
    assert records.find(record, "models.trained")["value"] == 4
    assert record["parameters"]["models"][5] == "gone"
    table = names["table"]
    line = table[(table.model == "half") & (table.length == 8) & (table.number == "first")].iloc[0]
    kept = records.find(record, "number.first", model="half", length=8)
    assert kept["value"] == pytest.approx(line["median"]) and kept["low"] == pytest.approx(line.low)
    assert records.find(record, "number.first", model="half", length=48)["low"] is None
    assert "main" in names["powers"].model.tolist()
    assert not {"half", "short"} & set(names["powers"].model)  # two lengths each
    apart = names["apart"].set_index("number")
    for name, word in apart.word.items():
        level = records.find(record, "training.apart", number=name)["value"]
        assert level == (0 if word == "among" else 1 + apart.quartiles[name])


def test_the_chapter_with_one_trained_model_alone(hub_of, monkeypatch, tmp_path):
    hub_of(**FIVE)
    names, said, record = read_chapter(monkeypatch, tmp_path, long_lengths=[], windows=1, lengths=[16, 32])
    assert "Trained models and controls are not both here" in said
    assert "1 trained model was measured. What differs *between* trained models, this run cannot say." in said
    assert "Missing: none." in said and "Longer contexts: none was measured." in said
    assert names["powers"].empty and not [r for r in record["results"] if r["id"].startswith("exponent")]
    assert all(result["low"] is None for result in record["results"])
