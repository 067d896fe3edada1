"""Captured queries and keys give the model's own attention; what cannot be captured faithfully is refused."""

from types import SimpleNamespace

import pytest
import torch
import transformers
from attention_limits import capture, intervention, sources
from attention_limits.attention import check_attention
from bad_days import case
from watching import LargestTensor

NAN, INF = float("nan"), float("inf")
SMALL = dict(vocab_size=101, bos_token_id=0, eos_token_id=0, pad_token_id=0)


def built(config, kind):
    torch.manual_seed(0)
    return SimpleNamespace(module=kind(config).eval(), device=torch.device("cpu"))


def gpt2(**changes):
    config = transformers.GPT2Config(
        **{**SMALL, "n_layer": 2, "n_head": 4, "n_embd": 32, "n_positions": 64, **changes}
    )
    return built(config, transformers.GPT2LMHeadModel)


def llama(kind="Llama", **changes):
    shape = dict(
        num_hidden_layers=2,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    config = getattr(transformers, f"{kind}Config")(**{**SMALL, **shape, **changes})
    return built(config, getattr(transformers, f"{kind}ForCausalLM"))


def opt():
    """Its head reads a decoder inside of its base model."""
    shape = dict(
        hidden_size=32, ffn_dim=64, num_attention_heads=4, num_hidden_layers=2, max_position_embeddings=64
    )
    return built(
        transformers.OPTConfig(**SMALL, **shape, word_embed_proj_dim=32), transformers.OPTForCausalLM
    )


def latent():
    """Queries and keys of 12 numbers a head, values of 8 (multi-head latent attention)."""
    shape = dict(q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=8)
    experts = dict(
        n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1, moe_intermediate_size=16
    )
    return llama("DeepseekV3", num_key_value_heads=4, first_k_dense_replace=1, **shape, **experts)


def some_ids(length, seed=1):
    return torch.randint(0, 101, (length,), generator=torch.Generator().manual_seed(seed))


def multiplied(model, factor, parts=("c_attn.weight", "q_proj.weight", "k_proj.weight")):
    """The model with the weights named so multiplied, which makes its attention far from uniform."""
    with torch.no_grad():
        for name, weight in model.module.named_parameters():
            if any(part in name for part in parts):
                weight.mul_(factor)
    return model


def uneven_capture(model, factor, length):
    """A window of which some tokens come again, with equal embeddings, under attention that is far from uniform."""
    ids = some_ids(length)
    ids[10:20] = ids[0:10]
    return capture.capture(multiplied(model, factor), ids)


def eager_attentions(module, ids):
    before = module.config._attn_implementation
    module.set_attn_implementation("eager")
    with torch.no_grad():
        weights = module(ids[None], output_attentions=True).attentions
    module.set_attn_implementation(before)
    return weights


def assert_equals_eager(model, ids):
    seen = capture.capture(model, ids)
    for (layer, head), own in zip(
        seen.heads(), (h for a in eager_attentions(model.module, ids) for h in a[0]), strict=False
    ):
        assert torch.allclose(seen.weights(layer, head), own, atol=1e-5, rtol=0), (layer, head)
    return seen


MODELS = {
    "gpt2": gpt2,
    "gpt2, scaled by layer": lambda: gpt2(scale_attn_by_inverse_layer_idx=True),
    "llama, grouped queries": llama,
    "llama, head_dim of its own": lambda: llama(head_dim=16),
    "qwen3, normalised queries": lambda: llama("Qwen3", head_dim=16),
    "mistral, wide window": lambda: llama("Mistral", sliding_window=64),
    "opt": opt,
    "deepseek, values of another size": latent,
}


@pytest.mark.parametrize("name", MODELS)
def test_weights_equal_the_models_own(name):
    assert_equals_eager(MODELS[name](), some_ids(50))


def test_weights_equal_the_models_own_at_the_size_of_gpt2_124m():
    model = built(transformers.GPT2Config(), transformers.GPT2LMHeadModel)
    assert sum(p.numel() for p in model.module.parameters()) == 124_439_808
    seen = assert_equals_eager(model, some_ids(192))
    assert (len(seen.layers), seen.layers[0].heads, seen.layers[0].q.shape[-1]) == (12, 12, 64)


def test_weights_equal_the_models_own_on_the_embedded_model():
    model = sources.load_model("smollm2-135m", device="cpu")
    text = sources.load_text("king-james").content
    ids = capture.windows(model.tokenizer, text, 256, 1)[0]
    seen = assert_equals_eager(model, ids)
    assert (len(seen.layers), seen.layers[0].heads, seen.layers[0].k.shape[0]) == (30, 9, 3)


@pytest.mark.parametrize("model", [gpt2, llama], ids=["gpt2", "llama"])
def test_layer_input_gives_values_and_embedding_is_the_table(model):
    model, ids = model(), some_ids(30)
    seen = capture.capture(model, ids)
    for index, layer in enumerate(seen.layers):
        if isinstance(model.module, transformers.GPT2LMHeadModel):
            v = model.module.transformer.h[index].attn.c_attn(layer.hidden)[:, 64:]
        else:
            v = model.module.model.layers[index].self_attn.v_proj(layer.hidden)
        assert torch.allclose(v, layer.v.transpose(0, 1).reshape(30, -1), atol=1e-5)
    assert torch.equal(seen.embedding, model.module.get_input_embeddings().weight[ids])
    assert (
        seen.vectors("value", 0, 3).data_ptr()
        == seen.layers[0].v[seen.layers[0].key_value_head(3)].data_ptr()
    )


def test_shared_value_heads():
    layer = capture.capture(llama(), some_ids(10)).layers[0]
    assert [layer.key_value_head(head) for head in range(4)] == [0, 0, 1, 1]


def test_a_prefix_of_a_window_is_the_window_of_the_prefix():
    model, ids = llama(), some_ids(60)
    long, short = capture.capture(model, ids), capture.capture(model, ids[:20])
    for one, two in zip(long.layers, short.layers, strict=True):
        assert torch.allclose(one.q[:, :20], two.q, atol=1e-5)
        assert torch.allclose(one.hidden[:20], two.hidden, atol=1e-5)


def test_nothing_of_size_l_by_l_is_allocated():
    """With L much larger than every other size, no tensor made during a capture reaches heads x L x L entries."""
    length = 2048
    model = gpt2(n_positions=length)
    with LargestTensor() as watch:
        seen = capture.capture(model, some_ids(length))
    assert watch.entries < length * length / 2
    assert seen.layers[0].q.shape == (4, length, 8)


def test_the_model_is_put_back_as_it_was():
    model, ids = gpt2(), some_ids(20)
    before = model.module(ids[None]).logits
    with pytest.raises(capture.CaptureError):
        capture.capture(model, some_ids(65))
    capture.capture(model, ids)
    assert model.module.config._attn_implementation == "sdpa"
    assert torch.equal(model.module(ids[None]).logits, before)
    assert not any(part._forward_pre_hooks for part in model.module.modules())


@pytest.mark.bad_day("a window longer than the model's context")
def test_window_longer_than_the_context_is_refused():
    with pytest.raises(capture.CaptureError, match="65 tokens is longer than the model's context of 64"):
        capture.capture(gpt2(), some_ids(65))


@pytest.mark.bad_day("a window longer than the model's sliding window")
def test_sliding_window_is_refused_only_where_it_changes_the_result():
    model = llama("Mistral", sliding_window=16)
    assert_equals_eager(model, some_ids(16))
    with pytest.raises(capture.CaptureError, match="within 16 tokens"):
        capture.capture(model, some_ids(17))


def test_sliding_window_that_is_switched_off_is_no_obstacle():
    assert_equals_eager(llama("Qwen2", sliding_window=16, use_sliding_window=False), some_ids(40))


def test_layers_that_slide_are_refused():
    model = llama("Qwen2", sliding_window=16, use_sliding_window=True, max_window_layers=1)
    with pytest.raises(capture.CaptureError, match="within 16 tokens"):
        capture.capture(model, some_ids(40))


@pytest.mark.bad_day("a window read by a model that is not causal")
def test_a_model_that_is_not_causal_is_refused():
    config = transformers.BertConfig(
        **SMALL, num_hidden_layers=1, hidden_size=32, intermediate_size=64, num_attention_heads=4
    )
    with pytest.raises(capture.CaptureError, match="not causal"):
        capture.capture(built(config, transformers.BertLMHeadModel), some_ids(10))


@pytest.mark.parametrize("kind", [torch.bool, torch.float32])
def test_masks_that_show_other_than_the_past_are_refused(kind):
    """A mask says what is seen by True, or what is hidden by a number that is added to the logits."""
    query, causal = torch.zeros(1, 1, 4, 2), torch.ones(4, 4, dtype=torch.bool).tril()
    window = causal & ~torch.ones(4, 4, dtype=torch.bool).tril(-2)
    if kind == torch.float32:
        causal, window = (torch.zeros(4, 4).masked_fill(~mask, -torch.inf) for mask in (causal, window))
    check_attention(torch.nn.Module(), query, causal[None, None], None, {})
    with pytest.raises(capture.CaptureError, match="exactly its past"):
        check_attention(torch.nn.Module(), query, window[None, None], None, {})


@pytest.mark.bad_day("a model that caps its logits")
def test_soft_capped_logits_are_refused():
    with pytest.raises(capture.CaptureError, match="softcap"):
        capture.capture(llama("Gemma2", head_dim=8), some_ids(10))


@pytest.mark.bad_day("a model that attends several times in one layer")
def test_a_layer_that_attends_twice_is_refused():
    with pytest.raises(capture.CaptureError, match="more than once in layer 0"):
        capture.capture(llama("DiffLlama"), some_ids(10))


def test_chunks_are_refused_only_where_they_change_the_result():
    config = transformers.Llama4TextConfig(
        **SMALL, num_hidden_layers=2, hidden_size=32, intermediate_size=64, num_attention_heads=4, head_dim=8,
        num_key_value_heads=2, max_position_embeddings=64, num_local_experts=2, attention_chunk_size=16,
    )  # fmt: skip
    model = built(config, transformers.Llama4ForCausalLM)
    assert_equals_eager(model, some_ids(16))
    with pytest.raises(capture.CaptureError, match="within 16 tokens"):
        capture.capture(model, some_ids(17))


@pytest.mark.bad_day("a model whose attention cannot be seen")
def test_a_model_outside_the_attention_interface_is_refused():
    config = transformers.BloomConfig(**SMALL, n_layer=2, hidden_size=32, n_head=4)
    with pytest.raises(capture.CaptureError, match="0 of 2 layers"):
        capture.capture(built(config, transformers.BloomForCausalLM), some_ids(10))


def overwrite(value: float, part: str, *place):
    """Put a value into one place of a layer's attention weights; GPT-2 keeps queries, keys and values side by side."""

    def harm(model):
        with torch.no_grad():
            (model.module.get_parameter(part)[place] if place else model.module.get_parameter(part)).fill_(
                value
            )

    return harm


@pytest.mark.parametrize(
    ("make", "harm", "complaint"),
    [
        case(
            "a NaN in the weights of a query",
            gpt2,
            overwrite(NAN, "transformer.h.1.attn.c_attn.weight", 0, 9),
            "layer 1, head 1: the query holds NaN",
        ),
        case(
            "an infinity in the weights of a key",
            gpt2,
            overwrite(INF, "transformer.h.0.attn.c_attn.weight", 0, 32 + 31),
            "layer 0, head 3: the key holds NaN",
        ),
        case(
            "a NaN in the weights of a value",
            gpt2,
            overwrite(NAN, "transformer.h.1.attn.c_attn.weight", 5, 64 + 16),
            "layer 1, head 2: the value holds NaN",
        ),
        case(
            "a NaN in the weights of a key that two heads share",
            llama,
            overwrite(NAN, "model.layers.1.self_attn.k_proj.weight", 8, 0),
            "layer 1, head 2: the key holds NaN",
        ),
        case(
            "a NaN in the embedding",
            gpt2,
            overwrite(NAN, "transformer.wte.weight"),
            "layer 0: the input holds NaN",
        ),
        case(
            "weights whose logits are infinite",
            llama,
            overwrite(1e25, "model.layers.0.self_attn.q_proj.weight"),
            "layer 0, head 0: queries .up to .e.*infinite in float32",
        ),
    ],
)
def test_broken_weights_are_named_with_layer_and_head(make, harm, complaint):
    model = make()
    if "infinite in" in complaint:
        overwrite(1e25, "model.layers.0.self_attn.k_proj.weight")(model)
    harm(model)
    with pytest.raises(capture.CaptureError, match=complaint):
        capture.capture(model, some_ids(10))


@pytest.mark.bad_day("a model whose output is NaN while its attention is sound")
def test_a_broken_output_is_named_where_the_loss_is_read():
    model = gpt2()
    with torch.no_grad():
        model.module.transformer.ln_f.weight[0] = NAN
    with pytest.raises(capture.CaptureError, match="GPT2LMHeadModel: the loss is NaN or infinite"):
        intervention.loss(model, some_ids(10))


def test_unknown_space_is_refused():
    seen = capture.capture(gpt2(), some_ids(10))
    with pytest.raises(ValueError, match="'hiden'; it must be one of hidden, embedding, value"):
        seen.vectors("hiden", 0, 0)


class Words:
    """A tokenizer with one token per word, whose last token of a cut text may differ, as real ones' do."""

    def __init__(self):
        self.longest = 0

    def __call__(self, text, **_):
        self.longest = max(self.longest, len(text))
        return {"input_ids": [len(word) for word in text.split()]}


def test_windows_are_consecutive_and_read_no_more_than_needed():
    words, text = Words(), " ".join("x" * (1 + i % 7) for i in range(200_000))
    found = capture.windows(words, text, 100, 3)
    assert found.shape == (3, 100)
    assert found.flatten().tolist() == [1 + i % 7 for i in range(300)]
    assert words.longest < 20_000


def test_windows_do_not_depend_on_where_the_text_was_cut():
    # 27 characters a token: read in several steps.
    text = " ".join("abcdefghijklmnopqrstuvwxyz" for _ in range(100))
    assert capture.windows(Words(), text, 50, 2).eq(26).all()


@pytest.mark.bad_day("a text with fewer tokens than the windows need")
def test_short_text_is_refused():
    with pytest.raises(capture.CaptureError, match=r"5 tokens, but 2 window\(s\) of 4 need 8"):
        capture.windows(Words(), "a b c d e", 4, 2)


@pytest.mark.parametrize(("length", "count"), [(1, 1), (4, 0)])
def test_windows_that_make_no_sense_are_refused(length, count):
    with pytest.raises(capture.CaptureError, match=f"length is {length} and windows is {count}"):
        capture.windows(Words(), "a b c d e", length, count)


def test_captures_yields_each_window(monkeypatch):
    model = gpt2()
    model.tokenizer = Words()
    text = " ".join("x" * (1 + i % 90) for i in range(100))
    seen = list(capture.captures(model, text, 40, 2))
    assert torch.equal(
        torch.cat([part.ids for part in seen]), capture.windows(Words(), text, 40, 2).flatten()
    )
    with pytest.raises(capture.CaptureError, match="context of 64"):
        next(capture.captures(model, text, 65, 1))


def test_a_call_without_a_mask_is_taken_at_its_word():
    """SDPA gets no mask where causality can be asked for instead; what it asks for, or else its module, decides."""
    query, module = torch.zeros(1, 1, 3, 2), torch.nn.Module()
    check_attention(module, query, None, True, {})
    check_attention(module, query, None, None, {})
    module.is_causal = False
    with pytest.raises(capture.CaptureError, match="is not causal"):
        check_attention(module, query, None, None, {})
    check_attention(module, query, None, True, {})
