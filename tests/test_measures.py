"""Measures on a captured model against plain float64 loops over heads, tokens and keys."""

import itertools
import threading

import numpy as np
import pandas as pd
import pytest
import torch
from attention_limits import capture, kernels, measures
from attention_limits.measures.heads import each_head
from attention_limits.theory import distance
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import kernel_path  # noqa: F401
from test_capture import gpt2, llama, uneven_capture

READINGS = dict(spaces=["hidden", "embedding", "value"], supports=["causal", "full"])


@pytest.fixture(scope="module", params=[gpt2, llama], ids=["gpt2", "llama"])
def seen(request):
    return uneven_capture(request.param(), 25, 40)


def brute_force(seen, space, support, length, top_n, layer, head):
    """Algorithm 1 read word by word: for each token, float64 softmax, selection, distances, pairs."""
    part = seen.layers[layer]
    x = seen.vectors(space, layer, head).double().numpy()[:length]
    q, k = part.q[head].double().numpy(), part.k[part.key_value_head(head)].double().numpy()
    found = []
    for t in range(1, length + 1):
        weights = np.zeros(length)
        logits = np.array([q[t - 1] @ k[i] for i in range(t)]) * part.scale
        weights[:t] = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        n = t if support == "causal" else length
        if n <= top_n:
            continue
        order = sorted(range(n), key=lambda i: (-weights[i], i))
        chosen, rest = order[:top_n], order[top_n:]
        s = sum(weights[j] * x[j] for j in chosen)
        d = sum(np.linalg.norm(weights[i] * x[i] - s) for i in rest)
        d1 = max(np.linalg.norm(x[i] - x[j]) for i in rest for j in chosen)
        d2 = max(np.linalg.norm(x[j]) for j in chosen)
        abar = sum(weights[j] for j in chosen)
        bound = (1 - abar) * d1 + ((n - top_n) * abar - (1 - abar)) * d2
        expected = distance.expected_distance_bound(weights[:n], x[:n], top_n)
        norm = np.linalg.norm(s)
        found.append([d, expected, bound, norm, (n - top_n) * norm, d / (n - top_n), bound / d])
    return np.mean(found, axis=0), len(found)


@pytest.mark.parametrize("support", READINGS["supports"])
@pytest.mark.parametrize("space", READINGS["spaces"])
def test_distances_equal_brute_force(seen, space, support):
    lengths, top_ns = [6, 17, 40], [1, 5]
    rows = measures.distances(seen, spaces=[space], supports=[support], lengths=lengths, top_ns=top_ns)
    assert len(rows) == 2 * 4 * len(lengths) * len(top_ns)
    for row in rows.to_dict("records"):
        key = {name: row[name] for name in ("space", "support", "length", "top_n", "layer", "head")}
        expected, count = brute_force(seen, **key)
        names = ["d", "expected", "bound", "s_norm", "count_term", "mean_distance", "tightness"]
        # q, k and x are the model's float32; what is computed from them is float64, save two square roots.
        np.testing.assert_allclose([row[name] for name in names], expected, rtol=2e-7, err_msg=str(key))
        assert (row["rows"], row["violations"], row["sandwich_violations"]) == (count, 0, 0)


@pytest.mark.parametrize("stray", [0.0, 1.0])
def test_rounding_breaks_no_bound_where_all_tokens_lie_in_one_place(stray):
    """Equal weights and equal vectors: d, its bound and r are zero; one with a vector of its own has them all above."""
    model = gpt2()
    with torch.no_grad():
        for name, weight in model.module.named_parameters():
            if "c_attn" in name:
                weight[..., :32] = 0  # no query prefers any key
    seen = capture.capture(model, torch.full((40,), 7))
    seen.embedding[5] += stray
    given = READINGS | {"spaces": ["embedding"], "top_ns": [1, 4, 20]}
    found = measures.distances(seen, **given, lengths=[40])
    told, _ = measures.separability(seen, **given, group_top_n=4)
    assert found.violations.sum() == found.sandwich_violations.sum() == told.violations.sum() == 0
    assert (found.d[(found.top_n == 1) & (found.support == "causal")] > 1e-6).all() == bool(stray)


def test_readings_measured_together_equal_readings_measured_alone(seen):
    key = ["layer", "head", "space", "support", "length", "top_n"]
    together = measures.distances(seen, **READINGS, lengths=[8, 40], top_ns=[2, 7]).set_index(key)
    alone = measures.distances(seen, spaces=["value"], supports=["full"], lengths=[40], top_ns=[7]).set_index(
        key
    )
    np.testing.assert_allclose(together.loc[alone.index], alone, rtol=2e-7)


def test_a_length_without_a_measured_row_is_left_out(seen):
    given = dict(spaces=["hidden"], supports=["causal"], lengths=[6, 40], top_ns=[2])
    sparse = measures.distances(seen, **given, stride=20)  # rows 20 and 40
    assert sparse.length.unique().tolist() == [40]
    assert sparse.rows.unique().tolist() == [2]


def test_block_size_changes_nothing(seen, monkeypatch):
    def measured(available):
        free = type("Memory", (), {"available": available})
        monkeypatch.setattr("attention_limits.measures.heads.psutil.virtual_memory", lambda: free)
        return measures.distances(seen, **READINGS, lengths=[40], top_ns=[3])

    one_row, all_rows = measured(8 * 8 * (4 * 40 + 10)), measured(2**40)
    numbers = one_row.select_dtypes("number").columns
    np.testing.assert_allclose(one_row[numbers], all_rows[numbers], rtol=1e-12)


def softmax_of_head(seen, layer, head, temperature=1.0, scale=None):
    """Plain float64 weights, a list of one row per token, and their logits."""
    part = seen.layers[layer]
    q, k = part.q[head].double().numpy(), part.k[part.key_value_head(head)].double().numpy()
    logits = [q[t] @ k[: t + 1].T * (part.scale if scale is None else scale) for t in range(seen.length)]
    return [
        np.exp((l - l.max()) / temperature) / np.exp((l - l.max()) / temperature).sum() for l in logits
    ], logits


def test_logit_blocks_are_the_models_logits(seen):
    for stride in (1, 3):
        blocks = list(measures.logit_blocks(seen.layers[1], 2, 40, stride))
        visible = np.concatenate([rows for rows, _ in blocks])
        assert list(visible) == list(range(stride, 41, stride))
        for n, row in zip(visible, np.concatenate([logits for _, logits in blocks]), strict=True):
            np.testing.assert_allclose(row[:n], softmax_of_head(seen, 1, 2)[1][n - 1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("top_n", "length", "right"), [(5, 40, 8), (19, 21, 7), (32, 39, 7), (1, 2, 2), (2, 3, 3)]
)
def test_the_first_step_that_leaves_a_row_beyond_n(top_n, length, right):
    left = {step: [n for n in range(step, length + 1, step) if n > top_n] for step in range(8, 0, -1)}
    assert measures.step_beyond(top_n, length, left) == right == next(step for step in left if left[step])


def test_stride_averages_over_every_third_token(seen):
    found = measures.distances(
        seen, spaces=["value"], supports=["causal"], lengths=[40], top_ns=[5], stride=3
    )
    for row in found.to_dict("records"):
        weights = softmax_of_head(seen, row["layer"], row["head"])[0]
        x = seen.vectors("value", row["layer"], row["head"]).double().numpy()
        d = [
            distance.cumulative_distance(weights[n - 1], x[:n], distance.top_set(weights[n - 1], 5))
            for n in range(6, 41, 3)
        ]
        assert (row["rows"], row["d"]) == (len(d), pytest.approx(np.mean(d), rel=2e-7))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stride": 0}, "stride is 0; it must be from 1 to 40"),
        ({"stride": 41}, "stride is 41; it must be from 1 to 40"),
        ({"lengths": [41]}, r"lengths are \[41\].* each from 2 to 40"),
        ({"lengths": []}, "lengths are"),
        ({"top_ns": [0]}, r"top_ns are \[0\].* from 1 to 39"),
        ({"top_ns": [40]}, r"top_ns are \[40\]"),
        ({"supports": ["casual"]}, "supports is .*casual.*out of causal, full"),
        ({"supports": "causal"}, "must be a list"),
        ({"spaces": ["hiden"]}, "spaces is .*hiden.*out of hidden, embedding, value"),
        ({"spaces": []}, "spaces is"),
    ],
)
def test_senseless_readings_are_refused(seen, changes, message):
    with pytest.raises(ValueError, match=message):
        measures.distances(seen, **{**READINGS, "lengths": [8, 40], "top_ns": [2], **changes})


# --- kernels on rows that a model hardly makes -----------------------------------------------------------------------


@st.composite
def kernel_rows(draw):
    n = draw(st.integers(2, 14))
    raw = draw(
        st.one_of(
            st.just([0.0] * n),
            st.integers(0, n - 1).map(lambda hot: [300.0 * (i == hot) for i in range(n)]),
            st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=n, max_size=n),
            st.lists(st.floats(-30, 30, width=32), min_size=n, max_size=n),
        )
    )
    kind = draw(st.sampled_from(["random", "same", "pairs", "large", "tiny"]))
    x = np.random.default_rng(draw(st.integers(0, 99))).normal(size=(n, 3))
    if kind == "same":
        x[:] = x[0]
    elif kind == "pairs":
        x[1::2] = x[0 : n - n % 2 : 2]
    x *= {"large": 1e4, "tiny": 1e-5}.get(kind, 1.0)
    return np.array([raw]), x


def walk(logits, x, wanted, totals=()):
    n = logits.shape[1]
    visible, gram = torch.tensor([n]), torch.from_numpy(x @ x.T)
    weights = kernels.softmax_rows(torch.from_numpy(logits), visible, 1.0)
    order = kernels.top_rows(weights, visible, int(max(wanted)))
    totals = torch.tensor(totals, dtype=torch.int64)
    found = kernels.distance_rows(weights, visible, order, torch.tensor(wanted), totals, gram, weights @ gram)
    assert found.shape == (5, 1, 1 + len(totals), len(wanted))
    return weights[0].numpy(), order[0].numpy(), found[:, 0].numpy()


def test_no_visible_weight_is_below_the_documented_floor():
    weights = kernels.softmax_rows(
        torch.tensor([[0.0, -2000.0, -600.0, 9.0]]).double(), torch.tensor([3]), 1.0
    )
    assert weights[0].tolist() == pytest.approx([1.0, np.exp(-690), np.exp(-600), 0.0], rel=1e-12)


NEIGHBOURS = [0.0, 0.25, float(np.nextafter(0.25, 1)), float(np.nextafter(np.nextafter(0.25, 1), 1)), 1.0]


@pytest.mark.parametrize("count", range(1, 6))
def test_top_rows_are_the_first_in_order_of_weight_and_place(count):
    """Of every row of four out of five numbers, some of which differ in their last bit only."""
    weights = torch.tensor(list(itertools.product(NEIGHBOURS, repeat=4)), dtype=torch.float64)
    visible = torch.arange(len(weights)) % 4 + 1
    order = kernels.top_rows(weights, visible, count)
    assert order.dtype == torch.int64 and order.shape == (5**4, count)
    for row, n, found in zip(weights.tolist(), visible.tolist(), order.tolist(), strict=True):
        expected = sorted(range(n), key=lambda i: (-row[i], i))[:count]
        assert found == expected + [-1] * (count - len(expected))


@settings(deadline=None, max_examples=200)
@given(kernel_rows())
def test_one_walk_gives_every_n(row):
    logits, x = row
    n = len(x)
    weights, order, found = walk(logits, x, list(range(1, n + 1)))
    exact = np.exp(logits[0] - logits.max()) / np.exp(logits[0] - logits.max()).sum()
    np.testing.assert_allclose(weights, exact, rtol=1e-12)
    scale = np.abs(x).max()
    for top_n in range(1, n):
        chosen = distance.top_set(weights, top_n)
        assert list(order[:top_n]) == list(chosen)
        expected = [
            distance.cumulative_distance(weights, x, chosen),
            distance.expected_distance_bound(weights, x, top_n),
            distance.fixed_set_bound(weights, x, chosen),
            np.linalg.norm(weights[chosen] @ x[chosen]),
            np.linalg.norm(np.delete(weights[:, None] * x, chosen, axis=0), axis=1).sum(),
        ]
        # Where |y_i - s| is zero the subtraction leaves sqrt(rounding) of |s|, about 1e-8 |s| per token.
        np.testing.assert_allclose(found[:, 0, top_n - 1], expected, rtol=1e-6, atol=1e-6 * scale)
    assert np.isnan(found[:, 0, n - 1]).all()


@settings(deadline=None, max_examples=100)
@given(kernel_rows(), st.integers(0, 9), st.sets(st.integers(1, 16), min_size=1))
def test_masked_columns_weigh_nothing_but_count(row, more, top_ns):
    logits, x = row
    top_ns = sorted(top_ns)
    n = len(x)
    extra = np.random.default_rng(3).normal(size=(more, 3)) * np.abs(x).max()
    x_full = np.concatenate([x, extra])
    padded, visible = (
        torch.from_numpy(np.concatenate([logits, np.zeros((1, more))], axis=1)),
        torch.tensor([n]),
    )
    weights = kernels.softmax_rows(padded, visible, 1.0)
    order = kernels.top_rows(weights, visible, top_ns[-1])
    gram = torch.from_numpy(x_full @ x_full.T)
    wanted, totals = torch.tensor(top_ns), torch.tensor([n + more])
    both = kernels.distance_rows(weights, visible, order, wanted, totals, gram, weights @ gram)[:3, 0].numpy()
    weights = weights[0].numpy()
    for column, top_n in enumerate(top_ns):
        for found, count in zip(both[:, :, column].T, (n, n + more), strict=True):
            if top_n >= count:
                assert np.isnan(found).all()
                continue
            chosen = distance.top_set(weights[:count], top_n)
            expected = [
                distance.cumulative_distance(weights[:count], x_full[:count], chosen),
                distance.expected_distance_bound(weights[:count], x_full[:count], top_n),
                distance.fixed_set_bound(weights[:count], x_full[:count], chosen),
            ]
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(x_full).max())


def test_one_n_alone_is_that_n_of_the_walk_over_all():
    """Whichever of the tokens are taken in several at a time, and whichever are only passed by."""
    rng, length = np.random.default_rng(4), 24
    visible, gram = torch.arange(3, 21), torch.from_numpy((x := rng.normal(size=(length, 3))) @ x.T)
    weights = kernels.softmax_rows(torch.from_numpy(rng.normal(size=(18, length))), visible, 1.0)
    totals, sizes = torch.tensor([length - 2, length]), list(range(1, length))
    order = kernels.top_rows(weights, visible, sizes[-1])

    def walked(wanted):
        given = (weights, visible, order, torch.tensor(wanted), totals, gram, weights @ gram)
        return kernels.distance_rows(*given).numpy()

    whole = walked(sizes)
    for place, size in enumerate(sizes):
        np.testing.assert_allclose(walked([size])[..., 0], whole[..., place], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("size", [1e-25, 1e25])
def test_vectors_of_any_length_are_measured_as_well(size):
    rng = np.random.default_rng(6)
    logits, x = rng.normal(size=(1, 9)), rng.normal(size=(9, 3))
    plain, scaled = (walk(logits, vectors, [1, 4, 6], [9])[2] for vectors in (x, size * x))
    np.testing.assert_allclose(scaled / size, plain, rtol=1e-6)


def test_vectors_of_zeros_lie_nowhere_else():
    assert (walk(np.array([[0.5, 0.0, 2.0]]), np.zeros((3, 2)), [1, 2], [3])[2] == 0).all()


def test_a_support_without_an_unselected_token_or_below_the_row_has_no_numbers():
    logits, x = np.array([[0.3, -0.2, 1.0, 0.1]]), np.random.default_rng(0).normal(size=(4, 3))
    _, _, found = walk(logits, x, wanted=[2, 4], totals=[3, 4])
    # (support, N): causal n = 4, then n = 3, of which the row sees 4, and n = 4.
    kept = np.isfinite(found).all(axis=0)
    assert kept.tolist() == [[True, False], [False, False], [True, False]]
    assert np.isnan(found[:, ~kept]).all()
    weights, visible = torch.tensor([[0.5, 0.3, 0.2, 0.0]]).double(), torch.tensor([3])
    order, gram = kernels.top_rows(weights, visible, 3), torch.eye(4).double()
    sizes, totals = torch.tensor([3]), torch.tensor([3, 4])
    found = kernels.distance_rows(weights, visible, order, sizes, totals, gram, weights @ gram)
    assert found.isfinite().all(dim=0)[0].tolist() == [[False], [False], [True]]


def test_kernels_give_the_same_from_run_to_run():
    rng = np.random.default_rng(0)
    logits, x = rng.normal(size=(200, 200)), rng.normal(size=(200, 8))
    visible, none, gram = torch.arange(1, 201), torch.tensor([], dtype=torch.int64), torch.from_numpy(x @ x.T)

    def once():
        weights = kernels.softmax_rows(torch.from_numpy(logits), visible, 1.0)
        order, wanted = kernels.top_rows(weights, visible, 20), torch.tensor([1, 20])
        return kernels.distance_rows(weights, visible, order, wanted, none, gram, weights @ gram)

    np.testing.assert_array_equal(once(), once())


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_heads_come_in_order_and_equal_for_any_number_of_threads(seen, three_threads):
    def measured():
        return measures.distances(seen, **READINGS, lengths=[40], top_ns=[3, 4, 5, 6, 20])

    many = measured()
    assert torch.get_num_threads() == 3
    torch.set_num_threads(1)
    pd.testing.assert_frame_equal(many, measured())
    assert many[["layer", "head"]].drop_duplicates().apply(tuple, axis=1).tolist() == list(seen.heads())


def test_several_heads_are_worked_on_at_once_each_on_one_thread(seen, three_threads):
    meeting = threading.Barrier(3, timeout=60)  # breaks unless three come

    def work(head):
        if head.layer == 0 and head.head < 3:
            meeting.wait()
        return torch.get_num_threads()

    assert set(each_head(work, seen, 40)) == {1}


def test_an_error_in_one_head_ends_the_walk_and_gives_the_threads_back(seen, three_threads):
    def work(head):
        if head.head == 1:
            raise RuntimeError("head 1")
        return head.head

    with pytest.raises(RuntimeError, match="head 1"):
        list(each_head(work, seen, 40))
    assert torch.get_num_threads() == 3
