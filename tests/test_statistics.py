"""Intervals and fits against scipy's own routines and simulated coverage."""

import numpy as np
import pandas as pd
import pytest
from attention_limits import statistics
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


def test_straight_line():
    x = np.array([1.0, 2, 4, 8])
    assert statistics.r_squared_line(x, 5 + 2 * x) == pytest.approx((2, 1))
    _slope, r2 = statistics.r_squared_line(x, [1, 3, 2, 6])
    assert r2 == pytest.approx(np.corrcoef(x, [1, 3, 2, 6])[0, 1] ** 2)
