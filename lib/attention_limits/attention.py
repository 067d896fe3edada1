"""Another attention function in a running model, and which models and windows are refused it.

What takes the place of a model's attention here computes a softmax of q.k * scale over exactly the visible keys, so a
model that does anything else is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from attention_limits.sources.folders import local_attention

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Arguments that change the logits in ways that q.k * scale does not show; a model that passes one is refused.
_UNSUPPORTED = ("softcap", "s_aux", "position_bias", "sinks")


class CaptureError(ValueError):
    """A window or a model from which attention cannot be rebuilt faithfully."""


@dataclass(frozen=True)
class Call:
    """What an attention module asks for.

    query: (1, heads, L, head_dim), key and value: (1, key_value_heads, L, head_dim), after any rotary embedding;
    scale: the factor of the logits q.k; usual: computes (1, L, heads, head_dim) by SDPA, as the model would.
    """

    module: Any
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    scale: float
    usual: Callable[[], torch.Tensor]


@contextmanager
def attending(
    module: PreTrainedModel, name: str, attend: Callable[[Call], torch.Tensor], first: int = 0
) -> Iterator[None]:
    """Let ``module`` attend by ``attend`` for one forward pass; transformers knows it as ``name`` meanwhile.

    It gives out what `Call.usual` would. Masks are those of SDPA. Raises CaptureError for a call that `check_attention`
    refuses, and at the end for a model whose attention was not seen in every layer from ``first`` on.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

    seen: set[int] = set()

    def answer(
        attention: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        scaling: float | None = None,
        is_causal: bool | None = None,
        **others: Any,
    ) -> tuple[torch.Tensor, None]:
        """Attention function in transformers' interface."""
        check_attention(attention, query, attention_mask, is_causal, others)
        if attention.layer_idx in seen:
            raise CaptureError(
                f"{type(attention).__name__} computes attention more than once in layer {attention.layer_idx}: its "
                "weights are no single softmax, or the model ran twice"
            )
        seen.add(attention.layer_idx)
        scale = float(scaling if scaling is not None else query.shape[-1] ** -0.5)
        usual = partial(
            sdpa_attention_forward,
            attention,
            query,
            key,
            value,
            attention_mask,
            scaling=scaling,
            is_causal=is_causal,
            **others,
        )
        return attend(Call(attention, query, key, value, scale, lambda: usual()[0])), None

    before = module.config._attn_implementation
    AttentionInterface.register(name, answer)
    AttentionMaskInterface.register(name, sdpa_mask)
    module.set_attn_implementation(name)
    try:
        yield
    finally:
        module.set_attn_implementation(before)
    _check_every_layer(module, seen, first)


def _check_every_layer(module: PreTrainedModel, seen: Collection[int], first: int) -> None:
    """Refuse a model whose attention was not ``seen`` in every layer from ``first`` on."""
    expected = module.config.get_text_config().num_hidden_layers
    if sorted(seen) != list(range(first, expected)):
        raise CaptureError(
            f"{type(module).__name__}: attention was seen in {len(seen)} of {expected - first} layers; "
            "this model does not compute all of it through transformers' attention interface"
        )


def check_context(config: Any, length: int) -> None:
    """Refuse, before any work, a window that the configuration says the model cannot read whole."""
    config = config.get_text_config()
    context = getattr(config, "max_position_embeddings", None)
    if context is not None and 0 < context < length:  # XLNet's -1 says that there is no limit
        raise CaptureError(
            f"a window of {length} tokens is longer than the model's context of {context} tokens; "
            f"choose lengths up to {context}"
        )
    window = local_attention(config.to_dict())
    if window is not None and length > window:
        raise CaptureError(
            f"the model attends only within {window} tokens in some layers (a sliding window, or chunks), so rows of a "
            f"window of {length} tokens would be wrong; choose lengths up to {window}"
        )


def check_attention(
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
