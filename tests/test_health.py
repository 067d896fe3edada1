"""Numbers of the health check against plain float64 loops, and verdicts at their thresholds and on planted heads."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from attention_limits import health, statistics
from attention_limits.capture import Capture, Layer
from attention_limits.health import numbers, rules
from attention_limits.theory import distance
from hypothesis import given
from hypothesis import strategies as st
from paths import kernel_path  # noqa: F401
from test_measures import seen, softmax_of_head  # noqa: F401  (seen is a fixture)
from torch.utils.flop_counter import FlopCounterMode

SPACES = ["hidden", "embedding", "value"]


def told_apart(weights, x, top_n):
    """N_s/N of one row by pairs of vectors."""
    y = weights[:, None] * (x / np.linalg.norm(x, axis=1, keepdims=True))
    chosen = sorted(range(len(y)), key=lambda i: (-weights[i], i))[:top_n]
    s = sum(y[i] for i in chosen)
    r = min(np.linalg.norm(y[i] - s) for i in range(len(y)) if i not in chosen)
    return sum(np.linalg.norm(y[i] - s) < r for i in chosen) / top_n


def heavy(weights):
    """Fewest tokens with 90 % of the weight."""
    held, count = 0.0, 0
    for w in sorted(weights, reverse=True):
        held, count = held + w, count + 1
        if held >= 0.9 - 1e-12:
            return count


def brute_force(seen, layer, head, top_n, space, rows):  # noqa: F811
    """Every number of one head as the mean over ``rows`` of a plain computation."""
    weights, logits = softmax_of_head(seen, layer, head)
    x = seen.vectors(space, layer, head).double().numpy()
    part = seen.layers[layer]
    q, k = part.q[head].double().numpy(), part.k[part.key_value_head(head)].double().numpy()
    found = []
    for n in rows:
        a = weights[n - 1]
        entropy = -sum(w * math.log(w) for w in a if w > 0)
        reach = np.linalg.norm(q[n - 1]) * max(np.linalg.norm(k[i]) for i in range(n)) * part.scale
        found.append(
            {
                "entropy": entropy,
                "entropy_share": entropy / math.log(n),
                "support": math.exp(entropy),
                "first": a[0],
                "largest": max(a),
                "mass90": heavy(a),
                "jacobian": np.linalg.eigvalsh(np.diag(a) - np.outer(a, a))[-1],
                "logit_sd": np.std(logits[n - 1]),
                "ratio": told_apart(a, x[:n], top_n),
                "crossover": math.log10(math.exp(2 * reach)) if reach < 300 else 2 * reach / math.log(10),
            }
        )
    return pd.DataFrame(found).mean(), weights


@pytest.mark.parametrize("space", SPACES)
def test_numbers_equal_plain_loops(seen, space):  # noqa: F811
    heads = [(0, 1), (1, 0), (1, 3)]
    found, _ = health.measure(seen, heads, top_n=5, space=space, stride=3)
    assert list(zip(found.layer, found["head"], strict=True)) == heads
    for row in found.to_dict("records"):
        expected, weights = brute_force(seen, row["layer"], row["head"], 5, space, range(22, 41, 3))
        for name, value in expected.items():
            assert row[name] == pytest.approx(value, rel=1e-8), name
        assert row["mass90_half"] == np.mean([heavy(weights[n - 1]) for n in range(11, 21)])
    assert found.ratio.between(0, 1, inclusive="left").any()  # the comparison with r had something to decide


@pytest.mark.parametrize("space", SPACES)
def test_distances_equal_plain_loops(seen, space):  # noqa: F811
    _, curves = health.measure(seen, [(1, 2)], top_n=5, space=space, stride=1)
    weights, _ = softmax_of_head(seen, 1, 2)
    x = seen.vectors(space, 1, 2).double().numpy()
    assert curves.top_n.tolist() == [1, 2, 4, 5, 8, 16, 32, 39]
    for row in curves.to_dict("records"):
        top_n = row["top_n"]
        rows = [n for n in (40, 36, 32, 28, 24) if n > top_n]
        sets = [distance.top_set(weights[n - 1], top_n) for n in rows]
        d = [distance.cumulative_distance(weights[n - 1], x[:n], s) for n, s in zip(rows, sets, strict=True)]
        expected = [distance.expected_distance_bound(weights[n - 1], x[:n], top_n) for n in rows]
        assert row["d"] == pytest.approx(np.mean(d), rel=1e-8)
        assert row["expected"] == pytest.approx(np.mean(expected), rel=1e-8)


def test_blocks_of_rows_change_nothing(seen, monkeypatch):  # noqa: F811
    _, whole = health.measure(seen, [(0, 0)], top_n=5)
    monkeypatch.setattr(numbers, "_BLOCK", 1)
    _, rows = health.measure(seen, [(0, 0)], top_n=5)
    np.testing.assert_allclose(rows[["d", "expected"]], whole[["d", "expected"]], rtol=1e-12)


def test_rows_are_counted_from_the_end_of_the_window():
    assert numbers.rows_at(40, 3).tolist() == [22, 25, 28, 31, 34, 37, 40]
    assert numbers.rows_at(7, 1).tolist() == [4, 5, 6, 7]
    assert numbers.rows_at(6, 100).tolist() == [6]


def test_only_the_heads_that_are_asked_for_are_computed(seen):  # noqa: F811
    def work(heads):
        with FlopCounterMode(display=False) as counter:
            health.measure(seen, heads, top_n=5, stride=4)
        return counter.get_total_flops()

    every = work(list(seen.heads()))
    assert 0 < work([(1, 3)]) == every / 8
    assert work([(0, 0), (1, 3)]) == every / 4


def test_work_grows_with_rows_not_with_the_square_of_the_window(seen):  # noqa: F811
    """Matrix products of a head: logits (also of the half window), N_s/N; on few rows y.Y and one per N of the grid."""
    rows, short, few, L, d, h, sizes = 5, 5, 2, 40, 32, 8, 8
    with FlopCounterMode(display=False) as counter:
        health.measure(seen, [(0, 0)], top_n=5, stride=4)
    there_and_back = 2 * 2 * L * d  # one row times the vectors, and back
    logits = 2 * h * (rows * L + short * L // 2)
    assert counter.get_total_flops() == logits + there_and_back * (rows + few * (sizes + 1))


@pytest.mark.parametrize(
    ("first", "entropy_share", "ratio", "verdict"),
    [
        (0.5, 0.2, 0.9, "sink"),
        (0.49999999, 0.2, 0.9, "selective"),
        (0.5, 0.95, 0.2, "sink"),  # the first rule that holds
        (0.1, 0.9, 0.2, "diffuse"),
        (0.1, 0.89999999, 0.8, "selective"),
        (0.1, 0.89999999, 0.79999999, "saturated"),
    ],
)
def test_verdict_at_its_thresholds(first, entropy_share, ratio, verdict):
    assert health.verdict({"first": first, "entropy_share": entropy_share, "ratio": ratio}) == verdict


numbers_of_heads = st.fixed_dictionaries(
    {name: st.floats(0, 1, allow_nan=False) for name in ("first", "entropy_share", "ratio")}
)


@given(numbers_of_heads)
def test_every_head_has_exactly_one_verdict(row):
    first, share, ratio = row["first"], row["entropy_share"], row["ratio"]
    truth = {
        "sink": first >= 0.5,
        "diffuse": first < 0.5 and share >= 0.9,
        "saturated": first < 0.5 and share < 0.9 and ratio < 0.8,
        "selective": first < 0.5 and share < 0.9 and ratio >= 0.8,
    }
    assert [name for name, holds in truth.items() if holds] == [health.verdict(row)]


@pytest.mark.parametrize(
    ("row", "watched"),
    [
        ({"first": 0.46, "entropy_share": 0.5, "ratio": 0.9}, True),
        ({"first": 0.44, "entropy_share": 0.5, "ratio": 0.9}, False),
        ({"first": 0.54, "entropy_share": 0.5, "ratio": 0.9}, True),
        ({"first": 0.9, "entropy_share": 0.89, "ratio": 0.79}, False),  # a sink whatever the other two say
        ({"first": 0.1, "entropy_share": 0.86, "ratio": 0.9}, True),
        ({"first": 0.1, "entropy_share": 0.5, "ratio": 0.76}, True),
        ({"first": 0.1, "entropy_share": 0.5, "ratio": 0.74}, False),
    ],
)
def test_a_head_near_another_verdict_is_watched(row, watched):
    assert rules.to_watch(row) == watched


@pytest.mark.parametrize(
    ("largest", "logit_sd", "sharp"), [(0.9, 1, True), (0.899, 10, False), (0.2, 10.01, True)]
)
def test_sharp_at_its_thresholds(largest, logit_sd, sharp):
    assert rules.too_sharp({"largest": largest, "logit_sd": logit_sd}) == sharp


@given(st.lists(st.lists(st.floats(-30, 30), min_size=3, max_size=3), min_size=1, max_size=6))
def test_reason_of_the_sharp_rule(rows):
    """Mean |J|_2 <= 2 p (1 - p) for the mean largest weight p >= 1/2 (2 a (1 - a) is concave)."""
    weights = torch.tensor(rows, dtype=torch.float64).softmax(dim=1).numpy()
    p = weights.max(axis=1).mean()
    norms = [np.linalg.eigvalsh(np.diag(a) - np.outer(a, a))[-1] for a in weights]
    assert np.mean(norms) <= 2 * p * (1 - p) + 1e-12
    assert "0.18" in rules.sharp_rule()


rows_with_vectors = st.integers(2, 9).flatmap(
    lambda n: st.tuples(
        st.lists(st.floats(-8, 8), min_size=n, max_size=n),
        st.lists(st.lists(st.floats(-5, 5), min_size=3, max_size=3), min_size=n, max_size=n),
        st.integers(1, n - 1),
    )
)


@given(rows_with_vectors)
def test_cost_of_keeping_the_heaviest_tokens(row):
    """The chapter's bound: leaving out 1 - abar of the weight moves the output by at most 2 (1 - abar) max |x_i|."""
    logits, x, k = row
    weights, x = torch.tensor(logits, dtype=torch.float64).softmax(dim=0).numpy(), np.array(x)
    kept = distance.top_set(weights, k)
    held = weights[kept].sum()
    moved = np.linalg.norm(weights @ x - weights[kept] @ x[kept] / held)
    assert moved <= 2 * (1 - held) * np.linalg.norm(x, axis=1).max() + 1e-12


def planted(logits_of_row, length=64, d=16):
    """A capture of one head whose logits are given: q holds each row's logits, the keys are unit vectors."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(length, d, generator=generator)
    q = torch.stack([logits_of_row(n) for n in range(1, length + 1)])
    return Capture(torch.arange(length), x, (Layer(q[None], torch.eye(length)[None], x[None], x, 1.0),))


def sink(n):
    return torch.nn.functional.one_hot(torch.tensor(0), 64) * 6.0


def uniform(n):
    return torch.zeros(64)


def previous(n):
    return torch.nn.functional.one_hot(torch.tensor(max(n - 2, 0)), 64) * 40.0


def recent(n):
    """Weights that halve with every step back."""
    return -math.log(2) * (n - 1 - torch.arange(64.0)).clamp(min=0)


def judged(seen, top_n=8):  # noqa: F811
    return health.report.judged({"windows": 1, "length": seen.length}, *_stacked(seen, top_n))


def _stacked(seen, top_n):  # noqa: F811
    return (part.assign(window=0) for part in health.measure(seen, [(0, 0)], top_n=top_n))


@pytest.mark.parametrize(
    ("head", "verdict", "sharp", "mass90"),
    [(sink, "sink", False, None), (uniform, "diffuse", False, None), (previous, "saturated", True, 1)],
)
def test_planted_heads(head, verdict, sharp, mass90):
    row = judged(planted(head)).table.iloc[0]
    assert (row.verdict, row.sharp) == (verdict, sharp)
    if mass90:
        assert row.mass90 == mass90
    if head is uniform:
        n = np.arange(33, 65)
        assert row.mass90 == pytest.approx(np.mean(np.ceil(0.9 * n - 1e-9)))
        assert row.entropy_share == pytest.approx(1)
        assert row.jacobian == pytest.approx(np.mean(1 / n), rel=1e-6)  # (I - 1 1^T / n) / n
    if head is sink:
        n = np.arange(33, 65)
        assert row["first"] == pytest.approx(np.mean(math.exp(6) / (math.exp(6) + n - 1)), rel=1e-6)


def test_a_head_that_looks_at_the_last_tokens_is_selective_for_few_and_saturated_for_many():
    """Weights 1/2, 1/4, ...: only tokens close to the sum in size are told apart, a fixed number of them."""
    few, many = (judged(planted(recent), top_n).table.iloc[0] for top_n in (1, 32))
    assert (few.verdict, many.verdict) == ("selective", "saturated")


def test_critical_n_is_the_first_crossing_of_the_means(seen):  # noqa: F811
    report = judged(seen)
    part = report.curves
    first = next((n for n, d, e in zip(part.top_n, part.d, part.expected, strict=True) if d <= e), None)
    value = report.table.critical_n[0]
    assert (None if pd.isna(value) else value) == first


def test_equal_weights_on_equal_vectors_are_as_far_apart_as_a_random_set():
    """Then every set of N is alike: d = (n - N)(N - 1)/n |x| = E_J, so that the first N is critical."""
    same = planted(uniform)
    layer = same.layers[0]
    same = Capture(same.ids, same.embedding, (Layer(layer.q, layer.k, layer.v, torch.ones(64, 16), 1.0),))
    part = judged(same).curves
    rows = [[(n - N) * (N - 1) / n * 4 for n in range(36, 65, 4) if n > N] for N in part.top_n]
    np.testing.assert_allclose(part.d, [np.mean(r) for r in rows], rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(part.expected, part.d, rtol=1e-7, atol=1e-7)


def test_means_over_windows_have_intervals(seen):  # noqa: F811
    tables, curves = [], []
    for window, change in enumerate((1.0, 0.5, 0.25)):
        layers = tuple(Layer(p.q * change, p.k, p.v, p.hidden, p.scale) for p in seen.layers)
        one = Capture(seen.ids, seen.embedding, layers)
        table, curve = health.measure(one, [(0, 0), (1, 1)], top_n=5)
        tables.append(table.assign(window=window))
        curves.append(curve.assign(window=window))
    given_settings = {"windows": 3, "length": 40}
    report = health.report.judged(given_settings, pd.concat(tables), pd.concat(curves))
    for name in health.NUMBERS:
        mean, low, high = statistics.interval([table[name][1] for table in tables])
        row = report.table.iloc[1]
        assert (row[name], row[f"{name}_low"], row[f"{name}_high"]) == pytest.approx((mean, low, high))
    d = np.mean([curve.d for curve in curves], axis=0)
    np.testing.assert_allclose(report.curves.d, d)
