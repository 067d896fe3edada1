"""Small notebooks, and a small project of them, that run in seconds and with which tests of the engine play."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

ROOT = Path(__file__).resolve().parents[1]

_HEAD = """---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {display_name: Python 3, language: python, name: python3}
---

# A page

"""
RECORD = """from attention_limits.records import Record
results = Record("NAME", {})
results.add("value", VALUE, meaning="what the test put there")
results.save(record)"""


def write_notebook(path: Path, parameters: str, *cells: str) -> Path:
    """Write a MyST notebook with one cell tagged ``parameters`` and further code cells."""
    path.parent.mkdir(parents=True, exist_ok=True)
    code = [":tags: [parameters]\n" + parameters, *cells]
    blocks = "\n".join(f"```{{code-cell}} ipython3\n{cell}\n```\n" for cell in code)
    path.write_text(_HEAD + blocks, encoding="utf-8")
    return path


def chapter(folder: Path, name: str, parameters: str, value: str, *cells: str) -> Path:
    """Write a notebook that runs ``cells`` and then records ``value`` (a Python expression)."""
    record = RECORD.replace("NAME", name).replace("VALUE", value)
    path = folder / "notebooks" / f"{name}.md"
    return write_notebook(path, parameters + '\nrecord = ""', *cells, record)


def project(folder: Path) -> Path:
    """Write a project of two chapters and a landing page with the Snakefile, profile and library of this one.

    ``size`` records ``sum(widths)`` (3), ``seed`` records ``seed`` (0); the landing page lists the records it found.
    """
    folder.mkdir()
    shutil.copy(ROOT / "Snakefile", folder)
    shutil.copytree(ROOT / "profiles", folder / "profiles")
    shutil.copytree(ROOT / "lib", folder / "lib", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    chapter(folder, "size", "widths = [1, 2]  # whole numbers, each >= 1", "sum(widths)")
    chapter(folder, "seed", 'model = "auto"\nseed = 0', "seed")
    listing = "from pathlib import Path\nprint(*sorted(path.name for path in Path(records).iterdir()))"
    write_notebook(folder / "book" / "index.md", 'records = ""', listing)
    pages = ["notebooks/size", "notebooks/seed", "provenance"]
    toc = ["format: jb-book", "root: index", "chapters:", *(f"- file: {page}" for page in pages)]
    (folder / "book" / "_toc.yml").write_text("\n".join(toc) + "\n", encoding="utf-8")
    (folder / "_config.yml").write_text("title: Toy\nexecute: {execute_notebooks: 'off'}\n", encoding="utf-8")
    (folder / "a text.txt").write_text("Nothing but a few words, here to be read. " * 200, encoding="utf-8")
    _write_model(folder / "a model")
    return folder


def byte_tokenizer():
    """A byte-level tokenizer without merges: every text has tokens, one per byte."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=made)


def _write_model(folder: Path) -> None:
    """A folder that is a model as far as fetching it goes: no notebook of the toy project loads it."""
    folder.mkdir()
    config = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    save_file({"wte.weight": np.zeros((2, 2), np.float32)}, folder / "model.safetensors")
