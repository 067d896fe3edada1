"""All measurements of one window: every rule on the same logits of every head, float64."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from attention_limits.capture import SPACES, Capture
from attention_limits.measures.heads import check_choice, check_numbers, check_positive, step_beyond

from .geometry import separability
from .gradients import sensitivity
from .rules import Normaliser
from .weights import check_stride, scaling


def compare(
    capture: Capture,
    rules: Sequence[Normaliser],
    *,
    lengths: Sequence[int],
    top_ns: Sequence[int],
    temperatures: Sequence[float],
    spaces: Sequence[str],
    stride: int,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """`scaling`, `separability` and `sensitivity` of one window; all parameters are checked before the first.

    N_s/N is measured on every fourth and the Jacobians on every eighth of the rows that ``stride`` keeps (the window's
    last row always among them where ``stride`` divides its length); N_s/N on more of them where the largest N would be
    left without a row.
    """
    check_numbers("lengths", lengths, 2, capture.length, "tokens in the window")
    check_numbers("top_ns", top_ns, 1, capture.length - 1, "one token must stay unselected")
    check_choice("spaces", spaces, SPACES)
    check_positive("temperatures", temperatures)
    check_stride(stride, min(lengths))
    fourth = step_beyond(max(top_ns), capture.length, (4 * stride, 2 * stride, stride, 1))
    eighth = min(8 * stride, capture.length)
    return (
        scaling(capture, rules, lengths=lengths, top_ns=top_ns, stride=stride),
        separability(capture, rules, top_ns=top_ns, spaces=spaces, stride=fourth),
        sensitivity(capture, rules, temperatures=temperatures, stride=eighth),
    )
