"""What a selection of keys does to a running model: its next-token loss, and how far its predictions move."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from attention_limits.attention import CaptureError, check_context
from attention_limits.capture import windows
from attention_limits.measures.heads import check_choice, check_numbers, working
from attention_limits.selection import RULES, Selection, selecting

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attention_limits.sources import Model

__all__ = [
    "RULES",
    "Selection",
    "Untouched",
    "changes",
    "head_effects",
    "loss",
    "loss_curve",
    "sampled_heads",
    "spread_windows",
    "untouched",
]
_BLOCK = 1 << 22  # entries of the largest tensor of logits: 16 MiB of float32


@dataclass(frozen=True)
class Untouched:
    """One window read by the model as it is: what each decoder layer gave out, and the states that its head reads."""

    ids: torch.Tensor
    layers: tuple[Any, ...]
    states: Any


@torch.no_grad()
def untouched(model: Model, ids: torch.Tensor) -> Untouched:
    """Run the model as it is on the window ``ids`` (L,), so that later runs on it need not begin at the first layer."""
    check_context(model.module.config, len(ids))
    ids, found = ids.to(model.device), []
    hooks = [
        layer.register_forward_hook(lambda _module, _args, out: found.append(out))
        for layer in _layers(model.module)
    ]
    try:
        states = _decoder(model.module)(ids[None], use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return Untouched(ids, tuple(found), states)


@torch.no_grad()
def loss(
    model: Model, ids: torch.Tensor, keep: Selection | None = None, *, targets: int | None = None
) -> tuple[float, torch.Tensor]:
    """Next-token loss in nats on the window ``ids`` (L,): the mean, and each scored token's, (targets,) float64, CPU.

    ``keep`` None runs the model as it is. The last ``targets`` of the L - 1 predictions are scored (all by default), so
    that windows which end alike can be compared on the same tokens. Logits are the model's float32, made for a block
    of positions at a time; what follows is float64. Raises CaptureError for models and windows that `capture.capture`
    refuses and for a loss that is not finite, ValueError for senseless arguments.
    """
    scored = _scored(len(ids), targets)
    ids = ids.to(model.device)
    states = _states(model, ids, keep)
    parts = [_losses(logits, ids, part) for part, logits in _logits(model.module, ids, states, scored)]
    return _finite(model, torch.cat(parts))


@torch.no_grad()
def changes(
    model: Model, known: Untouched, keep: Selection, *, targets: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """What ``keep`` changes on a window: per scored token the rise in loss and the divergence, both (targets,) float64.

    Rise: loss with the selection minus loss without, in nats. Divergence: KL(p || q) of the full model's prediction p
    and the prediction q with the selection, in nats, never negative. It is what the rise would be on average were the
    next token drawn from p, so it has not the chance of the one token that the text happens to have. Layers below the
    first selecting one are not computed again. Arguments and errors as in `loss`.
    """
    ids, scored = known.ids, _scored(len(known.ids), targets)
    states = _states(model, ids, keep, known)
    rises, divergences = [], []
    blocks = zip(*(_logits(model.module, ids, each, scored) for each in (known.states, states)), strict=True)
    for (part, full), (_, own) in blocks:
        p, q = (working(logits).log_softmax(-1) for logits in (full, own))
        divergences.append((p.exp() * (p - q)).sum(-1).clamp(min=0).cpu())  # rounding may leave less
        token = ids[part + 1].to(p.device)[:, None]
        rises.append((p.gather(1, token) - q.gather(1, token))[:, 0].cpu())
    _finite(model, torch.cat(rises))
    return torch.cat(rises), torch.cat(divergences)


def spread_windows(model: Model, text: str, length: int, count: int, apart: int) -> torch.Tensor:
    """``count`` windows of ``length`` tokens, each ``apart`` windows after the last: (count, length) int64.

    As `capture.windows`, which takes consecutive ones. ValueError for numbers below 1.
    """
    if count < 1 or apart < 1:
        raise ValueError(f"windows is {count} and apart is {apart}; both must be at least 1")
    return windows(model.tokenizer, text, length, (count - 1) * apart + 1)[::apart]


def loss_curve(
    model: Model,
    ids: torch.Tensor,
    *,
    top_ns: Sequence[int],
    rules: Sequence[str],
    targets: int | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """The loss on a window when every head of the model keeps N keys: a row per rule and N, N from 1 to L - 1.

    Columns: rule, top_n, ``loss`` with the selection, ``full`` without, in nats. Arguments: see `loss`, `Selection`.
    """
    check_choice("rules", rules, RULES)
    top_ns = check_numbers(
        "top_ns", top_ns, 1, len(ids) - 1, "with as many keys as tokens nothing is selected"
    )
    full, _ = loss(model, ids, targets=targets)
    table = []
    for rule in rules:
        for top_n in tqdm(top_ns, desc=f"{len(ids)} tokens, {rule}"):
            own, _ = loss(model, ids, Selection(top_n, rule, seed=seed), targets=targets)
            table.append({"rule": rule, "top_n": top_n, "loss": own, "full": full})
    return pd.DataFrame(table)


def sampled_heads(model: Model, layer_step: int, per_layer: int) -> list[tuple[int, int]]:
    """(layer, head) pairs spread evenly: of every ``layer_step``-th layer ``per_layer`` heads, first and last included.

    One head per layer is the first; a layer with fewer heads gives all of them. ValueError for numbers below 1.
    """
    for name, value in (("layer_step", layer_step), ("heads_per_layer", per_layer)):
        if value < 1:
            raise ValueError(f"{name} is {value}; it must be at least 1")
    config = model.module.config.get_text_config()
    last = config.num_attention_heads - 1
    chosen = {round(part * last / max(per_layer - 1, 1)) for part in range(per_layer)}
    return [
        (layer, head) for layer in range(0, config.num_hidden_layers, layer_step) for head in sorted(chosen)
    ]


def head_effects(
    model: Model,
    ids: torch.Tensor,
    *,
    heads: Sequence[tuple[int, int]],
    top_ns: Sequence[int],
    rules: Sequence[str],
    targets: int | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """What happens on a window when one head alone keeps N keys: a row per head, rule and N.

    Columns: layer, head, rule, top_n; ``rise`` in loss and ``divergence``, means over the scored tokens in nats, and
    ``error``, the standard error of the rise over tokens. Arguments and meaning as in `changes`.
    """
    check_choice("rules", rules, RULES)
    known, table = untouched(model, ids), []
    for layer, head in tqdm(heads, desc="single heads"):
        for rule in rules:
            for top_n in top_ns:
                keep = Selection(top_n, rule, frozenset({(layer, head)}), seed)
                rises, divergences = changes(model, known, keep, targets=targets)
                numbers = {"rise": float(rises.mean()), "divergence": float(divergences.mean())}
                error = float(rises.std() / len(rises) ** 0.5) if len(rises) > 1 else float("nan")
                key = {"layer": layer, "head": head, "rule": rule, "top_n": top_n}
                table.append(key | numbers | {"error": error})
    return pd.DataFrame(table)


def _scored(length: int, targets: int | None) -> torch.Tensor:
    """Positions of the last ``targets`` predictions of a window."""
    most = length - 1
    targets = most if targets is None else targets
    if not 1 <= targets <= most:
        raise ValueError(f"targets is {targets}; a window of {length} tokens has 1 to {most} predictions")
    return torch.arange(most - targets, most)


def _states(model: Model, ids: torch.Tensor, keep: Selection | None, known: Untouched | None = None) -> Any:
    """The last states with a selection; from ``known`` where it starts late."""
    module = model.module
    config = module.config.get_text_config()
    check_context(config, len(ids))
    first = keep.first_layer(config) if keep else 0
    answers = dict(zip(_layers(module)[:first], known.layers, strict=False)) if known else {}
    with _answering(answers), selecting(module, keep, len(answers)) if keep else nullcontext():
        return _decoder(module)(ids[None], use_cache=False)


def _losses(logits: torch.Tensor, ids: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    logits = working(logits)
    return cross_entropy(logits, ids[part + 1].to(logits.device), reduction="none").cpu()


def _finite(model: Model, tokens: torch.Tensor) -> tuple[float, torch.Tensor]:
    if not torch.isfinite(tokens).all():
        name = type(model.module).__name__
        raise CaptureError(f"{name}: the loss is NaN or infinite; the model's weights are broken")
    return float(tokens.mean()), tokens


def _decoder(module: PreTrainedModel) -> torch.nn.Module:
    """The part whose states the model's head reads."""
    from transformers import PreTrainedModel

    part = module.get_decoder()
    part = part if isinstance(part, PreTrainedModel) else module.base_model  # some call their head a decoder
    if part is module:
        raise CaptureError(f"{type(module).__name__} does not say which part its head reads")
    return part


def _layers(module: PreTrainedModel) -> list[torch.nn.Module]:
    """The decoder layers in order: the one list of modules in which entry i holds the attention of layer i."""
    count = module.config.get_text_config().num_hidden_layers
    for part in module.modules():
        if isinstance(part, torch.nn.ModuleList) and len(part) == count:
            places = [{getattr(m, "layer_idx", None) for m in layer.modules()} - {None} for layer in part]
            if places == [{index} for index in range(count)]:
                return list(part)
    raise CaptureError(f"{type(module).__name__} has no list of {count} layers that each hold one attention")


@contextmanager
def _answering(answers: Mapping[torch.nn.Module, Any]) -> Iterator[None]:
    """Let each module answer what it is given here, without computing it; CaptureError for one that nobody asked."""
    asked = set()

    def answer(part: torch.nn.Module, *_args: Any, **_kwargs: Any) -> Any:
        """Stands in for the ``forward`` of a part."""
        asked.add(part)
        return answers[part]

    for part in answers:
        part.forward = partial(answer, part)
    try:
        yield
    finally:
        for part in answers:
            del part.forward
    if left := [type(part).__name__ for part in answers if part not in asked]:
        raise CaptureError(
            f"{left[0]} is not what the model's head reads, so that what a selection does to it cannot be told"
        )


def _logits(
    module: PreTrainedModel, ids: torch.Tensor, states: Any, scored: torch.Tensor
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Blocks of (positions, logits (positions, vocabulary) float32), by the model's own head on given last states."""
    for part in scored.to(ids.device).split(max(1, _BLOCK // module.config.get_text_config().vocab_size)):
        with _answering({_decoder(module): states}):
            logits = module(ids[None], use_cache=False, logits_to_keep=part).logits
        if logits.shape[1] != len(part):
            raise CaptureError(
                f"{type(module).__name__} gives no logits of chosen positions alone (logits_to_keep)"
            )
        yield part, logits[0].float()
