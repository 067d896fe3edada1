import numpy as np
import pytest
from attention_limits.theory.rows import positive, top_set, weights_row
from hypothesis import given
from hypothesis import strategies as st
from strategies import distributions


@given(distributions(), st.data())
def test_top_set_is_the_stable_sort_spelled_out(alpha, data):
    count = data.draw(st.integers(1, alpha.size))
    by_hand = sorted(range(alpha.size), key=lambda i: (-alpha[i], i))[:count]
    assert top_set(alpha, count).tolist() == by_hand


def test_a_row_is_float64_whatever_it_came_in():
    for row in ([1, 0], np.array([0.5, 0.5], np.float32)):
        assert weights_row(row).dtype == np.float64


def test_ties_go_to_the_lower_position():
    assert top_set(np.array([0.2, 0.4, 0.4, 0.4]), 2).tolist() == [1, 2]


@pytest.mark.parametrize("row", [[], [[0.5, 0.5]], [0.5, -0.1], [np.nan, 1.0], [np.inf, 1.0]])
def test_rows_that_are_none_are_refused(row):
    with pytest.raises(ValueError, match=r"^weights"):
        weights_row(row)


@pytest.mark.parametrize("count", [0, 4, -1])
def test_top_set_of_impossible_size_is_refused(count):
    with pytest.raises(ValueError, match=f"count = {count}"):
        top_set(np.ones(3), count)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_positive_names_what_was_wrong(value):
    with pytest.raises(ValueError, match="temperature"):
        positive("temperature", value)
