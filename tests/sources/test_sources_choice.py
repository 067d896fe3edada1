"""``auto``: the paper's choice where it can be had, else the embedded default with a notice, and soon."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
from attention_limits import sources
from attention_limits.sources import base, choice, hub, reach, registry
from bad_days import case

KINDS = [("model", "gpt2", "smollm2-135m"), ("text", "war-and-peace", "king-james")]


@pytest.fixture
def no_question(monkeypatch):
    """Any question to the network fails the test."""

    def asked(*_, **__):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(hub, "probe", asked)
    monkeypatch.setattr(choice, "probe", asked)


@pytest.mark.parametrize("name", ["gpt2", "smollm2-135m", "org/name", "/no/such/file", "king-james"])
def test_a_name_is_taken_as_it_is_and_nobody_is_asked(name, no_question):
    for kind in ("model", "text"):
        assert sources.decide(kind, name) == (name, "")


@pytest.mark.bad_day("no network, where nothing is named")
@pytest.mark.parametrize(("kind", "paper", "embedded"), KINDS)
def test_without_a_network_auto_is_the_embedded_default_and_says_so(kind, paper, embedded):
    name, notice = sources.decide(kind, "auto")
    assert name == embedded
    for part in (paper, embedded, "not in the cache", "could not be reached", "refused"):
        assert part in notice


@pytest.mark.parametrize(("kind", "paper", "embedded"), KINDS)
def test_where_its_host_answers_auto_is_the_papers_choice(kind, paper, embedded, server, tiny):
    server.publish("openai-community/gpt2", tiny)
    server.pages["/pg2600.txt"] = b"anything"
    assert sources.decide(kind, "auto") == (paper, "")
    assert len(server.asked) == 1


@pytest.mark.bad_day("a host that answers with an error")
@pytest.mark.parametrize(("kind", "paper", "embedded"), KINDS)
def test_a_host_that_answers_with_an_error_is_not_a_source(kind, paper, embedded, server):
    name, notice = sources.decide(kind, "auto")
    assert name == embedded and "HTTP status 404" in notice


@pytest.mark.bad_day("a cached model that is damaged, without a network")
def test_a_model_in_the_cache_needs_no_network_unless_it_is_damaged(
    server, tiny, connect, closed_port, monkeypatch
):
    right = base.sha256_file(tiny / "model.safetensors")
    monkeypatch.setitem(registry.MODELS, "gpt2", replace(registry.MODELS["gpt2"], sha256=right))
    server.publish("openai-community/gpt2", tiny)
    folder, _ = sources.fetch_model("gpt2")
    connect(closed_port)
    assert sources.decide("model", "auto") == ("gpt2", "")
    os.truncate(os.path.realpath(folder / "model.safetensors"), 100)
    assert sources.decide("model", "auto")[0] == "smollm2-135m"


@pytest.mark.bad_day("an empty name")
def test_empty_names_and_other_kinds():
    with pytest.raises(sources.SourceError, match=r"text's name is empty.*'auto'"):
        sources.decide("text", " ")
    with pytest.raises(ValueError, match="'book'"):
        sources.decide("book", "auto")


def hanging_name_server(monkeypatch, request):
    over = threading.Event()
    request.addfinalizer(over.set)

    def getaddrinfo(*_, **__):
        over.wait(30)
        raise socket.gaierror("too late")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def silent_host(_monkeypatch, request):
    request.getfixturevalue("connect")(request.getfixturevalue("silent_port"))


@pytest.mark.parametrize(
    "trouble",
    [
        case("a name server that hangs", hanging_name_server),
        case("a network that hangs: hosts accept and never answer", silent_host),
    ],
)
def test_a_network_that_hangs_costs_less_than_five_seconds_for_both(trouble, monkeypatch, request):
    trouble(monkeypatch, request)
    start = time.monotonic()
    decided = [sources.decide(kind, "auto") for kind in ("model", "text")]
    assert time.monotonic() - start < 5
    assert [name for name, _ in decided] == ["smollm2-135m", "king-james"]
    assert all("no answer in 1.5 s" in notice for _, notice in decided)


def test_a_decision_loads_neither_torch_nor_transformers(closed_port):
    code = (
        "import sys; from attention_limits import sources; sources.decide('model', 'auto');"
        "sys.exit(any(name in sys.modules for name in ('torch', 'transformers')))"
    )
    environment = {**os.environ, "HF_ENDPOINT": closed_port}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


def test_a_probe_tells_success_from_refusal_and_nonsense(server, closed_port):
    server.pages["/there"] = b"x"
    assert reach.probe(f"{server.address}/there") == reach.Answer(True, 200, "")
    assert reach.probe(f"{server.address}/not-there") == reach.Answer(False, 404, "HTTP status 404")
    assert "refused" in reach.probe(closed_port).reason
    assert not reach.probe("no address at all").ok


@pytest.mark.parametrize(
    ("variable", "asked"),
    [
        case("a network that is reached through a proxy only", "http_proxy", "GET /page"),
        case(
            "a network that is reached through a proxy only, encrypted",
            "HTTPS_PROXY",
            "CONNECT host.invalid:443",
        ),
    ],
)
def test_a_proxy_named_in_the_environment_is_used(server, monkeypatch, variable, asked):
    monkeypatch.setenv(variable, server.address)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    scheme = variable.lower().removesuffix("_proxy")
    assert not reach.probe(f"{scheme}://host.invalid/page").ok
    assert server.asked == [asked]  # the question for another host went to the proxy
