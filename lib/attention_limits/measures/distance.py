"""Algorithms 1 to 3: distance between the selected and the other tokens (Theorem 1), for every head."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd
import torch

from attention_limits import kernels
from attention_limits.capture import SPACES, Capture

from .heads import SUPPORTS, Head, check_choice, check_numbers, each_head

_NUMBERS = ("d", "expected", "bound", "s_norm", "count_term", "mean_distance", "tightness")
_COUNTS = ("rows", "violations", "sandwich_violations")
# Of the distance and of the lengths that it is made of: square roots are taken in float32, and a distance between two
# nearly equal vectors is a small difference of large numbers.
TOLERANCE = 5e-7


def distances(
    capture: Capture,
    *,
    spaces: Sequence[str],
    supports: Sequence[str],
    lengths: Sequence[int],
    top_ns: Sequence[int],
    stride: int = 1,
) -> pd.DataFrame:
    """Algorithms 1 to 3: distance, its random-set expectation and its bound (Theorem 1) for every head.

    ``lengths`` are context lengths L up to the window's; since a causal model's first L tokens do not depend on later
    ones, one window serves them all. Rows with n <= N are left out of the averages (n = L under `full`).

    Columns: layer, head, space, support, length, top_n; then means over tokens of d (``d``), E_J (``expected``), the
    bound (``bound``), |s| (``s_norm``), (n-N)|s| (``count_term``), d/(n-N) (``mean_distance``) and bound/d over
    tokens with d > 0 (``tightness``); ``rows``, the tokens averaged; ``violations``, tokens with d above the bound,
    and ``sandwich_violations``, tokens outside the sandwich, both beyond rounding (5e-7 of d and of what it sums).

    ``stride`` averages over the last of every ``stride`` tokens only. Raises ValueError for a reading, length or N that
    makes no sense.
    """
    check_choice("spaces", spaces, SPACES)
    check_choice("supports", supports, SUPPORTS)
    lengths = check_numbers("lengths", lengths, 2, capture.length, "tokens in the window")
    top_ns = check_numbers("top_ns", top_ns, 1, lengths[-1] - 1, "one token must stay unselected")
    totals = torch.tensor(lengths if "full" in supports else [], dtype=torch.int64)
    wanted = torch.tensor(top_ns)
    extra = 5 * (1 + len(totals)) * len(wanted)

    def measured(head: Head) -> list[tuple[dict, torch.Tensor]]:
        """The sums of one head, for each space."""
        sums = dict.fromkeys(spaces, torch.tensor(0.0))
        for visible, weights in head.blocks(stride, extra):
            order = kernels.top_rows(weights, visible, top_ns[-1])
            for space in spaces:
                gram, ahead = head.grams[space], head.projections(space, weights, int(visible[-1]))
                found = kernels.distance_rows(weights, visible, order, wanted, totals, gram, ahead)
                sums[space] = sums[space] + _sums(found, visible, supports, lengths, wanted)
        return [
            ({"layer": head.layer, "head": head.head, "space": space}, total) for space, total in sums.items()
        ]

    parts = [part for found in each_head(measured, capture, lengths[-1], spaces) for part in found]
    return _table(parts, supports, lengths, top_ns)


def _sums(
    found: torch.Tensor,
    visible: torch.Tensor,
    supports: Sequence[str],
    lengths: Sequence[int],
    wanted: torch.Tensor,
) -> torch.Tensor:
    """Sums over the rows of a block: (11, supports, lengths, N), the numbers of `_of_rows`.

    ``found`` is the kernel's (5, R, 1 + M, N). A row counts for a length if it lies within it and has n > N.
    """
    sums = found.new_zeros(11, len(supports), len(lengths), len(wanted))
    wanted = wanted.to(visible.device)
    # Rows are in order, so that those within a length come first.
    within = torch.searchsorted(visible, visible.new_tensor(lengths), right=True).tolist()
    for kind, support in enumerate(supports):
        if support == "causal":
            numbers = _of_rows(found[:, :, 0], visible[:, None] - wanted)
        for slot, (length, rows) in enumerate(zip(lengths, within, strict=True)):
            if support == "full" and rows:
                numbers = _of_rows(found[:, :rows, slot + 1], (length - wanted).expand(rows, -1))
            if rows:
                sums[:, kind, slot] = numbers[:, :rows].sum(dim=1)
    return sums


def _of_rows(found: torch.Tensor, terms: torch.Tensor) -> torch.Tensor:
    """What each row adds to the averages: (11, R, N), in the order of the columns and whether d > 0; 0 where n <= N.

    ``found``: (5, R, N) of one support; ``terms``: n - N, the number of unselected tokens, (R, N).
    """
    d, expected, bound, s_norm, slack = found
    kept, positive, count_term = terms > 0, d > 0, terms * s_norm
    rounding = TOLERANCE * (d + count_term + slack)
    tightness = (bound / d).masked_fill_(~positive, 0.0)
    numbers = (d, expected, bound, s_norm, count_term, d / terms, tightness)
    counts = (kept, d > bound + rounding, (d - count_term).abs() > slack + rounding, positive)
    return torch.stack([*numbers, *(part.double() for part in counts)]).masked_fill_(~kept, 0.0)


def _table(
    parts: Sequence[tuple[dict, torch.Tensor]],
    supports: Sequence[str],
    lengths: Sequence[int],
    top_ns: Sequence[int],
) -> pd.DataFrame:
    """The sums of every head as means in one table, a row per support, length and N that any token counts for."""
    sums = torch.stack([part for _, part in parts]).flatten(2).cpu().numpy()  # (heads, 11, readings)
    kept = (sums[:, 7] > 0).ravel()
    readings = [
        (*key.values(), *reading) for key, _ in parts for reading in product(supports, lengths, top_ns)
    ]
    names = [*parts[0][0], "support", "length", "top_n"]
    table = pd.DataFrame([line for line, keep in zip(readings, kept, strict=True) if keep], columns=names)
    numbers = sums.transpose(1, 0, 2).reshape(len(sums[0]), -1)[:, kept]
    for place, name in enumerate(_NUMBERS):
        with np.errstate(invalid="ignore"):  # no token with d > 0
            table[name] = numbers[place] / numbers[10 if name == "tightness" else 7]
    for place, name in enumerate(_COUNTS):
        table[name] = numbers[7 + place].astype(int)
    return table
