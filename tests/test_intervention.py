"""Selection in the running model against a plain attention of loops, and the loss against the model's own."""

import numpy as np
import pytest
import torch
import transformers
from attention_limits import capture, intervention, selection, sources
from attention_limits.intervention import (
    Selection,
    changes,
    head_effects,
    loss,
    loss_curve,
    sampled_heads,
    spread_windows,
    untouched,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from test_capture import SMALL, Words, built, gpt2, latent, llama, multiplied, opt, some_ids
from watching import LargestTensor

MODELS = pytest.mark.parametrize("model", [gpt2, llama], ids=["gpt2", "llama"])
EVERY = pytest.mark.parametrize("model", [gpt2, llama, opt, latent], ids=["gpt2", "llama", "opt", "deepseek"])
LENGTH = 24


def uneven(model):
    """The small model with attention that is far from uniform, so that a selection matters."""
    return multiplied(model(), 8, ("c_attn.weight", "_proj.weight", "q_b_proj", "kv_b_proj", "mlp", "fc"))


def own_loss(model, ids):
    """Mean loss as the model computes it from labels, with its eager attention."""
    before = model.module.config._attn_implementation
    model.module.set_attn_implementation("eager")
    with torch.no_grad():
        found = model.module(ids[None], labels=ids[None]).loss.item()
    model.module.set_attn_implementation(before)
    return found


def slow_loss(model, ids, keep):
    """The same model on an attention written as loops over heads and rows, in float64, with Python's sort."""

    def attend(attention, query, key, value, _mask, scaling=None, **_):
        heads, length = query.shape[1], query.shape[2]
        out = torch.zeros(1, length, heads, value.shape[3])
        for head in range(heads):
            own = head * key.shape[1] // heads
            draws = np.random.default_rng([keep.seed, attention.layer_idx, head])
            draws = draws.random((length, length), dtype=np.float32)
            for t in range(length):
                n = t + 1
                logits = (query[0, head, t].double() @ key[0, own, :n].double().T * scaling).numpy()
                weights = np.exp(logits - logits.max())
                weights /= weights.sum()
                if keep.heads is None or (attention.layer_idx, head) in keep.heads:
                    scores = draws[t] if keep.rule.startswith("random") else weights
                    kept = sorted(range(n), key=lambda i: (-scores[i], i))[: keep.top_n]
                    mask = np.isin(np.arange(n), kept)
                    weights = weights * mask
                    if keep.rule.endswith("renormalised"):
                        weights /= weights.sum()
                out[0, t, head] = (torch.from_numpy(weights) @ value[0, own, :n].double()).float()
        return out, None

    transformers.AttentionInterface.register("slow_selection", attend)
    before = model.module.config._attn_implementation
    model.module.set_attn_implementation("slow_selection")
    try:
        return own_loss_as_set(model, ids)
    finally:
        model.module.set_attn_implementation(before)


def own_loss_as_set(model, ids):
    with torch.no_grad():
        logits = model.module(ids[None]).logits[0, :-1].double()
    return torch.nn.functional.cross_entropy(logits, ids[1:]).item()


# --- full attention ------------------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("rule", selection.RULES)
def test_full_attention_through_the_intervention_is_the_models_own_loss(model, rule):
    model, ids = uneven(model), some_ids(40)
    for top_n in (40, 1000):
        mean, tokens = loss(model, ids, Selection(top_n, rule))
        assert mean == pytest.approx(own_loss(model, ids), abs=1e-5)
        assert tokens.dtype == torch.float64
        assert tokens.tolist() == pytest.approx(loss(model, ids)[1].tolist(), abs=1e-5)


def test_full_attention_through_the_intervention_on_the_embedded_model():
    model = sources.load_model("smollm2-135m", device="cpu")
    ids = capture.windows(model.tokenizer, sources.load_text("king-james").content, 96, 1)[0]
    own = own_loss(model, ids)
    assert loss(model, ids)[0] == pytest.approx(own, abs=1e-5)
    assert loss(model, ids, Selection(96))[0] == pytest.approx(own, abs=1e-5)
    assert loss(model, ids, Selection(2))[0] > own + 0.1


@MODELS
def test_the_last_targets_are_scored(model):
    model, ids = model(), some_ids(30)
    every = loss(model, ids)[1]
    mean, tokens = loss(model, ids, targets=7)
    assert len(every) == 29
    assert tokens.tolist() == pytest.approx(every[-7:].tolist(), abs=1e-6)
    assert mean == pytest.approx(np.mean(tokens.tolist()))


# --- selection -----------------------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("rule", selection.RULES)
@pytest.mark.parametrize("top_n", [1, 3, 10])
def test_selection_equals_an_attention_of_loops(model, rule, top_n):
    model, ids = uneven(model), some_ids(LENGTH)
    for heads in (None, frozenset({(0, 1), (1, 0), (1, 3)})):
        keep = Selection(top_n, rule, heads, seed=3)
        found, expected = loss(model, ids, keep)[0], slow_loss(model, ids, keep)
        assert found == pytest.approx(expected, abs=2e-5)
        assert abs(found - own_loss(model, ids)) > 1e-4  # the selection does something that could be missed


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 99), st.integers(1, 6))
def test_what_a_selection_loses_is_the_weight_left_out_times_a_mean(seed, top_n):
    """Proposition prop-selection-error, with the outputs that the running model would get."""
    length, rng = 7, np.random.default_rng(seed)
    q, k, v = rng.normal(size=(3, length, 4))
    tensors = [torch.from_numpy(part)[None] for part in (q, k, v)]
    found = {
        rule: torch.cat([part[0] for _, part in selection._selected(*tensors, Selection(top_n, rule), None)])
        for rule in ("unchanged", "renormalised")
    }
    logits = q[-1] @ k.T
    alpha = np.exp(logits) / np.exp(logits).sum()
    order = np.argsort(-alpha)
    kept, rest = order[:top_n], order[top_n:]
    left = alpha[rest].sum()
    mean_kept = alpha[kept] @ v[kept] / (1 - left)
    mean_rest = alpha[rest] @ v[rest] / left
    np.testing.assert_allclose(alpha @ v - found["unchanged"][-1].numpy(), left * mean_rest, atol=1e-12)
    lost = alpha @ v - found["renormalised"][-1].numpy()
    np.testing.assert_allclose(lost, left * (mean_rest - mean_kept), atol=1e-12)


@MODELS
def test_nothing_kept_is_a_head_without_output(model):
    model, ids = uneven(model), some_ids(LENGTH)
    found = loss(model, ids, Selection(0, heads=frozenset({(1, 2)})))[0]
    with torch.no_grad():
        if isinstance(model.module, transformers.GPT2LMHeadModel):
            model.module.transformer.h[1].attn.c_proj.weight[16:24] = 0  # (in, out), heads of 8
        else:
            model.module.model.layers[1].self_attn.o_proj.weight[:, 16:24] = 0  # (out, in)
    assert found == pytest.approx(own_loss(model, ids), abs=1e-5)


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.lists(st.sampled_from([0.0, 1.0, 2.0, -np.inf]), min_size=6, max_size=6), min_size=1, max_size=4
    ),
    st.integers(0, 8),
)
def test_of_equal_scores_the_lower_position_is_kept(rows, count):
    kept = selection._largest(torch.tensor(rows), count)
    for row, flags in zip(rows, kept.tolist(), strict=True):
        best = sorted(range(6), key=lambda i: (-row[i], i))[:count]
        expected = [i in best and row[i] > -np.inf for i in range(6)]
        assert [flag and value > -np.inf for flag, value in zip(flags, row, strict=True)] == expected


def random_kept(seed, count):
    """Kept sets of 300 rows that see 12 keys, of two heads: (2, 300, 12) of zeros and ones."""
    draw = selection._random_scores(Selection(count, "random", seed=seed), 5, [0, 1])
    scores = draw(torch.zeros(300, 1), 12, torch.zeros(2, 300, 12))
    return selection._largest(scores, count).int()


def test_random_keys_are_uniform_seeded_and_new_for_each_query_and_head():
    kept = random_kept(0, 4)
    assert (kept.sum(-1) == 4).all()
    # Each key is kept with probability 1/3: 600 draws have a standard deviation of 0.0192.
    assert (kept.double().mean((0, 1)) - 1 / 3).abs().max() < 4.5 * (2 / 9 / 600) ** 0.5
    assert torch.equal(kept, random_kept(0, 4))
    # Two independent 4-sets of 12 keys share 4/3 keys on average, with variance 4 * 1/3 * 2/3 * 8/11.
    for other in (random_kept(1, 4)[0], kept[1], kept[0].roll(1, 0)):
        shared = (kept[0] * other).sum(-1).double().mean()
        assert abs(shared - 4 / 3) < 4.5 * (4 * 2 / 9 * 8 / 11 / 300) ** 0.5


@pytest.mark.parametrize("rule", selection.RULES)
def test_block_size_changes_nothing(rule, monkeypatch):
    model, ids = uneven(llama), some_ids(LENGTH)
    whole = loss(model, ids, Selection(3, rule))[1]
    for part in (selection, intervention):
        monkeypatch.setattr(part, "_BLOCK", 5 * 4 * LENGTH)  # five rows, and the logits of four positions
    assert loss(model, ids, Selection(3, rule))[1].tolist() == pytest.approx(whole.tolist(), abs=1e-5)


@EVERY
def test_changes_are_the_rise_in_loss_and_the_divergence(model):
    model, ids = uneven(model), some_ids(LENGTH)
    known = untouched(model, ids)
    ran = []
    part = next(m for m in model.module.modules() if getattr(m, "layer_idx", None) == 0)
    hook = part.register_forward_hook(lambda *_: ran.append(True))
    for heads in ({(1, 2)}, {(0, 0), (1, 2)}):
        keep = Selection(2, heads=frozenset(heads))
        ran.clear()
        rises, divergences = changes(model, known, keep, targets=9)
        assert bool(ran) == ((0, 0) in heads)  # the attention of layer 0 ran only where it had to
        expected = loss(model, ids, keep, targets=9)[1] - loss(model, ids, targets=9)[1]
        assert rises.tolist() == pytest.approx(expected.tolist(), abs=1e-5)
        p, q = predictions(model, ids, None), predictions(model, ids, keep)
        kl = [sum(a * np.log(a / b) for a, b in zip(*rows, strict=True)) for rows in zip(p, q, strict=True)]
        assert divergences.tolist() == pytest.approx(kl[-10:-1], rel=1e-3, abs=1e-6)
        assert min(divergences) > 1e-4
    hook.remove()


def predictions(model, ids, keep):
    """Probabilities of the next token at each position, (L, vocabulary) float64."""
    with torch.no_grad():
        if keep is None:
            return model.module(ids[None]).logits[0].double().softmax(-1).numpy()
        with selection.selecting(model.module, keep):
            return model.module(ids[None]).logits[0].double().softmax(-1).numpy()


@EVERY
def test_full_attention_changes_nothing(model):
    model, ids = uneven(model), some_ids(LENGTH)
    rises, divergences = changes(model, untouched(model, ids), Selection(LENGTH))
    assert rises.abs().max() < 1e-5
    assert divergences.min() >= 0 and divergences.max() < 1e-9


def test_nothing_of_size_heads_by_l_by_l_is_allocated(monkeypatch):
    length = 2048
    model = gpt2(n_positions=length)
    for part in (selection, intervention):
        monkeypatch.setattr(part, "_BLOCK", 1 << 18)
    for rule in selection.RULES:
        with LargestTensor() as watch:
            loss(model, some_ids(length), Selection(8, rule))
        # A block, or the widest layer: 4 times 32 numbers a token.
        assert watch.entries <= max(1 << 18, length * 4 * 32)


@MODELS
def test_the_model_is_put_back_as_it_was(model):
    model, ids = model(), some_ids(20)
    before = model.module(ids[None]).logits
    changes(model, untouched(model, ids), Selection(2, heads=frozenset({(1, 1)})))
    with pytest.raises(ValueError, match="heads"):
        loss(model, ids, Selection(2, heads=frozenset({(0, 9)})))
    with torch.no_grad():
        saved = model.module.lm_head.weight[0, 0].clone()
        model.module.lm_head.weight[0, 0] = float("nan")
        with pytest.raises(capture.CaptureError, match="loss is NaN"):
            loss(model, ids, Selection(2))
        model.module.lm_head.weight[0, 0] = saved
    assert model.module.config._attn_implementation == "sdpa"
    assert torch.equal(model.module(ids[None]).logits, before)
    assert not any("forward" in part.__dict__ for part in model.module.modules())


# --- whole curves and many heads -----------------------------------------------------------------------------------


def test_loss_curve_is_the_loss_of_each_selection():
    model, ids = uneven(llama), some_ids(LENGTH)
    found = loss_curve(model, ids, top_ns=[5, 1], rules=["renormalised", "random"], targets=9, seed=4)
    assert found[["rule", "top_n"]].values.tolist() == [
        [r, n] for r in ("renormalised", "random") for n in (1, 5)
    ]
    for row in found.itertuples():
        expected = loss(model, ids, Selection(row.top_n, row.rule, seed=4), targets=9)[0]
        assert (row.loss, row.full) == pytest.approx((expected, loss(model, ids, targets=9)[0]), abs=1e-9)


def test_head_effects_are_the_changes_of_one_head_each():
    model, ids = uneven(llama), some_ids(LENGTH)
    heads = [(0, 3), (1, 1)]
    found = head_effects(
        model, ids, heads=heads, top_ns=[2, 4], rules=["unchanged", "random"], targets=9, seed=4
    )
    assert len(found) == 8
    full = loss(model, ids, targets=9)[1]
    for row in found.itertuples():
        keep = Selection(row.top_n, row.rule, frozenset({(row.layer, row.head)}), seed=4)
        rises = (loss(model, ids, keep, targets=9)[1] - full).numpy()
        assert row.rise == pytest.approx(rises.mean(), abs=1e-6)
        assert row.error == pytest.approx(rises.std(ddof=1) / 3, abs=1e-6)
        divergences = changes(model, untouched(model, ids), keep, targets=9)[1]
        assert row.divergence == pytest.approx(float(divergences.mean()), rel=1e-5)
    assert np.isnan(
        head_effects(model, ids, heads=heads[:1], top_ns=[2], rules=["random"], targets=1).error[0]
    )


@pytest.mark.parametrize(
    ("step", "per_layer", "expected"),
    [
        (1, 1, [(0, 0), (1, 0), (2, 0)]),
        (2, 2, [(0, 0), (0, 3), (2, 0), (2, 3)]),
        (3, 3, [(0, 0), (0, 2), (0, 3)]),
        (9, 9, [(0, 0), (0, 1), (0, 2), (0, 3)]),
    ],
)
def test_sampled_heads_are_spread_evenly(step, per_layer, expected):
    assert sampled_heads(gpt2(n_layer=3), step, per_layer) == expected


def test_spread_windows_leave_out_what_lies_between():
    model = gpt2()
    model.tokenizer = Words()
    text = " ".join("x" * (1 + i % 90) for i in range(200))
    every = capture.windows(Words(), text, 10, 9)
    assert torch.equal(spread_windows(model, text, 10, 3, 4), every[[0, 4, 8]])
    assert torch.equal(spread_windows(model, text, 10, 9, 1), every)


# --- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Selection(2, "top"), "rule is 'top'; it must be one of unchanged, renormalised, random"),
        (lambda: Selection(0, "renormalised"), "top_n is 0; it must be at least 1"),
        (lambda: Selection(-1), "top_n is -1"),
        (lambda: Selection(2, seed=-1), "seed is -1; it must be at least 0"),
        (
            lambda: spread_windows(gpt2(), "a b c", 2, 0, 1),
            "windows is 0 and apart is 1; both must be at least 1",
        ),
        (lambda: spread_windows(gpt2(), "a b c", 2, 1, 0), "windows is 1 and apart is 0"),
        (lambda: Selection(2, heads=frozenset()), "heads is empty"),
        (lambda: loss(gpt2(), some_ids(9), targets=9), "targets is 9; a window of 9 tokens has 1 to 8"),
        (lambda: loss(gpt2(), some_ids(9), targets=0), "targets is 0"),
        (
            lambda: loss(gpt2(), some_ids(9), Selection(2, heads=frozenset({(2, 0), (1, 4), (1, 1)}))),
            r"heads \[\(1, 4\), \(2, 0\)\]: the model has layers 0 to 1 with heads 0 to 3",
        ),
        (
            lambda: loss_curve(gpt2(), some_ids(9), top_ns=[9], rules=["random"]),
            r"top_ns are \[9\].* from 1 to 8",
        ),
        (lambda: loss_curve(gpt2(), some_ids(9), top_ns=[0], rules=["random"]), r"top_ns are \[0\]"),
        (
            lambda: loss_curve(gpt2(), some_ids(9), top_ns=[2], rules=["best"]),
            "rules is .*best.*out of unchanged",
        ),
        (lambda: head_effects(gpt2(), some_ids(9), heads=[(0, 0)], top_ns=[2], rules=[]), "rules is"),
        (lambda: sampled_heads(gpt2(), 0, 1), "layer_step is 0; it must be at least 1"),
        (lambda: sampled_heads(gpt2(), 1, 0), "heads_per_layer is 0"),
    ],
)
def test_senseless_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def bert():
    shape = dict(num_hidden_layers=1, hidden_size=32, intermediate_size=64, num_attention_heads=4)
    return built(transformers.BertConfig(**SMALL, **shape), transformers.BertLMHeadModel)


def bloom():
    return built(
        transformers.BloomConfig(**SMALL, n_layer=2, hidden_size=32, n_head=4), transformers.BloomForCausalLM
    )


@pytest.mark.parametrize(
    ("model", "length", "message"),
    [
        (lambda: gpt2(), 65, "65 tokens is longer than the model's context of 64"),
        (lambda: llama("Mistral", sliding_window=16), 17, "within 16 tokens"),
        (lambda: llama("DiffLlama"), 10, "more than once in layer 0"),
        (lambda: llama("Gemma2", head_dim=8), 10, "softcap"),
        (bert, 10, "not causal"),
        (bloom, 10, "0 of 2 layers|no list of 2 layers"),
    ],
)
def test_models_that_capture_refuses_are_refused(model, length, message):
    with pytest.raises(capture.CaptureError, match=message):
        loss(model(), some_ids(length), Selection(2))


def test_a_model_whose_layers_are_in_no_list_is_refused():
    model = gpt2()
    layers = model.module.transformer.h
    # A list in which entry i does not hold the attention of layer i.
    layers[0], layers[1] = layers[1], layers[0]
    with pytest.raises(capture.CaptureError, match="GPT2LMHeadModel has no list of 2 layers"):
        untouched(model, some_ids(LENGTH))
