"""Separability of selected tokens on a captured model, against plain loops."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import torch
from attention_limits import kernels, measures
from attention_limits.measures import geometry as geometry_measure
from attention_limits.theory import geometry
from hypothesis import given, settings
from paths import kernel_path  # noqa: F401
from test_measures import kernel_rows, seen, softmax_of_head  # noqa: F401  (seen is a fixture)

TOP_NS = [1, 2, 5, 16]


def plain_row(weights, x, top_n):
    """Told-apart flags in order of weight, r, and how many selected lie within 1e-6 of it, for unit vectors x.

    Squared distances are compared in exact rational arithmetic: light tokens differ by less than float64 resolves.
    """
    order = sorted(range(len(weights)), key=lambda i: (-weights[i], i))
    chosen, rest = order[:top_n], order[top_n:]
    y = [[Fraction(float(w)) * Fraction(float(v)) for v in row] for w, row in zip(weights, x, strict=True)]
    s = [sum(y[j][c] for j in chosen) for c in range(x.shape[1])]
    squares = [sum((a - b) ** 2 for a, b in zip(row, s, strict=True)) for row in y]
    nearest = min(squares[j] for j in rest)
    r = float(nearest) ** 0.5
    near = sum(abs(float(squares[i]) ** 0.5 - r) < 1e-6 for i in chosen)
    return chosen, [squares[i] < nearest for i in chosen], r, near


@pytest.mark.parametrize(
    ("space", "support", "stride"),
    [("hidden", "causal", 1), ("embedding", "full", 3), ("value", "causal", 7), ("value", "full", 1)],
)
def test_separability_equals_plain_loops(seen, space, support, stride):  # noqa: F811
    given = {"spaces": [space], "supports": [support], "stride": stride}
    found, _ = measures.separability(seen, top_ns=TOP_NS, **given)
    assert len(found) == 2 * 4 * len(TOP_NS)
    found = found[found["head"] == 1 + found.layer]  # exact arithmetic is slow: one head of each layer
    for row in found.to_dict("records"):
        weights, _ = softmax_of_head(seen, row["layer"], row["head"])
        x = seen.vectors(space, row["layer"], row["head"]).double().numpy()
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        top_n, expected = row["top_n"], []
        for t in range(stride, 41, stride):
            n = t if support == "causal" else 40
            if n <= top_n:
                continue
            a = np.zeros(n)
            a[:t] = weights[t - 1]
            chosen, told, r, near = plain_row(a, x[:n], top_n)
            gap = min(np.linalg.norm(x[i] - x[j]) for i in range(n) for j in range(i))
            picked = a[chosen]
            low = geometry.markov_lower_bound(picked, r, min_distance=gap) if r > 0 else 0
            sharp = geometry.markov_lower_bound_sharp(picked, r) if r > 0 else 0
            high = geometry.mcdiarmid_upper_bound(picked, r, x.shape[1])
            expected.append([np.mean(told), r, max(low, 0), max(sharp, 0), high, near / top_n])
        got = [row[name] for name in ("ratio", "r", "lower", "lower_sharp", "upper", "near")]
        np.testing.assert_allclose(got, np.mean(expected, axis=0), rtol=1e-6, atol=1e-9, err_msg=str(row))
        assert row["rows"] == len(expected)


@pytest.mark.parametrize(
    ("stride", "support"), [(1, "causal"), (5, "causal"), (6, "causal"), (5, "full"), (7, "full")]
)
def test_union_over_heads_equals_plain_sets(seen, stride, support):  # noqa: F811
    given = {"spaces": ["hidden"], "supports": [support], "top_ns": [1, 5], "stride": stride}
    _, unions = measures.separability(seen, group=2, group_top_n=5, **given)
    assert list(zip(unions.layer, unions.first_head, strict=True)) == [(0, 0), (0, 2), (1, 0), (1, 2)]
    for row in unions.to_dict("records"):
        some, shared, ratios = [], [], [[], []]
        for n in (n for n in range(stride, 41, stride) if n > 5):
            sets, told = [], []
            for place in range(2):
                counted = n if support == "causal" else 40
                weights = np.zeros(counted)
                weights[:n] = softmax_of_head(seen, row["layer"], row["first_head"] + place)[0][n - 1]
                x = seen.layers[row["layer"]].hidden.double().numpy()[:counted]
                x = x / np.linalg.norm(x, axis=1, keepdims=True)
                chosen, flags, *_ = plain_row(weights, x, 5)
                sets.append(set(chosen))
                told.append({i for i, flag in zip(chosen, flags, strict=True) if flag})
                ratios[place].append(np.mean(flags))
            covered = told[0] | told[1]
            some += [i in covered for i in sets[0] | sets[1]]
            shared += [i in covered for i in sets[0] & sets[1]]
        assert row["union"] == pytest.approx(np.mean(some))
        assert row["shared"] == pytest.approx(np.mean(shared))
        assert row["shared_tokens"] == len(shared)
        p, q = np.mean(ratios[0]), np.mean(ratios[1])
        assert row["independent"] == pytest.approx(1 - (1 - p) * (1 - q))


@settings(deadline=None, max_examples=150)
@given(kernel_rows())
def test_kernel_on_rows_that_a_model_hardly_makes(row):
    logits, x = row
    n = len(x)
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    visible, none = torch.tensor([n]), torch.zeros(1, 1, dtype=torch.int64)
    weights = kernels.softmax_rows(torch.from_numpy(logits), visible, 1.0)
    order = kernels.top_rows(weights, visible, n)
    gram, wanted = torch.from_numpy(x @ x.T), torch.arange(1, n + 1)
    values, flags = kernels.geometry_rows(
        weights, visible, none, order, wanted, gram, none.double(), 3, n - 1
    )
    values, weights, order = values[0].numpy(), weights.numpy(), order.numpy()
    assert int(flags.sum()) == round(values[0, 0, n - 2] * (n - 1))
    for top_n in range(1, n):
        y = weights[0][:, None] * x
        s = y[order[0, :top_n]].sum(axis=0)
        distances = np.linalg.norm(y - s, axis=1)
        r = np.delete(distances, order[0, :top_n]).min()
        assert values[1, 0, top_n - 1] == pytest.approx(r, rel=1e-6, abs=1e-7)
        # Equal vectors tie with r exactly; rounding may decide those either way.
        inner = distances[order[0, :top_n]]
        low, high = np.mean(inner < r - 1e-7), np.mean(inner < r + 1e-7)
        assert low - 1e-12 <= values[0, 0, top_n - 1] <= high + 1e-12
    assert np.isnan(values[:, 0, n - 1]).all()


def test_bounds_and_nearness_where_an_unselected_token_lies_close_to_s():
    """There McDiarmid's bound is below one. Also one vector of zeros, and a row with masked tokens beside."""
    rng, n, top_n, d, more = np.random.default_rng(5), 8, 4, 64, 3
    weights = np.sort(rng.dirichlet(np.full(n, 4.0)))[::-1].copy()
    x = rng.normal(size=(n, d)) / np.sqrt(d)
    x[1] = 0.0
    s = weights[:top_n] @ x[:top_n]
    x[top_n] = s / weights[top_n] * 0.9
    x[top_n + 1 :] *= 3.0  # lengths are the kernel's to read off the Gram matrix
    visible, masked = torch.tensor([n]), torch.tensor([[0], [more]])
    rows, gaps = torch.from_numpy(weights)[None], torch.tensor([[0.3], [0.1]]).double()
    order, gram = kernels.top_rows(rows, visible, n + 2), torch.from_numpy(x @ x.T)
    wanted = torch.tensor([top_n, n + 2])
    values, _ = kernels.geometry_rows(rows, visible, masked, order, wanted, gram, gaps, d, 1)
    y = weights[:, None] * x
    distances = np.linalg.norm(y - s, axis=1)
    r = distances[top_n:].min()
    picked = weights[:top_n]
    for kind, gap in enumerate((0.3, 0.1)):
        expected = [
            np.mean(distances[:top_n] < r),
            r,
            max(geometry.markov_lower_bound(picked, r, min_distance=gap**0.5), 0.0),
            max(geometry.markov_lower_bound_sharp(picked, r), 0.0),
            geometry.mcdiarmid_upper_bound(picked, r, d),
            0.0,
        ]
        assert expected[4] < 0.9
        np.testing.assert_allclose(values[kind, :, 0, 0], expected, rtol=1e-9, atol=1e-12)
    # N = n + 2: two masked tokens are selected; like the other masked one and the zero vector they lie at |s| = r.
    assert values[0, :, 0, 1].isnan().all()
    whole = np.linalg.norm(y - weights @ x, axis=1)
    r = np.linalg.norm(weights @ x)
    picked = np.append(weights, [0.0, 0.0])
    expected = [
        (whole < r).sum() / (n + 2),
        r,
        max(geometry.markov_lower_bound(picked, r, min_distance=0.1**0.5), 0.0),
        max(geometry.markov_lower_bound_sharp(picked, r), 0.0),
        geometry.mcdiarmid_upper_bound(picked, r, d),
        (np.abs(whole - r) < 1e-6).sum() + 2,
    ]
    assert expected[5] == 3
    np.testing.assert_allclose(values[1, :, 0, 1], expected, rtol=1e-9, atol=1e-12)


def test_bounds_where_an_unselected_token_is_s_itself():
    weights, x = torch.tensor([[0.5, 0.25, 0.25]]).double(), torch.tensor([[1, 0], [0, 1], [2, 1]]).double()
    visible, none = torch.tensor([3]), torch.zeros(1, 1, dtype=torch.int64)
    order, gram, wanted = kernels.top_rows(weights, visible, 2), x @ x.T, torch.tensor([2])
    values, _ = kernels.geometry_rows(weights, visible, none, order, wanted, gram, none.double(), 2, 1)
    high = geometry.mcdiarmid_upper_bound(np.array([0.5, 0.25]), 0.0, 2)
    assert values[0, :, 0, 0].tolist() == pytest.approx([0.0, 0.0, 0.0, 0.0, high, 0.0])
    assert high < 1


def test_flags_are_those_of_one_n_and_false_where_it_is_not_wanted():
    weights, gram = torch.tensor([[0.5, 0.3, 0.2]]).double(), torch.eye(3).double()
    visible, none = torch.tensor([3]), torch.zeros(1, 1, dtype=torch.int64)
    order = kernels.top_rows(weights, visible, 2)
    for flag_n, expected in ((2, [[True, True]]), (1, [[True]])):
        given = (weights, visible, none, order, torch.tensor([1, 2]), gram, none.double(), 3, flag_n)
        assert kernels.geometry_rows(*given)[1].tolist() == expected
    given = (weights, visible, none, order, torch.tensor([1]), gram, none.double(), 3, 2)
    flags = kernels.geometry_rows(*given)[1]
    assert flags.dtype == torch.bool and flags.tolist() == [[False, False]]
    # Nor where no token is left unselected.
    visible = torch.tensor([2])
    weights = torch.tensor([[0.6, 0.4, 0.0]]).double()
    order = kernels.top_rows(weights, visible, 2)
    flags = kernels.geometry_rows(
        weights, visible, none, order, torch.tensor([2]), gram, none.double(), 3, 2
    )[1]
    assert flags.tolist() == [[False, False]]


def test_one_selected_token_is_always_told_apart(seen):  # noqa: F811
    found, _ = measures.separability(
        seen, spaces=["hidden", "value"], supports=["causal"], top_ns=[1], group_top_n=1
    )
    assert (found.ratio == 1).all()


@pytest.mark.parametrize("supports", [["full", "causal"], ["causal", "full"]])
def test_readings_in_one_call_equal_one_call_each(seen, supports):  # noqa: F811
    key = ["layer", "head", "space", "support", "top_n"]
    spaces = ["hidden", "value"]
    both, unions = measures.separability(seen, spaces=spaces, supports=supports, top_ns=TOP_NS)
    parts = [
        measures.separability(seen, spaces=[space], supports=[support], top_ns=TOP_NS)
        for space in spaces
        for support in supports
    ]
    each = pd.concat([part for part, _ in parts])
    pd.testing.assert_frame_equal(both.set_index(key).sort_index(), each.set_index(key).sort_index())
    first = pd.concat([parts[0][1], parts[2][1]]).sort_values(["layer", "first_head", "space"])
    unions = unions.sort_values(["layer", "first_head", "space"])
    pd.testing.assert_frame_equal(unions.reset_index(drop=True), first.reset_index(drop=True))


def test_sure_bound_holds_on_every_row_and_breaks_are_counted(seen):  # noqa: F811
    found, _ = measures.separability(
        seen, spaces=["hidden", "embedding", "value"], supports=["causal", "full"], top_ns=TOP_NS
    )
    assert not found.violations.any()
    values = torch.full((6, 5, 1), 0.5, dtype=torch.float64)
    # N_s/N is 0.5: two rows are above by more than rounding.
    values[2, :, 0] = torch.tensor([0.4, 0.6, 0.5, 0.5 + 1e-12, 0.7])
    assert geometry_measure._averages(values, {}, [2])[0]["violations"] == 2


def test_group_needs_its_n(seen):  # noqa: F811
    with pytest.raises(ValueError, match="group_top_n is 16; it must be one of"):
        measures.separability(seen, spaces=["hidden"], supports=["causal"], top_ns=[1, 2])


def test_a_layer_with_fewer_heads_than_a_group_is_one_group(seen):  # noqa: F811
    _, unions = measures.separability(
        seen, spaces=["value"], supports=["causal"], top_ns=[2], group=9, group_top_n=2
    )
    assert list(zip(unions.layer, unions.first_head, strict=True)) == [(0, 0), (1, 0)]
    _, pairs = measures.separability(
        seen, spaces=["value"], supports=["causal"], top_ns=[2], group=3, group_top_n=2
    )
    assert list(pairs.first_head) == [0, 0]  # the fourth head is left over
