"""A machine of our own for these tests: an empty cache, no network, and stand-ins for both."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from attention_limits.sources import registry
from toy import byte_tokenizer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="session")
def tokenizer():
    """A token for each byte of a text."""
    return byte_tokenizer()


@pytest.fixture(scope="session")
def pristine(tmp_path_factory) -> Path:
    """A whole GPT-2 folder with one layer and random weights; tests copy it before they harm it."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("pristine") / "tiny"
    GPT2LMHeadModel(
        GPT2Config(n_layer=1, n_head=2, n_embd=8, n_positions=32, vocab_size=256)
    ).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def tiny(pristine, tmp_path) -> Path:
    """A copy of the tiny model's folder that a test may change."""
    folder = tmp_path / "models" / "tiny"
    folder.mkdir(parents=True)
    for part in pristine.iterdir():
        (folder / part.name).write_bytes(part.read_bytes())
    return folder


@pytest.fixture
def closed_port() -> str:
    """An address that refuses connections at once."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture
def silent_port():
    """An address that accepts connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def connect(monkeypatch):
    """Return a function that points the hub and Project Gutenberg at one address."""
    from huggingface_hub import constants

    def point(address: str) -> None:
        monkeypatch.setattr(constants, "ENDPOINT", address)
        template = address + "/{repo_id}/resolve/{revision}/{filename}"  # made from ENDPOINT at import
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        known = registry.TEXTS["war-and-peace"]
        monkeypatch.setitem(registry.TEXTS, "war-and-peace", replace(known, url=f"{address}/pg2600.txt"))

    return point


@pytest.fixture(autouse=True)
def own_machine(monkeypatch, tmp_path, closed_port, connect) -> Path:
    """Every test here starts with an empty cache and no network; the cache folder is returned."""
    from huggingface_hub import constants

    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ATTENTION_LIMITS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    connect(closed_port)
    return tmp_path / "cache"


@dataclass
class Server:
    """A hub and a library on this machine: ``files[repository][path]``, ``pages[path]``, what was asked.

    Questions whose path holds ``silent`` get no answer before the test is over.
    """

    address: str = ""
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    pages: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    silent: str = ""
    over: threading.Event = field(default_factory=threading.Event)

    def publish(self, repository: str, folder: Path) -> None:
        self.files[repository] = {part.name: part.read_bytes() for part in folder.iterdir()}


@pytest.fixture
def server(connect):
    """Start a :class:`Server` and point the hub and Project Gutenberg at it."""
    state = Server()
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"state": state}))
    state.address = f"http://127.0.0.1:{httpd.server_address[1]}"
    threading.Thread(target=httpd.serve_forever, args=(0.02,), daemon=True).start()
    connect(state.address)
    yield state
    state.over.set()
    httpd.shutdown()
    httpd.server_close()


class _Handler(BaseHTTPRequestHandler):
    """As much of the hub's protocol as its client uses here."""

    state: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = unquote(urlsplit(self.path).path)
        self.state.asked.append(f"{self.command} {path}")
        if self.state.silent and self.state.silent in path:
            self.close_connection = self.state.over.wait(60)
            return None
        if path in self.state.pages:
            return self._send(self.state.pages[path])
        for repository, files in self.state.files.items():
            if path.startswith(f"/api/models/{repository}/revision/"):
                content = {"id": repository, "sha": self._commit(path), "siblings": []}
                return self._send(json.dumps(content).encode())
            if path.startswith(f"/api/models/{repository}/tree/"):
                return self._send(json.dumps([_listed(name, files[name]) for name in sorted(files)]).encode())
            if path.startswith(f"/{repository}/resolve/") and path.split("/")[-1] in files:
                name = path.split("/")[-1]
                headers = {"ETag": f'"{etag(name, files[name])}"', "X-Repo-Commit": self._commit(path)}
                return self._send(files[name], headers)
        self._send(b"no such page", status=404)

    do_HEAD = do_GET

    def do_CONNECT(self):
        """A request to a proxy for an encrypted connection, which is not made here."""
        self.state.asked.append(f"CONNECT {self.path}")
        self._send(b"no way through", status=403)

    def _commit(self, path: str) -> str:
        return next((part for part in path.split("/") if len(part) == 40), COMMIT)

    def _send(self, content: bytes, headers: dict[str, str] | None = None, status: int = 200) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_):
        pass


def etag(name: str, content: bytes) -> str:
    """The hash the hub announces: SHA-256 for large files (here: safetensors), git's blob hash for others."""
    if name.endswith(".safetensors"):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _listed(name: str, content: bytes) -> dict:
    entry = {"type": "file", "path": name, "size": len(content), "oid": etag(name, content)[:40]}
    if name.endswith(".safetensors"):
        entry["lfs"] = {"oid": etag(name, content), "size": len(content), "pointerSize": 134}
    return entry
