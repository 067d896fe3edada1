"""One forward pass of a causal language model, keeping what its attention was computed from.

Per layer: queries and keys after any rotary embedding, values, and the layer's normalised input; once per model: the
input embeddings. All of them are L x d, so nothing here grows with L squared: the forward pass runs on PyTorch's
scaled dot-product attention, and attention weights are rebuilt from ``q`` and ``k`` one head at a time where needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from attention_limits.sources import Model

SPACES = ("hidden", "embedding", "value")
_RECORDING = "attention_limits_recording"
# Arguments that change the logits in ways that q.k * scale does not show; a model that passes one is refused.
_UNSUPPORTED = ("softcap", "s_aux", "position_bias", "sinks")


class CaptureError(ValueError):
    """A window or a model from which attention cannot be rebuilt faithfully."""


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


def windows(tokenizer: Any, text: str, length: int, count: int) -> torch.Tensor:
    """Cut the start of ``text`` into ``count`` consecutive windows of ``length`` tokens: (count, length) int64.

    No special tokens are added, and windows do not overlap. Only as much of the text is tokenised as is needed.
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
        whole = characters >= len(text)
        # The last tokens of a cut text may differ from those of the whole text, so leave a margin.
        if len(ids) >= need + (0 if whole else 64):
            return torch.tensor(ids[:need]).view(count, length)
        if whole:
            raise CaptureError(
                f"the text has {len(ids)} tokens, but {count} window(s) of {length} need {need}; "
                "give a longer text, fewer windows or shorter lengths"
            )
        characters *= 2


def captures(model: Model, text: str, length: int, count: int) -> Iterator[Capture]:
    """Capture each of ``count`` consecutive windows of ``length`` tokens in turn; one is in memory at a time.

    A window that the model cannot read and a text that is too short raise CaptureError before any forward pass.
    """
    _check_context(model.module.config, length)
    for ids in windows(model.tokenizer, text, length, count):
        yield capture(model, ids)


@torch.no_grad()
def capture(model: Model, ids: torch.Tensor) -> Capture:
    """Run ``model`` once over the window ``ids`` (L,) and keep queries, keys, values and layer inputs.

    Everything stays on the model's device in float32. Raises CaptureError for a window longer than the model's context,
    for a model that is not causal, whose sliding window is shorter than the text window, or whose attention is not a
    plain softmax over q.k (soft-capped logits, learned sinks, position biases).
    """
    module = model.module
    length = len(ids)
    _check_context(module.config, length)
    with _recording(module) as layers:
        module(ids[None].to(model.device), use_cache=False, logits_to_keep=1)
    expected = module.config.get_text_config().num_hidden_layers
    if sorted(layers) != list(range(expected)):
        raise CaptureError(
            f"{type(module).__name__}: attention was seen in {len(layers)} of {expected} layers; "
            "this model does not compute all of it through transformers' attention interface"
        )
    embedding = module.get_input_embeddings()(ids.to(model.device)).float()
    return Capture(ids.cpu(), embedding, tuple(layers[i] for i in range(expected)))


def _check_context(config: Any, length: int) -> None:
    """Refuse, before any work, a window that the configuration says the model cannot read whole."""
    config = config.get_text_config()
    context = getattr(config, "max_position_embeddings", None)
    if context is not None and length > context:
        raise CaptureError(
            f"a window of {length} tokens is longer than the model's context of {context} tokens; "
            f"choose lengths up to {context}"
        )
    kinds = getattr(config, "layer_types", None) or []
    slides = "sliding_attention" in kinds if kinds else getattr(config, "use_sliding_window", True)
    window = getattr(config, "sliding_window", None)
    if slides and window is not None and length > window:
        raise CaptureError(
            f"the model attends only to the last {window} tokens (sliding window), so rows of a window of {length} "
            f"tokens would be wrong; choose lengths up to {window}"
        )


class _Recorder:
    """Fills ``layers`` while a model runs: its hook keeps each attention's input, its attention function the rest."""

    def __init__(self) -> None:
        self.layers: dict[int, Layer] = {}
        self._inputs: dict[int, torch.Tensor] = {}

    def remember_input(self, attention: torch.nn.Module, args: tuple, kwargs: dict) -> None:
        """Forward pre-hook of an attention module."""
        self._inputs[id(attention)] = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]

    def attend(self, attention, query, key, value, attention_mask, scaling=None, is_causal=None, **kwargs):
        """Attention function in transformers' interface: record, then let SDPA compute as usual."""
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        _check_attention(attention, query, attention_mask, is_causal, kwargs)
        hidden = self._inputs.pop(id(attention))
        for what, tensor in (("query", query), ("key", key), ("value", value), ("input", hidden)):
            if not torch.isfinite(tensor).all():
                raise CaptureError(
                    f"layer {attention.layer_idx}: the {what} holds NaN or infinite numbers; "
                    "the model's weights are broken"
                )
        self.layers[attention.layer_idx] = Layer(
            q=query[0].float(),
            k=key[0].float(),
            v=value[0].float(),
            hidden=hidden[0].float(),
            scale=float(scaling if scaling is not None else query.shape[-1] ** -0.5),
        )
        return sdpa_attention_forward(
            attention, query, key, value, attention_mask, scaling=scaling, is_causal=is_causal, **kwargs
        )


@contextmanager
def _recording(module: torch.nn.Module) -> Iterator[dict[int, Layer]]:
    """Route ``module``'s attention through SDPA while filling the layers given out; then put everything back."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    recorder = _Recorder()
    before = module.config._attn_implementation
    AttentionInterface.register(_RECORDING, recorder.attend)
    AttentionMaskInterface.register(_RECORDING, sdpa_mask)
    hooks = [
        part.register_forward_pre_hook(recorder.remember_input, with_kwargs=True)
        for part in module.modules()
        if getattr(part, "layer_idx", None) is not None
    ]
    module.set_attn_implementation(_RECORDING)
    try:
        yield recorder.layers
    finally:
        module.set_attn_implementation(before)
        for hook in hooks:
            hook.remove()


def _check_attention(
    attention: torch.nn.Module,
    query: torch.Tensor,
    mask: torch.Tensor | None,
    is_causal: bool | None,
    others: dict,
) -> None:
    """Refuse an attention call whose weights are not a softmax of q.k * scale over exactly the visible keys."""
    name = type(attention).__name__
    for argument in _UNSUPPORTED:
        if others.get(argument) is not None:
            raise CaptureError(
                f"{name} changes its logits through {argument!r}, which q and k alone do not show"
            )
    if mask is None:
        causal = getattr(attention, "is_causal", True) if is_causal is None else is_causal
        if not causal:
            raise CaptureError(
                f"{name} is not causal: every token sees the whole text; use a causal language model"
            )
        return
    visible = mask[0, 0] if mask.dtype == torch.bool else mask[0, 0] == 0
    length = query.shape[2]
    if not torch.equal(visible, torch.ones(length, length, dtype=torch.bool, device=mask.device).tril()):
        raise CaptureError(
            f"{name} does not show each token exactly its past (its attention mask is not causal)"
        )
