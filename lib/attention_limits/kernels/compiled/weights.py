"""Lemma 1 and Corollary 1 on every row of a head: extremes, median and entropy of the weights."""

import numpy as np

from .jit import compiled


@compiled
def weight_rows(logits, weights, visible):
    """:func:`attention_limits.kernels.weight_rows`."""
    rows = len(weights)
    out = np.empty((5, rows))
    for r in range(rows):
        n = visible[r]
        ordered = np.sort(weights[r, :n])
        entropy = 0.0
        for w in ordered:
            if w > 0.0:
                entropy -= w * np.log(w)
        out[0, r] = ordered[n - 1]
        out[1, r] = 0.5 * (ordered[(n - 1) // 2] + ordered[n // 2])
        out[2, r] = ordered[0]
        out[3, r] = entropy
        out[4, r] = logits[r, :n].max() - logits[r, :n].min()
    return out
