"""Weights against length on a captured model, against plain loops."""

import numpy as np
import pytest
import torch
from attention_limits import kernels, measures
from attention_limits.capture import Capture, Layer
from paths import kernel_path  # noqa: F401
from test_measures import seen, softmax_of_head  # noqa: F401  (seen is a fixture)


def test_weight_scaling_equals_plain_loops(seen):  # noqa: F811
    lengths = [10, 40]
    found = measures.weight_scaling(seen, lengths=lengths)
    assert len(found) == 2 * 4 * 2
    for row in found.to_dict("records"):
        weights, logits = softmax_of_head(seen, row["layer"], row["head"])
        part = seen.layers[row["layer"]]
        q = part.q[row["head"]].double().numpy()
        k = part.k[part.key_value_head(row["head"])].double().numpy()
        rows = range(row["length"] // 2 + 1, row["length"] + 1)
        kept = [weights[n - 1] for n in rows]

        def geometric(values):
            return np.exp(np.mean(np.log(values)))

        entropies = [-sum(w * np.log(w) for w in a if w > 0) for a in kept]
        reach = [
            np.linalg.norm(q[n - 1]) * max(np.linalg.norm(k[i]) for i in range(n)) * part.scale for n in rows
        ]
        expected = {
            "largest": geometric([a.max() for a in kept]),
            "median": geometric([np.median(a) for a in kept]),
            "smallest": geometric([a.min() for a in kept]),
            "entropy": np.mean(entropies),
            "entropy_share": np.mean([h / np.log(n) for h, n in zip(entropies, rows, strict=True)]),
            "support": np.mean(np.exp(entropies)),
            "first": np.mean([a[0] for a in kept]),
            "log_crossover": np.mean([2 * d for d in reach]),
            "tightness": geometric(
                [1 / (1 + (n - 1) * np.exp(-np.ptp(logits[n - 1]))) / weights[n - 1].max() for n in rows]
            ),
        }
        for name, value in expected.items():
            assert row[name] == pytest.approx(value, rel=1e-8), name
        assert (row["rows"], row["violations"]) == (len(kept), 0)


def test_exact_extremes_are_seen_to_be_broken_when_they_are():
    """The check behind `violations` can fail: weights that are not the softmax of the logits fall outside."""
    logits, weights = torch.tensor([[0.0, 1.0, 2.0, 3.0], [0.0, 0.0, 0.0, 1.0]]).double()[:, None]
    largest, _, smallest, _, spread = kernels.weight_rows(logits, weights, torch.tensor([4]))[:, 0].tolist()
    assert largest > 1 / (1 + 3 * np.exp(-spread)) and smallest < 1 / (1 + 3 * np.exp(spread))


def test_a_weight_of_zero_adds_nothing_to_the_entropy():
    weights = torch.tensor([[0.5, 0.5, 0.0]]).double()
    found = kernels.weight_rows(torch.zeros(1, 3).double(), weights, torch.tensor([3]))[:, 0].tolist()
    assert found == pytest.approx([0.5, 0.5, 0.0, np.log(2), 0.0])


@pytest.mark.parametrize("size", [1e2, 1e3, 1e6])
def test_weights_that_underflow_break_no_bound(size):
    """Logits a thousand apart leave weights of exactly zero, whose bound is below every normal number too."""
    q, k, x = torch.randn(3, 1, 12, 4, generator=torch.Generator().manual_seed(0))
    capture = Capture(torch.arange(12), x[0], (Layer(size * q, k, x, x[0], 0.5),))
    found = measures.weight_scaling(capture, lengths=[12])
    assert found.violations.sum() == 0 and np.isfinite(found.select_dtypes(float)).all(axis=None)
    if size > 100:
        assert found.smallest.item() < 1e-250
