"""Models from a folder: loaded in float32 and causal, or refused with the reason."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import shutil
from pathlib import Path

import pytest
from attention_limits import sources
from attention_limits.sources import base, folders
from bad_days import case


def change_config(folder: Path, **values) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def refused(folder: Path, complaint: str) -> None:
    with pytest.raises(sources.SourceError, match=complaint):
        sources.load_model(str(folder), "cpu")


def test_a_folder_gives_exactly_its_weights(tiny):
    import torch
    from safetensors.torch import load_file

    model = sources.load_model(str(tiny), "cpu")
    stored = load_file(tiny / "model.safetensors")
    loaded = model.module.state_dict()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in stored.items())
    assert {parameter.dtype for parameter in model.module.parameters()} == {torch.float32}
    assert model.device == torch.device("cpu") and not model.module.training
    assert (model.provenance.name, model.provenance.requested) == ("tiny", "tiny")
    assert str(tiny.parent) not in json.dumps(model.provenance.to_json())
    assert model.provenance.sha256 == base.sha256_file(tiny / "model.safetensors")


def test_half_precision_is_widened(tiny):
    import torch
    from safetensors.torch import load_file, save_file

    half = {name: tensor.half() for name, tensor in load_file(tiny / "model.safetensors").items()}
    save_file(half, tiny / "model.safetensors", metadata={"format": "pt"})
    change_config(tiny, dtype="float16")
    module = sources.load_model(str(tiny), "cpu").module
    assert module.dtype == torch.float32
    assert torch.equal(module.transformer.wte.weight, half["transformer.wte.weight"].float())


def test_weights_in_several_files(tiny):
    from transformers import GPT2LMHeadModel

    model = GPT2LMHeadModel.from_pretrained(tiny)
    (tiny / "model.safetensors").unlink()
    model.save_pretrained(tiny, max_shard_size="5KB")
    shards = sorted(tiny.glob("model-*.safetensors"))
    assert len(shards) > 1
    provenance = sources.load_model(str(tiny), "cpu").provenance
    lines = "".join(f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in shards)
    assert provenance.sha256 == hashlib.sha256(lines.encode()).hexdigest()
    assert provenance.size == sum(p.stat().st_size for p in shards)
    shards[0].unlink()
    refused(tiny, f"lacks {shards[0].name}, which its index names")


def change_weights(folder: Path, change) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def cut(folder: Path, size: int) -> None:
    path = folder / "model.safetensors"
    os.truncate(path, size if size > 0 else path.stat().st_size + size)


def pickle_instead(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def without_a_tensor(folder: Path) -> None:
    change_weights(folder, lambda weights: weights.pop("transformer.h.0.attn.c_attn.weight"))


def with_a(value: float, folder: Path) -> None:
    change_weights(folder, lambda weights: weights["transformer.h.0.mlp.c_fc.weight"][3].fill_(value))


def of_another_shape(folder: Path) -> None:
    def halve(weights):
        weights["transformer.h.0.mlp.c_fc.weight"] = weights["transformer.h.0.mlp.c_fc.weight"][:4].clone()

    change_weights(folder, halve)


def huge(folder: Path) -> None:
    """Finite weights whose products are not."""
    change_weights(folder, lambda weights: weights["transformer.wte.weight"].fill_(1e38))


def config(text: str):
    return lambda folder: (folder / "config.json").write_bytes(text.encode("latin-1"))


def index(text: str):
    def write(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        (folder / folders.INDEX).write_text(text)

    return write


@pytest.mark.parametrize(
    ("harm", "complaint"),
    [
        case("weights that lack their last byte", lambda f: cut(f, -1), "is truncated or damaged"),
        case("weights of four bytes", lambda f: cut(f, 4), "is truncated or damaged"),
        case(
            "weights that are a folder",
            lambda f: (f / "model.safetensors").unlink() or (f / "model.safetensors").mkdir(),
            "has no weights as safetensors",
        ),
        case(
            "no weights at all",
            lambda f: (f / "model.safetensors").unlink(),
            "has no weights as safetensors",
        ),
        case(
            "weights as a pickle only",
            pickle_instead,
            "pytorch_model.bin: pickle files are refused",
        ),
        case(
            "weights that lack a tensor",
            without_a_tensor,
            r"1 tensors are missing \(transformer.h.0.attn.c_attn.weight\)",
        ),
        case(
            "a tensor of another shape",
            of_another_shape,
            "could not load .* as a causal language model",
        ),
        case(
            "weights with NaN",
            lambda f: with_a(math.nan, f),
            "weights of 'tiny' are broken: transformer.h.0.mlp.c_fc.weight holds NaN",
        ),
        case(
            "weights with infinity",
            lambda f: with_a(math.inf, f),
            "transformer.h.0.mlp.c_fc.weight holds NaN or infinite",
        ),
        case(
            "weights so large that every output is NaN",
            huge,
            "'tiny' is broken: its outputs are NaN or infinite",
        ),
        case(
            "an index that names a file outside its folder",
            index('{"weight_map": {"w": "../outside.safetensors"}}'),
            "names a file outside its folder",
        ),
        case("an index that is a list", index("[]"), "index.json of 'tiny' is damaged"),
        case("an index of numbers", index('{"weight_map": {"w": 1}}'), "index.json of 'tiny' is damaged"),
        case(
            "an index that breaks off",
            index('{"weight_map": '),
            "index.json of 'tiny' is damaged",
        ),
        case(
            "an index of a file that is not there",
            index('{"weight_map": {"w": "gone.safetensors"}}'),
            "lacks gone.safetensors, which its index names",
        ),
    ],
)
def test_weights_that_cannot_be_used(tiny, harm, complaint):
    harm(tiny)
    refused(tiny, complaint)


@pytest.mark.parametrize(
    ("harm", "complaint"),
    [
        case(
            "a config of another shape than the weights",
            lambda f: change_config(f, n_embd=16),
            "could not load .* as a causal language model",
        ),
        case(
            "a config that asks for code of the model's folder",
            lambda f: change_config(
                f, auto_map={"AutoModelForCausalLM": "evil.Model"}, architectures=["Model"]
            ),
            "needs code from its own folder .*never run",
        ),
        case(
            "a config that breaks off",
            config('{"architectures": ["GPT2LM'),
            "config.json of the model .* is damaged",
        ),
        case("a config that is a list", config("[]"), "config.json of the model .* is damaged"),
        case("an empty config", config(""), "config.json of the model .* is damaged"),
        case(
            "a config that is not UTF-8",
            config('{"model_type": "\xe9"}'),
            "config.json of the model .* is damaged",
        ),
        case(
            "a config of an unknown architecture",
            config('{"model_type": "no-such-type"}'),
            "could not load",
        ),
        case("no config", lambda f: (f / "config.json").unlink(), "has no config.json"),
        case(
            "a tokenizer that breaks off",
            lambda f: os.truncate(f / "tokenizer.json", 100),
            "could not load",
        ),
        case(
            "no tokenizer",
            lambda f: [part.unlink() for part in f.glob("tokenizer*")],
            "has no tokenizer .tokenizer.json or",
        ),
    ],
)
def test_configs_and_tokenizers_that_cannot_be_used(tiny, harm, complaint):
    harm(tiny)
    refused(tiny, complaint)


def test_a_config_that_names_code_too_is_read_by_transformers_own_class(tiny):
    """As many folders are that were made before transformers had their architecture."""
    change_config(tiny, auto_map={"AutoModelForCausalLM": "evil.Model"})
    (tiny / "evil.py").write_text("raise SystemExit('it ran')\n")
    assert type(sources.load_model(str(tiny), device="cpu").module).__name__ == "GPT2LMHeadModel"


@pytest.mark.bad_day("a tokenizer that asks for code of the model's folder")
def test_code_in_a_models_folder_never_runs(tiny, tmp_path):
    """Whatever file of the folder asks for it."""
    made = tmp_path / "made"
    (tiny / "evil.py").write_text(f"open({str(made)!r}, 'w').close()\nModel = Tokenizer = None\n")
    path = tiny / "tokenizer_config.json"
    settings = json.loads(path.read_text()) | {
        "auto_map": {"AutoTokenizer": ["evil.Tokenizer", "evil.Tokenizer"]}
    }
    path.write_text(json.dumps(settings))
    with contextlib.suppress(sources.SourceError):
        sources.load_model(str(tiny), "cpu")
    assert not made.exists()


@pytest.mark.bad_day("a model that sees the whole text")
@pytest.mark.bad_day("an encoder-decoder")
def test_models_that_are_not_causal(tmp_path, tiny):
    from transformers import BertConfig, BertForMaskedLM, T5Config, T5ForConditionalGeneration

    bert = BertConfig(
        vocab_size=256, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    t5 = T5Config(vocab_size=256, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    for made, complaint in (
        (BertForMaskedLM(bert), "is not causal: a change of the last token moves earlier outputs"),
        (T5ForConditionalGeneration(t5), r"encoder-decoder \(T5ForConditionalGeneration\)"),
    ):
        folder = tmp_path / type(made).__name__
        made.save_pretrained(folder)
        for part in tiny.glob("tokenizer*"):
            shutil.copy(part, folder)
        refused(folder, complaint)


@pytest.mark.bad_day("a model's name that no file can have")
@pytest.mark.bad_day("a model in the home of an unknown user")
def test_names_that_no_folder_can_have():
    for name in ("~nobody-of-this-name/model", "./" + "a" * 300, "a\0b"):
        for ask in (sources.fetch_model, sources.check_local_model):
            with pytest.raises(sources.SourceError, match="no such folder"):
                ask(name)
        assert sources.context_length(name) is None


@pytest.mark.bad_day("a model card that is no YAML")
def test_a_broken_card_names_no_licence(tiny):
    (tiny / "README.md").write_text("---\ntags: [a: b: c\n---\n")
    assert sources.fetch_model(str(tiny))[1].licence == "unknown (no model card names one)"


@pytest.mark.bad_day("the path of a model that is not there")
@pytest.mark.bad_day("the path of a model that is a file")
def test_paths_that_are_no_folder(tmp_path):
    refused(tmp_path / "nothing", "no such folder")
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", "a file, not a folder")


def test_the_context_is_known_from_the_config_alone(tiny):
    (tiny / "model.safetensors").unlink()
    assert sources.context_length(str(tiny)) == 32
    for values, context in (
        ({"n_positions": None, "max_position_embeddings": 77}, 77),
        ({"n_positions": None, "text_config": {"max_position_embeddings": 50}}, 50),
        ({"sliding_window": 16}, 16),
        ({"sliding_window": 16, "use_sliding_window": False}, 50),
        ({"sliding_window": 16, "layer_types": ["full_attention"]}, 50),
        ({"sliding_window": 64, "use_sliding_window": True, "layer_types": ["sliding_attention"]}, 50),
        ({"text_config": None, "max_position_embeddings": None}, 64),
    ):
        change_config(tiny, **values)
        assert sources.context_length(str(tiny)) == context, values
    (tiny / "config.json").write_text("[]")
    assert sources.context_length(str(tiny)) is None
    assert sources.context_length("someone/not-here") is None
    assert sources.context_length("smollm2-135m") is None  # the cache of these tests is empty


def test_a_relative_folder_wins_over_a_hub_name(tiny, monkeypatch):
    monkeypatch.chdir(tiny.parent.parent)
    assert sources.fetch_model("models/tiny")[1].origin == "a local folder"


@pytest.mark.bad_day("a device that this machine does not have")
def test_devices(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert sources.pick_device("auto") == sources.pick_device("cpu") == torch.device("cpu")
    for name in ("cuda", "mps"):
        with pytest.raises(sources.SourceError, match=f"'{name}' was asked for.*DEVICE=cpu"):
            sources.pick_device(name)
    with pytest.raises(sources.SourceError, match=r"Unknown device 'gpu'.*auto, cpu, cuda, mps"):
        sources.pick_device("gpu")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert sources.pick_device("auto") == torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert sources.pick_device("auto") == torch.device("cuda")
