"""Attention in which a query keeps only some of its keys, for chosen heads of a running model.

A :class:`Selection` says which keys; :func:`selecting` lets a model attend so. The model's weights are never touched:
an attention function takes the place of its own and works in blocks of queries, so that nothing of size heads x L x L
is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from attention_limits.attention import Call, attending

if TYPE_CHECKING:
    from transformers import PreTrainedModel

RULES = ("unchanged", "renormalised", "random", "random-renormalised")
_BLOCK = 1 << 22  # entries of the largest tensor: 16 MiB of float32, a few of which are alive at a time
Draw = Callable[[torch.Tensor, int, torch.Tensor], torch.Tensor]  # see _random_scores


@dataclass(frozen=True)
class Selection:
    """Every query keeps ``top_n`` of the keys that it sees, or all of them where it sees no more.

    ``rule``: `unchanged` keeps the keys of the largest weights (ties: lower position first) with the weights that the
    full softmax gives them, so they no longer sum to one; `renormalised` keeps the same keys and divides by their sum;
    `random` and `random-renormalised` do the same with keys drawn at random without replacement, new ones for each
    query, from ``seed``, layer and head alone. ``heads``: the (layer, head) pairs that select, None for all; the others
    attend as usual. ``top_n`` = 0 with `unchanged` switches heads off. Raises ValueError for anything else.
    """

    top_n: int
    rule: str = "unchanged"
    heads: frozenset[tuple[int, int]] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ValueError(f"rule is {self.rule!r}; it must be one of {', '.join(RULES)}")
        if self.top_n < (0 if self.rule == "unchanged" else 1):
            raise ValueError(f"top_n is {self.top_n}; it must be at least 1 (0 with rule 'unchanged')")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; it must be at least 0")
        if self.heads is not None and not self.heads:
            raise ValueError("heads is empty; give (layer, head) pairs, or None for all heads")

    def chosen(self, layer: int, heads: int) -> list[int]:
        """The heads of ``layer``, which has ``heads`` of them, that select."""
        return [head for head in range(heads) if self.heads is None or (layer, head) in self.heads]

    def first_layer(self, config: Any) -> int:
        """The first layer that selects; ValueError for heads that a model of this configuration has not."""
        if self.heads is None:
            return 0
        layers, heads = config.num_hidden_layers, config.num_attention_heads
        if odd := sorted(pair for pair in self.heads if not (0 <= pair[0] < layers and 0 <= pair[1] < heads)):
            raise ValueError(
                f"heads {odd}: the model has layers 0 to {layers - 1} with heads 0 to {heads - 1}"
            )
        return min(layer for layer, _ in self.heads)


@contextmanager
def selecting(module: PreTrainedModel, keep: Selection, skipped: int = 0) -> Iterator[None]:
    """Let ``module`` attend as ``keep`` says for one forward pass, then put everything back.

    Raises CaptureError for a model that `capture.capture` refuses, also where an attention was not seen in every layer
    but the first ``skipped``.
    """

    def attend(call: Call) -> torch.Tensor:
        """The selecting heads from their kept keys; the others, where there are some, as usual."""
        query, layer = call.query, call.module.layer_idx
        heads = keep.chosen(layer, query.shape[1])
        if len(heads) < query.shape[1]:
            out = call.usual()
        else:
            # Values need not have the size of queries.
            out = query.new_empty(1, query.shape[2], query.shape[1], call.value.shape[-1])
        if heads:
            shared = query.shape[1] // call.key.shape[1]  # query heads per key/value head
            readers = [head // shared for head in heads]
            queries = query[0, heads].float() * call.scale
            keys, values = (part[0, readers].float() for part in (call.key, call.value))
            random = _random_scores(keep, layer, heads)
            for start, part in _selected(queries, keys, values, keep, random):
                out[0, start : start + part.shape[1], heads] = part.transpose(0, 1).to(out.dtype)
        return out

    with attending(module, "attention_limits_selecting", attend, skipped):
        yield


def _selected(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, keep: Selection, random: Draw | None
) -> Iterator[tuple[int, torch.Tensor]]:
    """Blocks of (first row, outputs (heads, rows, head_dim)) from queries that carry the scale, keys and values."""
    heads, length, _ = queries.shape
    size = max(1, _BLOCK // (heads * length))
    for start in range(0, length, size):
        stop = min(start + size, length)
        logits = queries[:, start:stop] @ keys[:, :stop].transpose(1, 2)
        rows = torch.arange(start, stop, device=logits.device)[:, None]
        future = torch.arange(stop, device=logits.device) > rows
        logits.masked_fill_(future, -torch.inf)
        scores = random(rows, length, logits).masked_fill_(future, -torch.inf) if random else logits
        kept = _largest(scores, keep.top_n)
        if keep.rule.endswith("renormalised"):
            weights = logits.masked_fill(~kept, -torch.inf).softmax(-1)
        else:
            weights = logits.softmax(-1) * kept
        yield start, weights @ values[:, :stop]


def _largest(scores: torch.Tensor, count: int) -> torch.Tensor:
    """True at the ``count`` largest entries along the last axis; of equal ones the lower position comes first.

    Where fewer than ``count`` entries are above minus infinity, all are True.
    """
    count = min(count, scores.shape[-1])
    if count == 0:
        return torch.zeros_like(scores, dtype=torch.bool)
    least = scores.topk(count, dim=-1, sorted=False).values.amin(-1, keepdim=True)
    kept = scores >= least
    crowded = (kept.sum(-1) > count) & (least[..., 0] > -torch.inf)
    if crowded.any():
        tied, least = scores[crowded], least[crowded]
        above, level = tied > least, tied == least
        kept[crowded] = above | (level & (level.cumsum(-1) <= count - above.sum(-1, keepdim=True)))
    return kept


def _random_scores(keep: Selection, layer: int, heads: Sequence[int]) -> Draw | None:
    """A function of a block's rows that draws one number per head, row and key; None where the rule draws nothing.

    Whole rows are drawn in order, by one generator per head, so that neither blocks nor other heads change them.
    """
    if not keep.rule.startswith("random"):
        return None
    generators = [np.random.default_rng([keep.seed, layer, head]) for head in heads]

    def draw(rows: torch.Tensor, length: int, like: torch.Tensor) -> torch.Tensor:
        """One number from [0, 1) for each head, row and key, on the device of ``like``."""
        drawn = np.stack([one.random((len(rows), length), dtype=np.float32) for one in generators])
        return torch.from_numpy(drawn[:, :, : like.shape[-1]]).to(like.device)

    return draw
