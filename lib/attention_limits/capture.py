"""One forward pass of a causal language model, keeping what its attention was computed from.

Per layer: queries and keys after any rotary embedding, values, and the layer's normalised input; once per model: the
input embeddings. All of them are L x d, so nothing here grows with L squared: the forward pass runs on PyTorch's
scaled dot-product attention, and attention weights are rebuilt from ``q`` and ``k`` one head at a time where needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import torch

from attention_limits.attention import Call, CaptureError, attending, check_context

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attention_limits.sources import Model
    from attention_limits.sources.reading import Content

SPACES = ("hidden", "embedding", "value")


@dataclass(frozen=True)
class Layer:
    """What one attention layer saw. All tensors are float32 and read-only by convention.

    q: (heads, L, head_dim) and k: (key_value_heads, L, head_dim), after any rotary embedding;
    v: (key_value_heads, L, head_dim); hidden: (L, d), the layer's normalised input, from which q, k and v come;
    scale: the factor that turns q.k into the model's logits, 1/sqrt(head_dim) unless the model says otherwise.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    hidden: torch.Tensor
    scale: float

    @property
    def heads(self) -> int:
        """Number of query heads."""
        return self.q.shape[0]

    def key_value_head(self, head: int) -> int:
        """Index of the key/value head that query head ``head`` reads (grouped-query attention shares them)."""
        return head // (self.heads // self.k.shape[0])


@dataclass(frozen=True)
class Capture:
    """Captured layers of one window; ``embedding``: (L, d) float32 input-embedding rows of its tokens."""

    ids: torch.Tensor
    embedding: torch.Tensor
    layers: tuple[Layer, ...]

    @property
    def length(self) -> int:
        """Tokens in the window, L."""
        return len(self.ids)

    def to(self, device: torch.device | str) -> Capture:
        """The same capture with its tensors on ``device``."""
        layers = tuple(
            replace(part, **{name: getattr(part, name).to(device) for name in ("q", "k", "v", "hidden")})
            for part in self.layers
        )
        return Capture(self.ids, self.embedding.to(device), layers)

    def heads(self) -> Iterator[tuple[int, int]]:
        """Every (layer, head), in order."""
        for index, layer in enumerate(self.layers):
            for head in range(layer.heads):
                yield index, head

    def weights(self, layer: int, head: int) -> torch.Tensor:
        """Attention weights of one head, (L, L) float32, row t over keys 0..t, zeros above the diagonal."""
        part = self.layers[layer]
        logits = part.q[head] @ part.k[part.key_value_head(head)].T * part.scale
        future = torch.ones_like(logits, dtype=torch.bool).triu(1)
        return logits.masked_fill_(future, -torch.inf).softmax(-1)

    def vectors(self, space: str, layer: int, head: int) -> torch.Tensor:
        """The x_i that the weights multiply, (L, d) float32, under the reading ``space`` (theory: "Readings")."""
        if space == "hidden":
            return self.layers[layer].hidden
        if space == "embedding":
            return self.embedding
        if space == "value":
            part = self.layers[layer]
            return part.v[part.key_value_head(head)]
        raise ValueError(f"space is {space!r}; it must be one of {', '.join(SPACES)}")

    def reads(self, space: str, layer: int, head: int) -> tuple[int, ...]:
        """Which vectors a head reads under ``space``: heads with the same answer share them."""
        own = {"embedding": (), "hidden": (layer,), "value": (layer, self.layers[layer].key_value_head(head))}
        return own[space]


def windows(tokenizer: Any, text: str | Content, length: int, count: int) -> torch.Tensor:
    """Cut the start of ``text`` into ``count`` consecutive windows of ``length`` tokens: (count, length) int64.

    No special tokens are added, and windows do not overlap. Only the text that is needed is read and tokenised.
    Raises CaptureError when the text is too short.
    """
    if length < 2 or count < 1:
        raise CaptureError(f"length is {length} and windows is {count}; they must be at least 2 and 1")
    need = length * count
    characters = 8 * need  # most tokenizers need 3 to 5 characters a token; doubled until it is enough
    while True:
        part = text[:characters]
        # verbose=False: the tokenizer's warning about texts longer than the model does not apply to windows.
        ids = tokenizer(part, add_special_tokens=False, verbose=False)["input_ids"]
        whole = len(part) < characters
        # The last tokens of a cut text may differ from those of the whole text, so leave a margin.
        if len(ids) >= need + (0 if whole else 64):
            return torch.tensor(ids[:need]).view(count, length)
        if whole:
            raise CaptureError(
                f"the text has {len(ids)} token{'s' * (len(ids) != 1)}, but {count} window(s) of {length} need {need}; "
                "give a longer text, fewer windows or shorter lengths"
            )
        characters *= 2


def captures(model: Model, text: str | Content, length: int, count: int) -> Iterator[Capture]:
    """Capture each of ``count`` consecutive windows of ``length`` tokens in turn; one is in memory at a time.

    A window that the model cannot read and a text that is too short raise CaptureError before any forward pass.
    """
    check_context(model.module.config, length)
    for ids in windows(model.tokenizer, text, length, count):
        yield capture(model, ids)


class Runs(Protocol):
    """What a capture needs of a model: no tokenizer, and no word on where it is from."""

    module: PreTrainedModel
    device: torch.device


@torch.no_grad()
def capture(model: Runs, ids: torch.Tensor) -> Capture:
    """Run ``model`` once over the window ``ids`` (L,) and keep queries, keys, values and layer inputs.

    Everything stays on the model's device in float32. Raises CaptureError for a window longer than the model's context,
    for a model that is not causal, whose sliding window is shorter than the text window, or whose attention is not a
    plain softmax over q.k (soft-capped logits, learned sinks, position biases).
    """
    module = model.module
    length = len(ids)
    check_context(module.config, length)
    with _recording(module) as layers:
        module(ids[None].to(model.device), use_cache=False, logits_to_keep=1)
    embedding = module.get_input_embeddings()(ids.to(model.device)).float()
    return Capture(ids.cpu(), embedding, tuple(layers[i] for i in sorted(layers)))


@contextmanager
def _recording(module: PreTrainedModel) -> Iterator[dict[int, Layer]]:
    """Fill the layers given out while ``module`` runs, its attention computed by SDPA; then put everything back."""
    layers: dict[int, Layer] = {}
    inputs: dict[int, torch.Tensor] = {}

    def remember_input(attention: torch.nn.Module, args: tuple, kwargs: dict) -> None:
        """Forward pre-hook of an attention module."""
        inputs[id(attention)] = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]

    def attend(call: Call) -> torch.Tensor:
        """Record, then let SDPA compute as usual."""
        index = call.module.layer_idx
        layers[index] = Layer(
            q=call.query[0].float(),
            k=call.key[0].float(),
            v=call.value[0].float(),
            hidden=inputs.pop(id(call.module))[0].float(),
            scale=call.scale,
        )
        _check_finite(index, layers[index])
        return call.usual()

    hooks = [
        part.register_forward_pre_hook(remember_input, with_kwargs=True)
        for part in module.modules()
        if getattr(part, "layer_idx", None) is not None
    ]
    try:
        with attending(module, "attention_limits_recording", attend):
            yield layers
    finally:
        for hook in hooks:
            hook.remove()


def _check_finite(index: int, layer: Layer) -> None:
    """Refuse a layer that holds NaN or infinite numbers, or whose logits would be; say which head is the first."""
    if not torch.isfinite(layer.hidden).all():
        raise CaptureError(
            f"layer {index}: the input holds NaN or infinite numbers; the model's weights are broken"
        )
    shared = layer.heads // layer.k.shape[0]  # query heads that read one key/value head
    for what, tensor, first in (("query", layer.q, 1), ("key", layer.k, shared), ("value", layer.v, shared)):
        broken = (~torch.isfinite(tensor)).flatten(1).any(1)
        if broken.any():
            raise CaptureError(
                f"layer {index}, head {int(broken.nonzero()[0]) * first}: the {what} holds NaN or infinite numbers; "
                "the model's weights are broken"
            )
    queries, keys = (tensor.abs().amax((-2, -1)).tolist() for tensor in (layer.q, layer.k))
    for head, query in enumerate(queries):
        # No sum of q.k is larger, in either order of its factors.
        largest = query * keys[layer.key_value_head(head)] * layer.q.shape[-1] * max(1.0, abs(layer.scale))
        if largest > torch.finfo(torch.float32).max:
            raise CaptureError(
                f"layer {index}, head {head}: queries (up to {query:.1g}) and keys are so large that logits are "
                "infinite in float32; the model's weights are broken"
            )
