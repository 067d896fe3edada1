"""Jacobian norms and finite differences on a captured model, against dense matrices and plain loops."""

import numpy as np
import pytest
import torch
from attention_limits import kernels, measures
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import kernel_path  # noqa: F401
from test_measures import kernel_rows, seen, softmax_of_head  # noqa: F401  (seen is a fixture)

TEMPERATURES, EPSILONS = [0.01, 0.3, 1.0, 10.0], [1e-3, 0.1, 10.0]


def dense(weights, temperature):
    return (np.diag(weights) - np.outer(weights, weights)) / temperature


@pytest.mark.parametrize("kind", ["model", "raw"])
def test_sensitivity_equals_dense_jacobians(seen, kind):  # noqa: F811
    found = measures.sensitivity(
        seen, logits=[kind], temperatures=TEMPERATURES, epsilons=EPSILONS, seed=3, stride=5
    )
    assert len(found) == 2 * 4 * len(TEMPERATURES) * len(EPSILONS)
    assert (found.rows == 8).all() and (found.violations == 0).all()
    for row in found.to_dict("records"):
        scale = None if kind == "model" else 1.0
        weights, _ = softmax_of_head(seen, row["layer"], row["head"], row["temperature"], scale)
        rows = [weights[n - 1] for n in range(5, 41, 5)]
        jacobians = [dense(a, row["temperature"]) for a in rows]
        spectral = [np.linalg.norm(j, 2) for j in jacobians]
        frobenius = [np.linalg.norm(j) for j in jacobians]
        assert row["spectral"] == pytest.approx(np.mean(spectral), rel=1e-7, abs=1e-12)
        assert row["frobenius"] == pytest.approx(np.mean(frobenius), rel=1e-7, abs=1e-12)
        rms = np.mean([f / np.sqrt(len(a)) for f, a in zip(frobenius, rows, strict=True)])
        assert row["direction_rms"] == pytest.approx(rms, rel=1e-7, abs=1e-12)
        assert row["row_bound"] == pytest.approx(
            np.mean([max(2 * a * (1 - a)) / row["temperature"] for a in rows]), rel=1e-6, abs=1e-10
        )
        printed = min(0.25 / row["temperature"], np.sqrt(2))
        assert row["printed_violations"] == sum(s > printed * (1 + 1e-9) for s in spectral)


def test_finite_difference_equals_plain_softmax():
    rng = np.random.default_rng(0)
    logits, directions = rng.normal(size=(6, 9)), rng.normal(size=(6, 9))
    visible, tensor = torch.tensor([2, 3, 5, 7, 8, 9]), torch.from_numpy(logits)
    unit = kernels.unit_rows(torch.from_numpy(directions), visible)
    for temperature in TEMPERATURES:
        weights = kernels.softmax_rows(tensor, visible, temperature)
        for epsilon in EPSILONS:
            space = torch.empty_like(tensor)
            got = kernels.moved_rows(tensor, weights, unit, visible, temperature, epsilon, space).numpy()
            for r, n in enumerate(visible):
                l, v = logits[r, :n], directions[r, :n] / np.linalg.norm(directions[r, :n])

                def softmax(z):
                    return np.exp(z - z.max()) / np.exp(z - z.max()).sum()

                moved = softmax((l + epsilon * v) / temperature) - softmax(l / temperature)
                assert got[r] == pytest.approx(np.linalg.norm(moved) / epsilon, rel=1e-9, abs=1e-12)


def test_small_eps_sees_the_jacobian_in_a_random_direction(seen):  # noqa: F811
    """E |J v|^2 = |J|_F^2 / n: over many draws the root mean square of g tends to |J|_F / sqrt n."""
    weights, logits = softmax_of_head(seen, 1, 1)
    n, draws = 40, 4000
    scores, many = torch.from_numpy(np.tile(logits[n - 1], (draws, 1))), torch.full((draws,), n)
    directions = torch.from_numpy(np.random.default_rng(1).standard_normal((draws, n)))
    softmax = kernels.softmax_rows(scores, many, 1.0)
    unit, space = kernels.unit_rows(directions, many), torch.empty_like(scores)
    g = kernels.moved_rows(scores, softmax, unit, many, 1.0, 1e-5, space).numpy()
    squares, exact = g**2, np.linalg.norm(dense(weights[n - 1], 1.0)) ** 2 / n
    assert abs(squares.mean() - exact) < 4 * squares.std() / np.sqrt(draws) + 1e-4 * exact


@settings(deadline=None, max_examples=200)
@given(kernel_rows())
def test_norms_on_rows_that_a_model_hardly_makes(row):
    logits, _ = row
    n = torch.tensor([logits.shape[1]])
    weights = kernels.softmax_rows(torch.from_numpy(logits), n, 1.0)
    spectral, frobenius, bound = kernels.gradient_rows(weights, n)[:, 0].tolist()
    weights = weights.numpy()
    # One-hot rows: the dense matrix loses what 1 - alpha cancels, so compare to its own rounding.
    assert spectral == pytest.approx(np.linalg.norm(dense(weights[0], 1.0), 2), rel=1e-9, abs=1e-15)
    assert frobenius == pytest.approx(np.linalg.norm(dense(weights[0], 1.0)), rel=1e-9, abs=1e-15)
    assert spectral <= bound * (1 + 1e-9) and bound <= 0.5 * (1 + 1e-12)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.floats(-400, 400), min_size=2, max_size=12))
def test_spectral_norm_of_any_row(logits):
    weights = torch.tensor([logits], dtype=torch.float64).softmax(dim=1)
    norm = float(kernels.gradient_rows(weights, torch.tensor([len(logits)]))[0, 0])
    # eigvalsh is exact to 1e-16 of the largest weight.
    assert norm == pytest.approx(np.linalg.eigvalsh(dense(weights[0].numpy(), 1.0))[-1], rel=1e-9, abs=1e-15)


def test_two_equal_weights_attain_the_bound_and_break_the_printed_one():
    spectral, frobenius, bound = kernels.gradient_rows(
        torch.tensor([[0.5, 0.5]]).double(), torch.tensor([2])
    )[:, 0].tolist()
    assert (spectral, frobenius, bound) == pytest.approx((0.5, 0.5, 0.5), rel=1e-14)
    assert spectral > 0.25


def test_a_row_of_one_key_never_moves_whatever_is_beside_it():
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]).double()
    found = kernels.gradient_rows(weights, torch.tensor([1, 2]))
    assert found[:, 0].tolist() == [0.0, 0.0, 0.0]
    assert found[:, 1].tolist() == pytest.approx([0.5, 0.5, 0.5], rel=1e-14)


def test_same_seed_same_numbers_other_seed_other_numbers(seen):  # noqa: F811
    def once(seed):
        kwargs = dict(logits=["model"], temperatures=[1.0], epsilons=[0.1], stride=10)
        return measures.sensitivity(seen, seed=seed, **kwargs)

    assert once(1).equals(once(1))
    assert not (once(1).g == once(2).g).any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"temperatures": [0.0, 1.0]}, "temperatures are"),
        ({"temperatures": []}, "temperatures are"),
        ({"epsilons": [-1.0]}, "epsilons are"),
        ({"logits": ["modle"]}, "out of model, raw"),
    ],
)
def test_senseless_parameters_are_refused(seen, change, message):  # noqa: F811
    with pytest.raises(ValueError, match=message):
        measures.sensitivity(
            seen, **{"logits": ["raw"], "temperatures": [1.0], "epsilons": [1.0], "seed": 0, **change}
        )
