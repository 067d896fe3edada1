"""N_s/N of every rule, on the same logits and vectors of every head of a window."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import torch

from attention_limits import kernels
from attention_limits.capture import SPACES, Capture
from attention_limits.measures.heads import Head, check_choice, check_numbers, head_table, logit_blocks

from .rules import Normaliser


def separability(
    capture: Capture,
    rules: Sequence[Normaliser],
    *,
    top_ns: Sequence[int],
    spaces: Sequence[str],
    stride: int = 1,
) -> pd.DataFrame:
    """N_s/N of every head and rule at T = 1, vectors scaled to length one, r as in Algorithm 4, causal support.

    Columns: layer, head, normaliser, space, top_n; means over the measured rows with n > N of N_s/N (``ratio``); of the
    same at N or the size of the rule's support, whichever is smaller (``own``: tokens of weight zero are not selected);
    of softmax's N_s/N on the same row at that smaller N (``matched``); ``rows``. ``rules`` begin with softmax.

    A selected token of weight zero is never told apart where an unselected one has weight zero too: both lie at
    distance |s| from s. So it does not matter which of the tokens of weight zero are selected, and ``own`` counts the
    same N_s as ``ratio``. Raises ValueError for a space, N or stride outside its range.
    """
    check_choice("spaces", spaces, SPACES)
    top_ns = check_numbers("top_ns", top_ns, 1, capture.length - 1, "one token must stay unselected")

    def measured(head: Head) -> list[dict]:
        """The rows of one head."""
        table = []
        sums: dict[tuple[str, str], torch.Tensor] = {}
        for visible, logits in logit_blocks(head.source, head.head, head.length, stride):
            for space, gram in head.grams.items():
                for name, told in _told_apart(rules, logits, visible, gram, top_ns).items():
                    sums[name, space] = sums.get((name, space), 0) + told
        for (name, space), (*totals, rows) in sums.items():
            for column, top_n in enumerate(top_ns):
                count = int(rows[column])
                if count:
                    key = {"layer": head.layer, "head": head.head, "normaliser": name, "space": space}
                    means = [float(part[column]) / count for part in totals]
                    named = dict(zip(("ratio", "own", "matched"), means, strict=True))
                    table.append(key | {"top_n": top_n} | named | {"rows": count})
        return table

    return head_table(measured, capture, capture.length, spaces, unit=True)


def _told_apart(
    rules: Sequence[Normaliser],
    logits: torch.Tensor,
    visible: torch.Tensor,
    gram: torch.Tensor,
    top_ns: list[int],
) -> dict[str, torch.Tensor]:
    """Per rule, sums over the rows of a block for each N: ratio, own, matched and the number of rows; (4, N's)."""
    wanted = torch.tensor(top_ns, device=logits.device)
    # Softmax at every N, so that a rule's own support can be looked up.
    every = _ratios(
        rules[0].weights(logits, visible), visible, gram, torch.arange(1, top_ns[-1] + 1).to(wanted)
    )
    found = {}
    for rule in rules:
        weights = rule.weights(logits, visible)
        ratio = every[:, wanted - 1] if rule is rules[0] else _ratios(weights, visible, gram, wanted)
        smaller = torch.minimum((weights > 0).sum(1)[:, None].clamp(min=1), wanted)
        kept = ~ratio.isnan()
        numbers = (ratio, ratio * wanted / smaller, every.gather(1, smaller - 1))
        sums = [torch.where(kept, part, 0.0).sum(0) for part in numbers]
        found[rule.name] = torch.stack([*sums, kept.sum(0)]).cpu()
    return found


def _ratios(
    weights: torch.Tensor, visible: torch.Tensor, gram: torch.Tensor, wanted: torch.Tensor
) -> torch.Tensor:
    """N_s/N of every row at every N in ``wanted``, (R, N's), NaN where n <= N."""
    order = kernels.top_rows(weights, visible, int(wanted[-1]))
    none = torch.zeros(1, len(visible), dtype=torch.int64, device=weights.device)
    # The bounds that come beside it would need the gaps and the dimension.
    values, _ = kernels.geometry_rows(weights, visible, none, order, wanted, gram, none.double(), 1, 1)
    return values[0, 0]
