"""Intervals and fits against scipy's own routines and simulated coverage."""

import numpy as np
import pandas as pd
import pytest
from attention_limits import statistics
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats


def test_interval_is_scipys():
    values = np.random.default_rng(0).normal(3, 2, size=7)
    mean, low, high = statistics.interval(values)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (mean, low, high) == pytest.approx((values.mean(), expected.low, expected.high))


def test_interval_covers_the_mean_about_95_times_in_100():
    samples = np.random.default_rng(1).normal(1, 1, size=(4000, 4))
    inside = [low <= 1 <= high for _, low, high in map(statistics.interval, samples)]
    assert abs(np.mean(inside) - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 4000)


def test_one_value_has_no_interval_and_none_is_refused():
    assert np.isnan(statistics.interval([2.0])[1:]).all()
    with pytest.raises(ValueError, match="no values"):
        statistics.interval([])


def test_over_windows_is_interval_per_group():
    rng = np.random.default_rng(2)
    rows = pd.DataFrame(
        {"head": np.repeat([0, 1, 2], [4, 4, 1]), "d": rng.normal(size=9), "e": rng.normal(size=9)}
    )
    found = statistics.over_windows(rows, ["head"], ["d", "e"]).set_index("head")
    for head, part in rows.groupby("head"):
        for column in ("d", "e"):
            expected = statistics.interval(part[column])
            np.testing.assert_allclose(found.loc[head, [column, f"{column}_low", f"{column}_high"]], expected)


def test_points_of_one_height_have_the_power_zero():
    fit = statistics.fit_power([1, 2, 4, 8], [3, 3, 3, 3])
    assert (fit.exponent, fit.low, fit.high, fit.factor, fit.r2) == (0, 0, 0, 3, 1)


def test_a_window_without_a_number_does_not_count():
    rows = pd.DataFrame({"head": [0, 0, 0, 1], "d": [1.0, 2.0, np.nan, np.nan]})
    found = statistics.over_windows(rows, ["head"], ["d"]).set_index("head")
    np.testing.assert_allclose(found.loc[0], statistics.interval([1.0, 2.0]))
    assert found.loc[1].isna().all()


def test_fit_power_finds_the_power_and_covers_it():
    x = np.array([32, 64, 128, 256, 512, 1024])
    exact = statistics.fit_power(x, 3 * x**-0.7)
    assert (exact.exponent, exact.factor, exact.r2) == pytest.approx((-0.7, 3, 1))
    rng, inside = np.random.default_rng(3), []
    for _ in range(2000):
        fit = statistics.fit_power(x, 3 * x**-0.7 * np.exp(rng.normal(0, 0.2, size=6)))
        inside.append(fit.low <= -0.7 <= fit.high)
    assert abs(np.mean(inside) - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 2000)


@pytest.mark.parametrize(
    ("x", "y"), [([1, 2], [1, 2]), ([1, 2, 3], [1, 0, 2]), ([0, 1, 2], [1, 1, 2]), ([1, 2, 3], [1, 2])]
)
def test_fit_power_refuses_what_has_no_power(x, y):
    with pytest.raises(ValueError, match="a power needs"):
        statistics.fit_power(x, y)


def test_fit_growth_finds_the_power_beside_a_floor_and_covers_it():
    x = np.array([1, 2, 4, 8, 16, 32, 64, 128])
    exact = statistics.fit_growth(x, 20 + 0.5 * x**1.5)
    assert (exact.exponent, exact.factor, exact.r2) == pytest.approx((1.5, 0.5, 1))
    assert statistics.fit_growth(x, 3 * x**2.0).exponent == 2  # a floor of zero
    rng, inside = np.random.default_rng(3), []
    for _ in range(100):
        fit = statistics.fit_growth(x, (20 + 0.5 * x**1.5) * np.exp(rng.normal(0, 0.05, size=8)))
        inside.append(fit.low <= 1.5 <= fit.high)
    assert abs(np.mean(inside) - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 100)
    flat = statistics.fit_growth(x, [1, 1.1, 0.9, 1, 1.1, 0.9, 1, 1])  # says nothing on a power
    assert (flat.low, flat.high) == (0, 6)
    with pytest.raises(ValueError, match="four points"):
        statistics.fit_growth([1, 2, 3], [1, 2, 3])


def test_straight_line():
    x = np.array([1.0, 2, 4, 8])
    assert statistics.r_squared_line(x, 5 + 2 * x) == pytest.approx((2, 1))
    _slope, r2 = statistics.r_squared_line(x, [1, 3, 2, 6])
    assert r2 == pytest.approx(np.corrcoef(x, [1, 3, 2, 6])[0, 1] ** 2)


def _two_populations(shifts, heads=60):
    """One row per N and head: two samples whose means differ by ``shifts[N]``."""
    rng = np.random.default_rng(4)
    parts = [
        pd.DataFrame({"top_n": n, "d": rng.normal(shift, 1, heads), "e": rng.normal(0, 1, heads)})
        for n, shift in shifts.items()
    ]
    return pd.concat(parts).sample(frac=1, random_state=0)


def test_ks_distance_is_the_largest_gap_of_the_two_step_functions():
    rows = _two_populations({1: 2.0, 2: 0.5, 3: 0.0})
    found = statistics.ks_tests(rows.assign(space="a"), ["space", "top_n"], "d", "e").set_index("top_n")
    for n, part in rows.groupby("top_n"):
        gap = 0.0
        for at in [*part.d, *part.e]:
            below = [sum(value <= at for value in part[column]) / len(part) for column in ("d", "e")]
            gap = max(gap, abs(below[0] - below[1]))
        assert found.loc[n, "distance"] == pytest.approx(gap, abs=1e-12)
        assert found.loc[n, "heads"] == 60


def test_ks_p_value_is_the_share_of_relabelled_samples_as_far_apart():
    rows = _two_populations({1: 0.6}, heads=25)
    line = statistics.ks_tests(rows, ["top_n"], "d", "e").iloc[0]
    pool, rng = np.concatenate([rows.d, rows.e]), np.random.default_rng(5)
    as_far, draws = 0, 4000
    order = np.sort(pool)
    for _ in range(draws):
        rng.shuffle(pool)
        steps = [np.searchsorted(np.sort(half), order, side="right") for half in (pool[:25], pool[25:])]
        as_far += np.abs(steps[0] - steps[1]).max() / 25 >= line.distance - 1e-12
    error = np.sqrt(line.p_value * (1 - line.p_value) / draws)
    assert 0.01 < line.p_value < 0.5 and abs(as_far / draws - line.p_value) < 4 * error


def test_critical_n_is_the_first_that_a_loop_finds():
    rng = np.random.default_rng(6)
    for _ in range(200):
        top_ns = rng.permutation(np.arange(1, 30))
        p_values = rng.choice([1e-9, 0.02, 0.3], size=29, p=[0.8, 0.1, 0.1])
        for level in (0.01, 0.05):
            expected = None
            for n in range(1, 30):
                if p_values[list(top_ns).index(n)] >= level:
                    expected = n
                    break
            assert statistics.critical_n(top_ns, p_values, level) == expected
    assert statistics.critical_n([3, 4], [0.05, 0.9], 0.05) == 3  # at the level itself nothing is rejected
    assert statistics.critical_n([1, 2], [0.0, 0.0], 0.01) is None


def test_critical_n_refuses_what_makes_no_sense():
    with pytest.raises(ValueError, match="level is 5"):
        statistics.critical_n([1], [0.5], 5)
    with pytest.raises(ValueError, match="zip"):
        statistics.critical_n([1, 2], [0.5], 0.05)


@pytest.mark.parametrize(
    ("d", "expected", "found"),
    [
        ([5, 4, 3, 2], [1, 1, 1, 1], None),  # above everywhere
        ([1, 1, 1, 1], [1, 2, 2, 2], 2),  # equal counts as no longer above
        ([5, 1, 5, 1], [2, 2, 2, 2], 4),  # the first of two crossings
        ([5, 4, 3, 1], [2, 2, 2, 2], 16),
    ],
)
def test_crossing_is_the_first_n_no_longer_above(d, expected, found):
    top_ns = [2, 4, 8, 16]
    assert statistics.crossing(top_ns, d, expected) == found
    assert statistics.crossing(top_ns[::-1], d[::-1], expected[::-1]) == found
    assert statistics.crossing(np.array(top_ns), np.array(d), np.array(expected)) == found


def test_crossing_refuses_what_cannot_be_compared():
    with pytest.raises(ValueError, match=r"not finite at N = \[4\]"):
        statistics.crossing([2, 4], [1.0, float("nan")], [1.0, 1.0])
    with pytest.raises(ValueError, match="shorter"):
        statistics.crossing([2, 4], [1.0, 1.0], [1.0])


@given(
    st.dictionaries(
        st.integers(1, 99), st.sampled_from([0.9, 1.0, 1.01, 1.0100001, 1.2, np.nan]), min_size=1
    ),
    st.randoms(use_true_random=False),
)
def test_effective_size_is_the_first_n_from_which_all_are_within(costs, shuffle):
    pairs = list(costs.items())
    shuffle.shuffle(pairs)
    fine = [n for n in costs if all(costs[m] <= 1.01 for m in costs if m >= n)]
    found = statistics.effective_size([n for n, _ in pairs], [cost for _, cost in pairs], 1.0, 0.01)
    assert found == min(fine, default=None)


def test_effective_size_refuses_what_makes_no_sense():
    with pytest.raises(ValueError, match=r"tolerance is 0\.0; it must be above 0"):
        statistics.effective_size([1], [1.0], 1.0, 0.0)
    with pytest.raises(ValueError, match="shorter"):
        statistics.effective_size([1, 2], [1.0], 1.0, 0.01)


def test_rank_correlation_is_scipys():
    rng = np.random.default_rng(6)
    x = rng.integers(0, 8, 40).astype(float)  # with ties
    y = x + rng.normal(0, 3, 40)
    rho, low, high = statistics.rank_correlation(x, y)
    assert rho == pytest.approx(stats.spearmanr(x, y).statistic)
    assert low < rho < high
    assert statistics.rank_correlation(x, np.exp(x))[0] == pytest.approx(1)


def test_rank_correlation_covers_the_true_one_about_95_times_in_100():
    """Of normal pairs with correlation r, Spearman's is 6/pi arcsin(r/2)."""
    rng, inside, true = np.random.default_rng(7), [], 6 / np.pi * np.arcsin(0.5 / 2)
    for _ in range(2000):
        x, noise = rng.normal(size=(2, 40))
        _, low, high = statistics.rank_correlation(x, 0.5 * x + np.sqrt(0.75) * noise)
        inside.append(low <= true <= high)
    assert abs(np.mean(inside) - 0.95) < 0.02  # the interval is approximate


def test_partial_rank_correlation_is_that_of_what_a_third_leaves_over():
    rng = np.random.default_rng(8)
    z = rng.normal(size=60)
    x, y = z + rng.normal(size=60), z + rng.normal(size=60)
    ranks = [stats.rankdata(part) for part in (x, y, z)]
    left = [part - np.polyval(np.polyfit(ranks[2], part, 1), ranks[2]) for part in ranks[:2]]
    rho, low, high = statistics.rank_correlation(x, y, given=z)
    assert rho == pytest.approx(np.corrcoef(left)[0, 1])
    assert low < rho < high
    assert rho < statistics.rank_correlation(x, y)[0]


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], "5 or more pairs"),
        ([1, 2, 3, 4, 5], [1, 2, 3, 4], "5 or more pairs"),
        ([1, 1, 1, 1, 1], [1, 2, 3, 4, 5], "not constant"),
        ([1, 2, 3, 4, np.nan], [1, 2, 3, 4, 5], "finite"),
        ([1, 2, 3, 4, 5], [1, 2, np.inf, 4, 5], "finite"),
    ],
)
def test_rank_correlation_refuses_what_has_no_ranks(x, y, message):
    with pytest.raises(ValueError, match=message):
        statistics.rank_correlation(x, y)


def test_a_quantity_ordered_as_the_third_leaves_no_partial_rank_correlation():
    x, y = [1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 1.0, 4.0, 3.0, 5.0]
    with pytest.raises(ValueError, match="constant once the third is held fixed"):
        statistics.rank_correlation(x, y, [10.0, 20.0, 30.0, 40.0, 50.0])
