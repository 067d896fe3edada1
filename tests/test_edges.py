"""Every chapter runs at the edges of what its parameters may be, on a small model that it has never seen."""

import re
from pathlib import Path

import pytest
import torch
import transformers
from attention_limits import execute, records
from toy import ROOT, byte_tokenizer

READINGS = {"spaces": ["value"], "supports": ["full"]}
ALL = {"spaces": ["hidden", "embedding", "value"], "supports": ["causal", "full"]}
EDGES = [
    ("vanishing", {"rows": 10, "draws": 4}),
    ("theorem-1", {"rows": 10, "draws": 20}),
    ("theorem-2", {"draws": 20, "repeats": 4, "tokens": 16}),
    ("gradients", {"rows": 10, "directions": 100}),
    ("weights", {"lengths": [8], "windows": 1}),
    ("algorithm-1", {"lengths": [2, 3, 4], "top_n": 1, "windows": 1, **READINGS}),
    ("algorithm-2", {"length": 3, "top_ns": [1], "stride": 3, "windows": 1, **READINGS}),
    # 95 % of L is L - 1.
    ("algorithm-2", {"length": 21, "top_ns": [1, 20], "stride": 1, "windows": 2, **ALL}),
    ("algorithm-3", {"lengths": [2], "largest_n": 1, "levels": [0.01], "windows": 1, **READINGS}),
    # 0.06 L is beyond the largest N.
    ("algorithm-3", {"lengths": [16, 32, 64], "largest_n": 1, "windows": 2, **ALL}),
    ("algorithm-4", {"length": 3, "top_ns": [1], "group": 1, "windows": 1, **READINGS}),
    ("algorithm-4", {"length": 3, "top_ns": [1], "group": 2, "windows": 2, **ALL}),  # few tokens are shared
    (
        "algorithm-5",
        {"length": 2, "temperatures": [0.1, 1, 10], "epsilons": [0.1], "stride": 2, "windows": 1},
    ),
    ("algorithm-5", {"length": 8, "temperatures": [3], "epsilons": [10], "logits": ["raw"], "windows": 2}),
    (
        "normalisers",
        {
            "lengths": [2],
            "top_ns": [1],
            "temperatures": [1],
            "scales": [2],
            "spaces": ["value"],
            "stride": 1,
            "windows": 1,
        },
    ),
    (
        "normalisers",  # a fourth of the rows would leave none at N = 4
        {
            "lengths": [3, 5],
            "top_ns": [1, 4],
            "temperatures": [1],
            "scales": [2],
            "spaces": ["value"],
            "stride": 1,
        },
    ),
    (
        "selection",
        {
            "lengths": [3, 4],
            "top_ns": [2],
            "targets": 2,
            "windows": 1,
            "head_n": 2,
            "layer_step": 1,
            "stride": 1,
        },
    ),
    ("health", {"length": 2, "top_n": 1, "stride": 2, "windows": 1, "space": "value"}),
    ("models", {"models": [], "lengths": [4], "long_lengths": [], "rows": 1, "top_n": 1, "windows": 1}),
    (
        "cost",
        {
            "length": 8,
            "layers": 1,
            "growth_lengths": [32, 33, 34, 35],
            "growth_heads": [1, 2, 3, 4],
            "sample": 2,
        },
    ),
]


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> dict[str, str]:
    """A GPT-2 of six heads with random weights that has a token for each byte, and a text."""
    folder = tmp_path_factory.mktemp("edges") / "model"
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=3, n_head=2, n_embd=16, n_positions=64, vocab_size=256)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    text = folder.with_name("text.txt")
    text.write_text("Whoever reads this has read enough of it. " * 200, encoding="utf-8")
    return {"model": str(folder), "text": str(text), "device": "cpu"}


def test_every_chapter_that_measures_is_among_them():
    notebooks = (ROOT / "notebooks").glob("*.md")
    assert {path.stem for path in notebooks if "record" in execute.declared(execute.read(path))} == {
        name for name, _ in EDGES
    }


@pytest.mark.parametrize(("name", "settings"), EDGES)
def test_a_chapter_at_the_edge_of_its_parameters(tmp_path, sources, name, settings):
    path = ROOT / "notebooks" / f"{name}.md"
    given = {key: value for key, value in sources.items() if key in execute.declared(execute.read(path))}
    record, output = tmp_path / "record.json", tmp_path / f"{name}.ipynb"
    execute.execute(path, output, {**given, **settings, "record": str(record)})
    assert records.load(record)["results"]
    shown = [text for text in texts(output) if re.search(r"\b(nan|inf)\b", text)]
    assert not shown


def texts(notebook: Path) -> list[str]:
    """Captions and sentences of an executed notebook; not its tables, where a number may be missing."""
    found = []
    for cell in execute.read(notebook).cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            found += [data.get("text/markdown", "")]
            found += re.findall(r"<figcaption.*?</figcaption>", data.get("text/html", ""), re.DOTALL)
    return found
