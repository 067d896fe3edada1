"""Theorem 1 and Corollary 2 against plain loops, enumeration and hypothesis-generated rows."""

from itertools import combinations
from statistics import fmean, variance

import numpy as np
import pytest
from attention_limits.theory import distance
from hypothesis import given, settings
from hypothesis import strategies as st

ROUNDING = 1e-12


@st.composite
def rows(draw, min_n=2, max_n=12):
    """A row (weights, vectors, N): ties, zeros, one-hot, uniform and n = N + 1 all come up."""
    n = draw(st.integers(min_n, max_n))
    raw = draw(
        st.one_of(
            st.just([1.0] * n),
            st.integers(0, n - 1).map(lambda hot: [float(i == hot) for i in range(n)]),
            st.lists(st.integers(0, 3).map(float), min_size=n, max_size=n).filter(any),
            st.lists(st.floats(1e-6, 1e3), min_size=n, max_size=n),
        )
    )
    weights = np.array(raw) / np.sum(raw)
    dimension = draw(st.integers(1, 4))
    entries = st.floats(-10, 10).map(lambda v: round(v, 3))
    vectors = draw(
        st.lists(st.lists(entries, min_size=dimension, max_size=dimension), min_size=n, max_size=n)
    )
    return weights, np.array(vectors), draw(st.one_of(st.just(n - 1), st.integers(1, n - 1)))


def plain_distance(weights, vectors, selected):
    s = sum(weights[j] * vectors[j] for j in selected)
    return sum(
        np.sqrt(sum((weights[i] * vectors[i] - s) ** 2))
        for i in range(len(weights))
        if i not in set(selected)
    )


@given(rows())
def test_cumulative_distance_is_the_plain_sum(row):
    weights, vectors, top_n = row
    selected = list(range(top_n))
    assert distance.cumulative_distance(weights, vectors, selected) == pytest.approx(
        plain_distance(weights, vectors, selected), rel=1e-12, abs=1e-12
    )


@given(rows())
def test_top_set_is_the_largest_weights_lower_position_first(row):
    weights, _, top_n = row
    expected = sorted(range(len(weights)), key=lambda i: (-weights[i], i))[:top_n]
    assert list(distance.top_set(weights, top_n)) == expected


@given(rows(), st.randoms(use_true_random=False))
def test_bound_holds_for_every_set(row, random):
    weights, vectors, top_n = row
    for selected in (distance.top_set(weights, top_n), random.sample(range(len(weights)), top_n)):
        if weights[list(selected)].sum() == 0:
            continue  # Theorem 1 needs some weight in S
        d = plain_distance(weights, vectors, selected)
        assert d <= distance.fixed_set_bound(weights, vectors, selected) * (1 + ROUNDING) + ROUNDING


@given(rows())
def test_bound_of_a_top_set_is_the_form_in_the_chapter(row):
    weights, vectors, top_n = row
    selected = list(distance.top_set(weights, top_n))
    rest = [i for i in range(len(weights)) if i not in selected]
    abar = sum(weights[selected])
    d1 = max(np.linalg.norm(vectors[i] - vectors[j]) for i in rest for j in selected)
    d2 = max(np.linalg.norm(vectors[j]) for j in selected)
    expected = (1 - abar) * d1 + (len(rest) * abar - (1 - abar)) * d2
    assert distance.fixed_set_bound(weights, vectors, selected) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_short_form_fails_for_a_set_that_is_not_the_top():
    weights, vectors = np.array([0.1, 0.9]), np.ones((2, 1))
    short = (1 - 0.1) * 0 + (1 * 0.1 - 0.9) * 1
    assert distance.cumulative_distance(weights, vectors, [0]) == pytest.approx(0.8)
    assert short == pytest.approx(-0.8)
    assert distance.fixed_set_bound(weights, vectors, [0]) == pytest.approx(0.8)


def test_bound_is_attained():
    """n = 2, N = 1, orthogonal to nothing: x_1 = x_2 gives d = abar - alpha_2 = bound."""
    weights, vectors = np.array([0.7, 0.3]), np.ones((2, 3)) / np.sqrt(3)
    assert distance.fixed_set_bound(weights, vectors, [0]) == pytest.approx(0.4)
    assert distance.cumulative_distance(weights, vectors, [0]) == pytest.approx(0.4)


@given(rows(), st.randoms(use_true_random=False))
def test_sandwich_holds_for_every_set(row, random):
    weights, vectors, top_n = row
    selected = random.sample(range(len(weights)), top_n)
    low, high = distance.sandwich(weights, vectors, selected)
    d = plain_distance(weights, vectors, selected)
    assert low - 1e-9 <= d <= high + 1e-9


@settings(deadline=None, max_examples=60)
@given(rows(max_n=8))
def test_second_moments_and_expectation_against_every_set(row):
    weights, vectors, top_n = row
    n, y = len(weights), weights[:, None] * vectors
    moments = distance.second_moments(weights, vectors, top_n)
    variances = np.empty(n)
    for i in range(n):
        rest = [j for j in range(n) if j != i]
        squares = [np.sum((y[i] - sum(y[j] for j in s)) ** 2) for s in combinations(rest, top_n)]
        assert moments[i] == pytest.approx(np.mean(squares), rel=1e-9, abs=1e-9)
        variances[i] = np.var(np.sqrt(squares))
    exact = np.mean([plain_distance(weights, vectors, s) for s in combinations(range(n), top_n)])
    jensen = distance.expected_distance_bound(weights, vectors, top_n)
    assert distance.expected_distance(weights, vectors, top_n) == pytest.approx(exact, rel=1e-9, abs=1e-9)
    assert exact <= jensen + 1e-7
    positive = moments > 1e-12
    gap = (n - top_n) / n * np.sum(variances[positive] / np.sqrt(moments[positive]))
    assert jensen - exact <= gap * (1 + 1e-6) + 1e-5
    assert distance.jensen_gap_bound(weights, vectors, top_n) == pytest.approx(gap, rel=1e-6, abs=1e-5)


@pytest.mark.parametrize("top_n", [1, 3, 6])
def test_sampled_expectation_is_within_its_error_of_the_exact_one(top_n):
    rng = np.random.default_rng(7)
    weights = np.r_[np.full(11, 0.05 / 11), 0.95]
    vectors = rng.normal(size=(12, 5))
    exact = distance.expected_distance(weights, vectors, top_n)
    found = [distance.expected_distance_sampled(weights, vectors, top_n, 200, rng) for _ in range(60)]
    scores = np.array([(mean - exact) / error for mean, error in found])
    # Standard scores: their mean has deviation 1/sqrt(60), their deviation is about one.
    assert abs(scores.mean()) < 4 / np.sqrt(60)
    assert 0.7 < scores.std() < 1.4


def test_sampled_expectation_is_the_two_strata_put_together():
    """Six draws: three with the heaviest token in the set, which is 2 of 5 of all sets, and three without it."""
    weights, vectors = np.array([0.1, 0.2, 0.5, 0.15, 0.05]), np.random.default_rng(1).normal(size=(5, 3))
    rng, again = np.random.default_rng(2), np.random.default_rng(2)
    mean, error = distance.expected_distance_sampled(weights, vectors, 2, 6, rng)
    drawn = [[[2, *again.choice([0, 1, 3, 4], 1, replace=False)] for _ in range(3)]]
    drawn += [[again.choice([0, 1, 3, 4], 2, replace=False) for _ in range(3)]]
    samples = [[plain_distance(weights, vectors, list(s)) for s in sets] for sets in drawn]
    assert mean == pytest.approx(0.4 * fmean(samples[0]) + 0.6 * fmean(samples[1]))
    assert error**2 == pytest.approx(0.16 * variance(samples[0]) / 3 + 0.36 * variance(samples[1]) / 3)


@given(rows())
def test_corollary_2_rates(row):
    weights, vectors, top_n = row
    n, longest = len(weights), np.linalg.norm(vectors, axis=1).max()
    selected = distance.top_set(weights, top_n)
    d = plain_distance(weights, vectors, selected)
    s = np.linalg.norm(sum(weights[j] * vectors[j] for j in selected))
    assert abs(d / (n - top_n) - s) <= longest / (n - top_n) + 1e-9
    smallest = weights[selected].min()
    assert d <= (n - top_n) * (weights[selected].sum() + smallest) * longest + 1e-9


def test_float32_rows_are_taken_in_float64():
    rng = np.random.default_rng(3)
    narrow = rng.dirichlet(np.ones(7)).astype(np.float32), rng.standard_normal((7, 4)).astype(np.float32)
    wide = [part.astype(float) for part in narrow]
    for function in (distance.cumulative_distance, distance.fixed_set_bound, distance.sandwich):
        assert function(*narrow, [1, 3]) == function(*wide, [1, 3])
    for function in (distance.expected_distance_bound, distance.expected_distance, distance.jensen_gap_bound):
        assert function(*narrow, 3) == function(*wide, 3)
    assert distance.second_moments(*narrow, 3).tolist() == distance.second_moments(*wide, 3).tolist()


def test_nothing_outside_the_set_is_at_no_distance():
    weights, vectors = np.array([0.7, 0.3]), np.eye(2)
    assert distance.fixed_set_bound(weights, vectors, [0, 1]) == 0.0
    assert distance.cumulative_distance(weights, vectors, [0, 1]) == 0.0


def test_vanishing_weights_keep_the_distance_bounded():
    for n in (10, 100, 1000):
        weights, vectors = np.full(n, 1 / n), np.ones((n, 1))
        assert distance.cumulative_distance(weights, vectors, distance.top_set(weights, 5)) <= 5 + 1


@pytest.mark.parametrize("top_n", [0, 3, 4])
def test_sizes_that_leave_nothing_are_refused(top_n):
    with pytest.raises(ValueError, match=f"top_n is {top_n}; with n = 3 tokens it must be between 1 and 2"):
        distance.second_moments(np.full(3, 1 / 3), np.ones((3, 1)), top_n)


@pytest.mark.parametrize("selected", [[], [0, 0]])
def test_a_set_that_is_no_set_is_refused(selected):
    with pytest.raises(ValueError, match="selected"):
        distance.cumulative_distance(np.full(3, 1 / 3), np.ones((3, 1)), selected)


def test_too_few_draws_for_an_error_are_refused():
    rng = np.random.default_rng(0)
    row = np.array([0.5, 0.3, 0.2]), np.eye(3), 1
    with pytest.raises(ValueError, match="draws is 3; a standard error needs at least 4"):
        distance.expected_distance_sampled(*row, 3, rng)
    assert np.isfinite(distance.expected_distance_sampled(*row, 4, rng)).all()


def test_too_many_sets_are_refused():
    with pytest.raises(ValueError, match="expected_distance_sampled"):
        distance.expected_distance(np.full(60, 1 / 60), np.ones((60, 1)), 20)
