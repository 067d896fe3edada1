"""From a model and a text, or a module in the middle of its training and token ids, to a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
import torch

from attention_limits import sources
from attention_limits.capture import SPACES, capture, windows
from attention_limits.sources import Model, Text

from .numbers import measure, rows_at
from .report import Report, judged

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_ROWS = 32  # rows of a window that are measured unless `stride` says otherwise


@dataclass
class _Given:
    """A module without tokenizer, as `capture` takes it."""

    module: PreTrainedModel
    device: torch.device


def check(
    model: str | Model | PreTrainedModel,
    text: str | Text | torch.Tensor = "auto",
    *,
    heads: Sequence[tuple[int, int]] | None = None,
    length: int = 256,
    windows: int = 1,
    top_n: int = 16,
    stride: int | None = None,
    space: str = "hidden",
    device: str = "auto",
) -> Report:
    """The health of all ``heads`` of a model, or of the chosen (layer, head) pairs.

    ``model``: a name as `sources.load_model` takes it (loaded on ``device``), a loaded `sources.Model`, or a causal
    language model of transformers, whatever its mode: it is read in evaluation mode without gradients, and its modes,
    gradients and the random state are left as they were. ``text``: a name or path as `sources.load_text` takes it, a
    loaded `sources.Text`, or token ids (L,) or (windows, L) without padding; a plain module needs ids.

    Read are ``windows`` consecutive windows of ``length`` tokens; of ids, the first ``length`` tokens (all of them if
    there are fewer) of the first ``windows`` rows. ``stride`` keeps the last of every so many rows of a window
    (default: 32 rows are left); ``top_n`` is the N of N_s/N, at most half of the window; ``space`` is what x_i is.

    Raises ValueError, naming parameter and allowed values, before the forward pass; SourceError and CaptureError as
    loading and capturing do.
    """
    for name, value, least in (("length", length, 2), ("windows", windows, 1), ("stride", stride, 1)):
        if value is not None and value < least:
            raise ValueError(f"{name} is {value}; it must be at least {least}")
    if space not in SPACES:
        raise ValueError(f"space is {space!r}; it must be one of {', '.join(SPACES)}")
    given = _model(model, device)
    ids, text_name = _ids(given, text, length, windows)
    length = ids.shape[1]
    if not 1 <= top_n <= length // 2:
        raise ValueError(
            f"top_n is {top_n}; it must be from 1 to {length // 2}, half of the window of {length} tokens"
        )
    heads = _chosen(given.module, heads)
    stride = stride or max(1, length // (2 * _ROWS))
    found = []
    for window in ids:
        with _undisturbed(given.module):
            seen = capture(given, window)
        found.append(measure(seen, heads, top_n=top_n, space=space, stride=stride))
    table, curves = (
        pd.concat([part.assign(window=number) for number, part in enumerate(parts)])
        for parts in zip(*found, strict=True)
    )
    settings = {
        "model": given.provenance.name if isinstance(given, Model) else type(given.module).__name__,
        "text": text_name,
        "length": length,
        "windows": len(ids),
        "rows": len(rows_at(length, stride)),
        "stride": stride,
        "top_n": top_n,
        "space": space,
    }
    return judged(settings, table, curves)


def _model(model: str | Model | PreTrainedModel, device: str) -> Model | _Given:
    if isinstance(model, str):
        return sources.load_model(model, device=device)
    if isinstance(model, Model):
        return model
    if not hasattr(model, "set_attn_implementation"):
        raise ValueError(
            f"model is a {type(model).__name__}; give a name, a sources.Model, or a causal language model of "
            "transformers (where it is wrapped, the one inside)"
        )
    return _Given(model, next(model.parameters()).device)


def _ids(model: Model | _Given, text: Any, length: int, count: int) -> tuple[torch.Tensor, str]:
    """Token ids (windows, length) int64, and the name of the text they are of."""
    if isinstance(text, str | Text):
        if isinstance(model, _Given):
            raise ValueError(
                "a plain module has no tokenizer: give token ids, or a sources.Model with a text"
            )
        text = sources.load_text(text) if isinstance(text, str) else text
        return windows(model.tokenizer, text.content, length, count), text.provenance.name
    ids = torch.as_tensor(text)
    vocabulary = cast(torch.nn.Embedding, model.module.get_input_embeddings()).num_embeddings
    if ids.ndim not in (1, 2) or ids.is_floating_point() or ids.numel() < 2 or ids.shape[-1] < 2:
        raise ValueError(
            f"ids have shape {tuple(ids.shape)} and type {ids.dtype}; wanted whole numbers, (L,) or (windows, L), "
            "with L at least 2"
        )
    ids = ids.reshape(-1, ids.shape[-1])[:count, :length].long()
    if ids.min() < 0 or ids.max() >= vocabulary:
        raise ValueError(f"ids go from {ids.min()} to {ids.max()}; the model knows 0 to {vocabulary - 1}")
    return ids, "token ids"


def _chosen(module: PreTrainedModel, heads: Sequence[tuple[int, int]] | None) -> list[tuple[int, int]]:
    """The heads to measure in order, all of them for None; ValueError for one that the model has not."""
    config = module.config.get_text_config()
    layers, each = config.num_hidden_layers, config.num_attention_heads
    if heads is None:
        return [(layer, head) for layer in range(layers) for head in range(each)]
    found = sorted({(int(layer), int(head)) for layer, head in heads})
    if not found:
        raise ValueError("heads is empty; give (layer, head) pairs, or None for all of them")
    for layer, head in found:
        if not (0 <= layer < layers and 0 <= head < each):
            raise ValueError(
                f"heads has ({layer}, {head}); the model has layers 0 to {layers - 1} with heads 0 to {each - 1}"
            )
    return found


@contextmanager
def _undisturbed(module: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode inside; every part's own mode and the random state back afterwards."""
    modes = [(part, part.training) for part in module.modules()]
    device = next(module.parameters()).device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        module.eval()
        try:
            yield
        finally:
            for part, mode in modes:
                part.training = mode
