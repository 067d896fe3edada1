"""Models of the hub: fetched once, verified, repaired, and refused with a reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import disks
import pytest
from attention_limits import sources
from attention_limits.sources import base, hub, registry
from bad_days import case

NAME = "someone/tiny"


def weights(folder: Path) -> Path:
    return Path(os.path.realpath(folder / "model.safetensors"))


def test_a_model_is_fetched_once_and_says_where_it_came_from(server, tiny):
    server.publish(NAME, tiny)
    model = sources.load_model(NAME, "cpu")
    assert model.provenance == base.Provenance(
        kind="model",
        requested=NAME,
        name=NAME,
        revision="0123456789abcdef0123456789abcdef01234567",
        sha256=base.sha256_file(tiny / "model.safetensors"),
        size=(tiny / "model.safetensors").stat().st_size,
        licence="unknown (no model card names one)",
        origin=f"127.0.0.1/{NAME}",
    )
    assert model.module.config._attn_implementation == "sdpa" and not model.module.training
    assert (
        model.tokenizer("Héllo")["input_ids"]
        and model.tokenizer.decode(model.tokenizer("Héllo")["input_ids"]) == "Héllo"
    )
    server.asked.clear()
    assert sources.fetch_model(NAME)[1] == model.provenance
    assert server.asked == []


def test_only_the_files_that_are_needed_are_fetched_and_the_card_gives_the_licence(server, tiny):
    (tiny / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n# Tiny\n")
    for unwanted in ("pytorch_model.bin", "modeling_tiny.py", "model.onnx", "tf_model.h5"):
        (tiny / unwanted).write_bytes(b"x")
    server.publish(NAME, tiny)
    folder, provenance = sources.fetch_model(NAME)
    assert provenance.licence == "cc-by-4.0"
    assert {p.name for p in folder.iterdir()} & {
        "pytorch_model.bin",
        "modeling_tiny.py",
        "model.onnx",
        "tf_model.h5",
    } == set()


def test_a_revision_may_be_named(server, tiny):
    server.publish(NAME, tiny)
    revision = "f" * 40
    assert sources.fetch_model(f"{NAME}@{revision}")[1].revision == revision


@pytest.mark.parametrize(
    "harm",
    [
        case("a model of the hub whose cached weights are cut short", "truncate"),
        case("a model of the hub in whose cached weights a bit has changed", "flip"),
        case("a model of the hub whose cached config is another", "config"),
    ],
)
def test_a_damaged_cache_entry_is_found_and_fetched_again(server, tiny, harm, capsys):
    server.publish(NAME, tiny)
    folder, provenance = sources.fetch_model(NAME)
    victim = weights(folder)
    if harm == "truncate":
        victim.write_bytes(victim.read_bytes()[:-7])
    elif harm == "flip":
        content = bytearray(victim.read_bytes())
        content[-1] ^= 1
        victim.write_bytes(content)
    else:
        Path(os.path.realpath(folder / "config.json")).write_text("{}")
    assert not hub.is_cached(hub.parse(NAME))
    assert sources.fetch_model(NAME) == (folder, provenance)
    assert "damaged; it is fetched again" in capsys.readouterr().err
    assert hub.is_cached(hub.parse(NAME))


@pytest.mark.bad_day("a download from the hub that was interrupted")
def test_an_interrupted_download_is_completed(server, tiny):
    server.publish(NAME, tiny)
    folder, _ = sources.fetch_model(NAME)
    (folder / "model.safetensors").unlink()
    assert hub.cached_snapshot(hub.parse(NAME)) is None
    assert sources.fetch_model(NAME)[0] == folder and (folder / "model.safetensors").is_file()


@pytest.mark.bad_day("a damaged model of the hub, and no network")
def test_a_damaged_entry_without_a_network_is_an_error_and_is_kept(server, tiny, connect, closed_port):
    server.publish(NAME, tiny)
    folder, _ = sources.fetch_model(NAME)
    weights(folder).write_bytes(b"short")
    connect(closed_port)
    with pytest.raises(
        sources.SourceError, match=r"damaged in the cache \(model\.safetensors\).*could not be reached"
    ):
        sources.fetch_model(NAME)
    assert weights(folder).read_bytes() == b"short"


@pytest.mark.bad_day("a hub that serves other weights than pinned")
def test_a_pinned_hash_is_demanded(server, tiny, monkeypatch):
    server.publish("openai-community/gpt2", tiny)
    with pytest.raises(
        sources.SourceError, match=r"model\.safetensors .* another hash than announced or pinned"
    ):
        sources.fetch_model("gpt2")
    assert not hub.is_cached(registry.MODELS["gpt2"])
    right = base.sha256_file(tiny / "model.safetensors")
    monkeypatch.setitem(registry.MODELS, "gpt2", replace(registry.MODELS["gpt2"], sha256=right))
    assert sources.fetch_model("gpt2")[1].revision == "607a30d783dfa663caf39e06633721c8d4cfcd7e"


@pytest.mark.bad_day("a model of the hub with a pickle only")
@pytest.mark.bad_day("a model of the hub that asks for its own code")
def test_pickles_and_remote_code_are_refused(server, tiny):
    (tiny / "model.safetensors").rename(tiny / "pytorch_model.bin")
    server.publish("someone/pickled", tiny)
    with pytest.raises(sources.SourceError, match="pickle files are refused"):
        sources.fetch_model("someone/pickled")
    (tiny / "pytorch_model.bin").rename(tiny / "model.safetensors")
    config = json.loads((tiny / "config.json").read_text())
    (tiny / "config.json").write_text(
        json.dumps({**config, "model_type": "evil", "auto_map": {"AutoModelForCausalLM": "evil.Model"}})
    )
    server.publish("someone/coded", tiny)
    with pytest.raises(sources.SourceError, match=r"someone/coded.*auto_map.*never run"):
        sources.fetch_model("someone/coded")


@pytest.mark.bad_day("a model that the hub does not have")
@pytest.mark.bad_day("a name that no model of the hub can have")
def test_unknown_and_impossible_names(server):
    with pytest.raises(sources.SourceError, match=r"no open model 'nobody/nothing' at revision 'main'.*404"):
        sources.fetch_model("nobody/nothing")
    with pytest.raises(sources.SourceError, match=r"Did you mean gpt2\?"):
        sources.fetch_model("gpt-2")
    with pytest.raises(sources.SourceError, match="no model name"):
        sources.fetch_model("double--dash")
    assert not any("double" in line for line in server.asked)


@pytest.mark.bad_day("a hub that is switched off by HF_HUB_OFFLINE")
def test_offline_mode_of_the_hub_is_respected(server, tiny, monkeypatch):
    from huggingface_hub import constants

    server.publish(NAME, tiny)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(sources.SourceError, match="HF_HUB_OFFLINE is set"):
        sources.fetch_model(NAME)
    assert server.asked == []


@pytest.mark.bad_day("a hub that falls silent in the middle of a download")
def test_a_download_that_hangs_ends_with_a_sentence(server, tiny, monkeypatch):
    """The client's own limits, which add up to some six minutes, made short."""
    from huggingface_hub import constants, file_download
    from huggingface_hub.utils import _http

    for module, name in (
        (constants, "HF_HUB_DOWNLOAD_TIMEOUT"),
        (constants, "HF_HUB_ETAG_TIMEOUT"),
        (file_download, "_ETAG_RETRY_TIMEOUT"),
    ):
        assert 1 <= getattr(module, name) <= 60  # seconds without a byte
        monkeypatch.setattr(module, name, 0.2)
    monkeypatch.setattr(_http, "time", SimpleNamespace(sleep=lambda _: None, time=time.time))
    server.publish(NAME, tiny)
    server.silent = "resolve"
    start = time.monotonic()
    with pytest.raises(sources.SourceError, match=f"download of '{NAME}' from 127.0.0.1 failed .*Run again"):
        sources.fetch_model(NAME)
    assert time.monotonic() - start < 20
    server.silent = ""
    assert sources.fetch_model(NAME)[1].name == NAME


@pytest.mark.bad_day("a hub that is reached through a proxy only")
def test_a_proxy_brings_a_model(server, tiny, connect, monkeypatch):
    import huggingface_hub

    server.publish(NAME, tiny)
    connect("http://hub.invalid")
    monkeypatch.setenv("HTTP_PROXY", server.address)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    huggingface_hub.close_session()  # its client has read the environment
    try:
        assert sources.fetch_model(NAME)[1].origin == f"hub.invalid/{NAME}"
    finally:
        huggingface_hub.close_session()
    assert f"GET /api/models/{NAME}/revision/main" in server.asked


@pytest.mark.parametrize(
    ("disk", "reason"),
    [
        case("a full disk under the hub's cache", disks.full, "No space left|File too large"),
        case("a hub's cache that cannot be written", disks.read_only, "Read-only|Permission denied"),
    ],
)
def test_a_hub_cache_that_takes_no_more_is_said(server, tiny, tmp_path, monkeypatch, disk, reason):
    from huggingface_hub import constants

    (tiny / "model.safetensors").write_bytes(b"x" * 400_000)
    server.publish(NAME, tiny)
    folder = tmp_path / "small"
    folder.mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    with disk(folder), pytest.raises(sources.SourceError, match=rf"hub's cache folder .*({reason}).*HF_HOME"):
        sources.fetch_model(NAME)


@pytest.mark.bad_day("a hub's cache in the home of nobody")
def test_without_a_home_the_hub_has_no_cache(server, tiny, monkeypatch):
    from huggingface_hub import constants

    server.publish(NAME, tiny)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", "~nobody-of-this-name/hub")
    with pytest.raises(sources.SourceError, match=r"no home folder for the hub's cache.*HF_HOME"):
        sources.fetch_model(NAME)
    assert not Path("~nobody-of-this-name").exists()


@pytest.mark.parametrize(
    "network",
    [
        case("a named model, not in the cache, and a network that refuses", "closed_port"),
        case("a named model, not in the cache, and a network that hangs", "silent_port"),
    ],
)
def test_naming_gpt2_without_a_network_fails_soon_and_plainly(network, request, tmp_path):
    """In a process of its own, imports included, as ``make book MODEL=gpt2`` meets it."""
    address = request.getfixturevalue(network)
    environment = {
        **os.environ,
        "HF_ENDPOINT": address,
        "HF_HOME": str(tmp_path / "hf"),
        "OMP_NUM_THREADS": "1",
    }
    for name in ("HF_HUB_CACHE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        environment.pop(name, None)
    output = tmp_path / "sources.json"
    command = [sys.executable, "-m", "attention_limits.sources", "--model", "gpt2", "--text", "king-james"]
    start = time.monotonic()
    done = subprocess.run(
        [*command, "--output", output], env=environment, capture_output=True, text=True, check=False
    )
    assert time.monotonic() - start < 10
    assert done.returncode == 1 and not output.exists()
    assert "Traceback" not in done.stderr and done.stdout == ""
    assert "'gpt2' is not in the cache" in done.stderr and "Connect to the network" in done.stderr
    assert "MODEL=smollm2-135m" in done.stderr
