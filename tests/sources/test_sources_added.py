"""A model and a text are each added by one entry in the registry, and are known by their name from then on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from attention_limits import sources
from attention_limits.comparison import Shelf
from attention_limits.sources import __main__ as command
from attention_limits.sources import base, registry

ROOT = Path(__file__).resolve().parents[2]
BOOK = (
    "\ufeffThe Project Gutenberg eBook of A Small Book\n\n"
    "*** START OF THE PROJECT GUTENBERG EBOOK A SMALL BOOK ***\n\n"
    "CONTENTS\n\nPART ONE\n\nI\n\n\nPART ONE\n\nI\n\n"
    + "It was a small book, and it was read by few. "
    * 40
    + "\n\n"
    "*** END OF THE PROJECT GUTENBERG EBOOK A SMALL BOOK ***\n"
)


@pytest.fixture
def small_book(server, monkeypatch) -> str:
    """Adds the entry; the library that has the text is on this machine."""
    server.pages["/small.txt"] = BOOK.encode()
    entry = registry.GutenbergText(1, f"{server.address}/small.txt", ("PART ONE", "I"), "public domain")
    monkeypatch.setitem(registry.TEXTS, "small-book", entry)
    return "small-book"


@pytest.fixture
def small_model(server, tiny, monkeypatch) -> str:
    """Adds the entry; the hub that has the model is on this machine."""
    server.publish("someone/tiny", tiny)
    weights = tiny / "model.safetensors"
    entry = registry.HubModel(
        "someone/tiny", "a" * 40, base.sha256_file(weights), weights.stat().st_size, "MIT"
    )
    monkeypatch.setitem(registry.MODELS, "small-model", entry)
    return "small-model"


def test_an_entry_alone_is_a_text(small_book):
    assert sources.decide("text", small_book) == ("small-book", "")
    text = sources.load_text(small_book)
    assert text.content.startswith("PART ONE") and "read by few" in text.content and "***" not in text.content
    assert (text.provenance.name, text.provenance.licence) == ("small-book", "public domain")


def test_an_entry_alone_is_a_model(small_model):
    assert sources.decide("model", small_model) == ("small-model", "")
    model = sources.load_model(small_model, "cpu")
    assert (model.provenance.name, model.provenance.revision) == ("small-model", "a" * 40)
    assert model.provenance.licence == "MIT"
    assert Shelf("small-model", 0, "cpu").explicit("small-model") == "small-model"


def test_the_commands_and_the_refusals_list_both(small_book, small_model, capsys):
    with pytest.raises(SystemExit):
        command.main(["--help"])
    listed = capsys.readouterr().out
    assert small_book in listed and small_model in listed
    with pytest.raises(sources.SourceError, match=small_book):
        sources.load_text("small-bok")
    with pytest.raises(sources.SourceError, match=small_model):
        sources.load_model("no such model!")


def test_make_hands_a_name_on_that_it_does_not_know():
    """The Makefile has no list of names."""
    show = 'show: ; @printf \'%s %s\\n\' "$$ATTENTION_LIMITS_MODEL" "$$ATTENTION_LIMITS_TEXT"'
    given = ["make", "-f", str(ROOT / "Makefile"), "--no-print-directory", "--eval", show, "show"]
    said = subprocess.run(
        [*given, "MODEL=small-model", "TEXT=small-book"], capture_output=True, text=True, check=True
    )
    assert said.stdout == "small-model small-book\n"
    assert not [
        name for name in (*registry.MODELS, *registry.TEXTS) if name in (ROOT / "Makefile").read_text()
    ]


def test_the_readme_names_only_what_there_is():
    """The table names the paper's and the embedded choice; every name in it is in the registry."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    for setting, known in (("MODEL", registry.MODELS), ("TEXT", registry.TEXTS)):
        (row,) = (line for line in lines if line.startswith(f"| `{setting}` |"))
        names = set(row.split("|")[2].split("`")[1::2]) - {"auto"}
        assert (
            {registry.PAPER_CHOICE[setting.lower()], registry.EMBEDDED[setting.lower()]}
            <= names
            <= set(known)
        )
