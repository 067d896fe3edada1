"""From a list of names to tables: headline numbers of the models that can be had, and the others with the reason."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import pandas as pd
import torch

from attention_limits.capture import Capture, CaptureError, captures
from attention_limits.sources import Model, SourceError, Text
from attention_limits.sources.base import without_folders

from .heads import Plan, headline, prefix, violations
from .shelf import SHUFFLED, Shelf, check_names, is_control

# What keeps one model or length out without stopping the others; any other error is a fault of this program.
REFUSALS = (SourceError, CaptureError, torch.OutOfMemoryError, MemoryError)


@dataclass(frozen=True)
class Comparison:
    """What was measured, and what was not.

    ``models``: a row per model: model, kind (trained, random, shuffled), type (architecture), parameters, layers, heads
    (of all layers), context (tokens; NaN: no limit is known), sha256 ("" for one of random weights), origin, revision.
    ``heads``: the rows of `headline` with model, window and length. ``checks``: a row per model, window and window
    length with ``rows`` and ``extremes`` summed over heads and lengths, and the counts of `violations`. ``missing``:
    model, lengths ("all" for a model of which nothing was measured) and reason.
    """

    models: pd.DataFrame
    heads: pd.DataFrame
    checks: pd.DataFrame
    missing: pd.DataFrame


def compare(main: str, others: Sequence[str], text: Text, plan: Plan, device: str = "auto") -> Comparison:
    """Measure ``main`` and those of ``others`` that can be had; trained models first, each once.

    Another model that cannot be had, or whose attention cannot be captured, is listed under ``missing`` with the
    reason, and so is a length that a model cannot read or at which it fails on the way; what was measured at that
    length before is dropped. Raises ValueError for names that mean nothing, SourceError where ``main`` itself cannot be
    had, CaptureError where no model could be measured.
    """
    check_names(others)
    shelf = Shelf(main, plan.seed, device)
    names = dict.fromkeys([shelf.main, *(shelf.explicit(name) for name in others)])
    found: dict[str, list] = {"models": [], "heads": [], "checks": [], "missing": []}
    for name in sorted(names, key=is_control):
        _add(name, shelf, text, plan, found)
        gc.collect()  # modules may refer to themselves; the next model comes when this one is gone
    missing = _grouped(found["missing"], {line["model"] for line in found["models"]})
    if not found["models"]:
        raise CaptureError("no model could be measured: " + "; ".join(missing.model + ": " + missing.reason))
    heads, checks = (pd.concat(found[part], ignore_index=True) for part in ("heads", "checks"))
    return Comparison(pd.DataFrame(found["models"]), heads, checks, missing)


def _add(name: str, shelf: Shelf, text: Text, plan: Plan, found: dict[str, list]) -> None:
    """Load one model, measure it, and add the tables to ``found``, or the reason why there are none."""
    try:
        model = shelf.get(name)
    except REFUSALS as error:
        if name == shelf.main:
            raise
        found["missing"].append((without_folders(name), 0, str(error)))
        return
    label = _free(model.provenance.name, [line["model"] for line in found["models"]])

    def refuse(length: int, reason: str) -> None:
        """Note a length that this model cannot be measured at."""
        found["missing"].append((label, length, reason))

    control = is_control(name)
    parts = _at(model, text, plan.lengths, 1 if control else plan.windows, plan, refuse)
    if not parts:
        return
    if not control:
        parts += _at(model, text, set(plan.long_lengths) - set(plan.lengths), 1, plan, refuse)
    found["models"].append({"model": label, "kind": _kind(name)} | _description(model))
    for heads, checks in parts:
        found["heads"].append(heads.assign(model=label))
        found["checks"].append(pd.DataFrame([{"model": label} | checks]))


def _at(
    model: Model,
    text: Text,
    lengths: Collection[int],
    count: int,
    plan: Plan,
    refuse: Callable[[int, str], None],
) -> list[tuple[pd.DataFrame, dict[str, Any]]]:
    """Tables of every window at ``lengths``, read from windows of the longest one that the model can read.

    ``refuse`` gets every length that was not measured, with the reason.
    """
    left = sorted(set(lengths))
    while left:
        try:
            if left[-1] > _context(model):
                raise CaptureError(f"the context is {_context(model)} tokens")
            seen = enumerate(captures(model, text.content, left[-1], count))
            return [_window(part, number, left, plan) for number, part in seen]
        except REFUSALS as error:
            refuse(left.pop(), str(error))
    return []


def _window(
    seen: Capture, number: int, lengths: Sequence[int], plan: Plan
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Numbers of one window at every length, and the bounds checked on it."""
    tables = [headline(prefix(seen, length), plan).assign(window=number, length=length) for length in lengths]
    heads = pd.concat(tables, ignore_index=True)
    checks = {"window": number, "length": seen.length, "rows": int(heads.rows.sum())}
    checks |= {"extremes": int(heads.extremes.sum())} | violations(seen, plan)
    return heads.drop(columns=["rows", "extremes"]), checks


def _context(model: Model) -> float:
    """Tokens that the model can read at once, infinity where its configuration names no limit."""
    named = getattr(model.module.config.get_text_config(), "max_position_embeddings", None)
    return inf if named is None else named


def _kind(name: str) -> str:
    return "shuffled" if name == SHUFFLED else "random" if is_control(name) else "trained"


def _description(model: Model) -> dict[str, Any]:
    config, context = model.module.config.get_text_config(), _context(model)
    return {
        "type": config.model_type,
        "parameters": sum(part.numel() for part in model.module.parameters()),
        "layers": config.num_hidden_layers,
        "heads": config.num_hidden_layers * config.num_attention_heads,
        "context": float("nan") if context == inf else float(context),
        "sha256": model.provenance.sha256,
        "origin": model.provenance.origin,
        "revision": model.provenance.revision,
    }


def _free(name: str, taken: Sequence[str]) -> str:
    """``name``, with a number where another model (a folder of the same name) has it already."""
    labels = [name, *(f"{name} ({number})" for number in range(2, len(taken) + 2))]
    return next(label for label in labels if label not in taken)


def _grouped(missing: Sequence[tuple[str, int, str]], measured: set[str]) -> pd.DataFrame:
    """One line per model and reason, with the lengths that it holds for; one line per model measured at no length."""
    table: dict[tuple[str, str], list[int]] = {}
    for model, length, reason in missing:
        table.setdefault((model, reason), []).append(length)
    lines = [
        {"model": model, "lengths": ", ".join(map(str, sorted(lengths))), "reason": reason}
        for (model, reason), lengths in table.items()
        if model in measured
    ]
    for name in dict.fromkeys(model for model, _ in table if model not in measured):
        reasons = "; ".join(reason for model, reason in table if model == name)
        lines.append({"model": name, "lengths": "all", "reason": reasons})
    return pd.DataFrame(lines, columns=["model", "lengths", "reason"])
