"""Models from a folder: loaded in float32 and causal, or refused with the reason."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest
from attention_limits import sources
from attention_limits.sources import base, folders


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
    index = tiny / folders.INDEX
    index.write_text(json.dumps({"weight_map": {"w": "../outside.safetensors"}}))
    refused(tiny, "names a file outside its folder")
    index.write_text("[]")
    refused(tiny, "index.json of 'tiny' is damaged")


def test_truncated_missing_and_pickled_weights(tiny):
    path = tiny / "model.safetensors"
    os.truncate(path, path.stat().st_size - 1)
    refused(tiny, "model.safetensors of the model .* is truncated or damaged")
    os.truncate(path, 4)
    refused(tiny, "truncated or damaged")
    path.rename(tiny / "pytorch_model.bin")
    refused(tiny, "pytorch_model.bin: pickle files are refused")
    (tiny / "pytorch_model.bin").unlink()
    refused(tiny, "has no weights as safetensors")


def test_missing_tensors_are_named(tiny):
    from safetensors.torch import load_file, save_file

    weights = load_file(tiny / "model.safetensors")
    del weights["transformer.h.0.attn.c_attn.weight"]
    save_file(weights, tiny / "model.safetensors", metadata={"format": "pt"})
    refused(tiny, r"1 tensors are missing \(transformer.h.0.attn.c_attn.weight\)")


def test_configs_that_cannot_be_used(tiny):
    original = (tiny / "config.json").read_text()
    change_config(tiny, n_embd=16)
    refused(tiny, "could not load .* as a causal language model")
    change_config(tiny, auto_map={"AutoModelForCausalLM": "evil.Model"})
    refused(tiny, "needs code from its own folder .*never run")
    (tiny / "config.json").write_text(original[:40])
    refused(tiny, "config.json of the model .* is damaged")
    (tiny / "config.json").write_text('{"model_type": "no-such-type"}')
    refused(tiny, "could not load")
    (tiny / "config.json").unlink()
    refused(tiny, "has no config.json")


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


def test_a_folder_without_a_tokenizer(tiny):
    for part in tiny.glob("tokenizer*"):
        part.unlink()
    refused(tiny, "has no tokenizer .tokenizer.json or")


def test_paths_that_are_no_folder(tmp_path):
    refused(tmp_path / "nothing", "no such folder")
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", "a file, not a folder")


def test_a_relative_folder_wins_over_a_hub_name(tiny, monkeypatch):
    monkeypatch.chdir(tiny.parent.parent)
    assert sources.fetch_model("models/tiny")[1].origin == "a local folder"


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
