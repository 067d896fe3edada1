"""Rows of weights for hypothesis: random ones, and the shapes on which sums and bounds go wrong."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st


@st.composite
def distributions(draw, min_size: int = 1, max_size: int = 24) -> np.ndarray:
    """A row of sum one: softmax of wide logits, uniform, one-hot, ties, zeros, or one dominant weight."""
    n = draw(st.integers(min_size, max_size))
    kind = draw(st.sampled_from(["softmax", "uniform", "one-hot", "ties", "zeros", "sink"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if kind == "softmax":
        raw = np.exp(rng.uniform(-1, 1, n) * draw(st.floats(0, 60)))
    elif kind == "uniform":
        raw = np.ones(n)
    elif kind == "one-hot":
        raw = np.eye(n)[rng.integers(n)]
    elif kind == "ties":
        raw = rng.choice([0.25, 0.5, 1.0], n)
    elif kind == "zeros":
        raw = rng.random(n) * (rng.random(n) < 0.5)
        raw[rng.integers(n)] = 1.0
    else:
        raw = rng.random(n) * 10.0 ** -draw(st.integers(1, 12))
        raw[rng.integers(n)] = 1.0
    return raw / raw.sum()
