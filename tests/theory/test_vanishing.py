import numpy as np
import pytest
from attention_limits.theory import vanishing
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import softmax

NORMALISERS = {
    "exp": np.exp,
    "softplus": lambda x: np.log1p(np.exp(x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "one plus square": lambda x: 1 + x**2,
    "wave": lambda x: 2 + np.sin(3 * x),
}
logit_rows = st.integers(1, 40).flatmap(lambda n: arrays(float, n, elements=st.floats(-2.5, 2.5)))


@given(logit_rows, st.sampled_from(sorted(NORMALISERS)))
def test_lemma_1_holds_for_every_normaliser(logits, name):
    c1, c2 = vanishing.lemma_1_constants(NORMALISERS[name], 2.5)
    alpha = NORMALISERS[name](logits) / NORMALISERS[name](logits).sum()
    assert alpha.min() * alpha.size >= c1 * (1 - 1e-12)
    assert alpha.max() * alpha.size <= c2 * (1 + 1e-12)


def test_lemma_1_constants_against_calculus():
    assert vanishing.lemma_1_constants(np.exp, 1.5) == pytest.approx((np.exp(-3), np.exp(3)), rel=1e-14)
    # 1 + x^2 is smallest inside the interval, 2 + sin 3x takes 1 and 3 at points that no grid hits
    assert vanishing.lemma_1_constants(lambda x: 1 + x**2, 3.0, points=100)[0] == pytest.approx(
        1 / 10, rel=1e-12
    )
    assert vanishing.lemma_1_constants(lambda x: 2 + np.sin(3 * x), 2.0)[1] == pytest.approx(3, rel=1e-12)


@pytest.mark.parametrize("place", [-0.98, 0.3, 0.98])
def test_an_extreme_is_found_in_any_cell_of_the_grid(place):
    """One dip, in the first, an inner and the last cell of ten."""
    ends = 1 + max(abs(-1 - place), abs(1 - place))
    c1, _ = vanishing.lemma_1_constants(lambda x: 1 + (x - place) ** 2, 1.0, points=11)
    assert c1 == pytest.approx(1 / (1 + (ends - 1) ** 2), rel=1e-12)


def test_the_refined_extreme_is_exact_also_at_a_kink():
    c1, _ = vanishing.lemma_1_constants(lambda x: 1 + np.abs(x - 1e-7), 1.0, points=11)
    assert c1 == pytest.approx(1 / (2 + 1e-7), rel=1e-10)


def test_a_dip_wider_than_a_cell_is_seen():
    """Its width is 0.0016; 4,097 points over [-1, 1] are 0.0005 apart. Fifty points see nothing of it."""

    def dip(x):
        return 1 - 0.9 * np.exp(-(((x - 0.3) / 0.0008) ** 2))

    c1, _ = vanishing.lemma_1_constants(dip, 1.0)
    assert c1 == pytest.approx(0.1, rel=1e-9)
    assert vanishing.lemma_1_constants(dip, 1.0, points=50)[0] == 1.0


def test_lemma_1_needs_the_same_f_at_every_length():
    """Scalable-Softmax multiplies the logits by log L: its largest weight times L passes any constant."""
    top = [softmax(np.log(n) * 2.0 * np.eye(n)[0])[0] * n for n in (10, 100, 1000)]
    assert top[0] < top[1] < top[2] and top[2] > vanishing.lemma_1_constants(np.exp, 2.0)[1]


@given(logit_rows, st.floats(0.05, 10))
def test_corollary_1_and_the_exact_extremes_hold(logits, temperature):
    alpha = softmax(logits / temperature)
    low, high = vanishing.corollary_1_bounds(alpha.size, 2.5, temperature)
    smallest, largest = vanishing.exact_extremes(alpha.size, np.ptp(logits) / temperature)
    assert low * (1 - 1e-9) <= smallest * (1 + 1e-9) and smallest <= alpha.min() * (1 + 1e-9)
    assert alpha.max() <= largest * (1 + 1e-9) and largest <= high * (1 + 1e-9)


@given(st.integers(2, 300), st.floats(0, 30))
def test_exact_extremes_are_attained(length, spread):
    smallest, largest = vanishing.exact_extremes(length, spread)
    assert softmax(vanishing.extreme_logits(length, spread, largest=True))[0] == pytest.approx(
        largest, rel=1e-12
    )
    assert softmax(vanishing.extreme_logits(length, spread, largest=False))[0] == pytest.approx(
        smallest, rel=1e-12
    )


def test_exact_extremes_at_one_key_are_one():
    with np.errstate(all="raise"):
        assert vanishing.exact_extremes(1, 5.0) == (1.0, 1.0)


@pytest.mark.parametrize("bound, temperature", [(1.0, 1.0), (30.0, 8.0)])
def test_crossover_is_where_the_upper_bound_meets_one(bound, temperature):
    length = np.exp(vanishing.crossover_log_length(bound, temperature))
    assert vanishing.corollary_1_bounds(length * 1.001, bound, temperature)[1] < 1
    assert vanishing.corollary_1_bounds(length * 0.999, bound, temperature)[1] > 1


def test_log_bounds_survive_what_overflows():
    low, high = vanishing.corollary_1_log_bounds(np.array([1.0, 1024.0]), 8000.0, 8.0)
    assert high == pytest.approx([2000, 2000 - np.log(1024)]) and low == pytest.approx(high - 4000)
    with np.errstate(all="raise"):
        assert vanishing.corollary_1_bounds(1024, 8000.0, 8.0) == (0.0, np.inf)


def test_logits_of_zero_have_no_crossover():
    assert vanishing.crossover_log_length(0.0, 1.0) == 0.0
    assert vanishing.crossover_log_length(0.25, 2.0) == 0.25


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: vanishing.lemma_1_constants(lambda x: np.maximum(x, 0), 1.0), "F > 0"),
        (lambda: vanishing.lemma_1_constants(lambda x: 1.0, 1.0), "one value per logit"),
        (lambda: vanishing.lemma_1_constants(np.exp, -1.0), "half_width = -1"),
        (lambda: vanishing.corollary_1_bounds(0, 1.0, 1.0), "length = 0"),
        (lambda: vanishing.corollary_1_bounds(np.array([]), 1.0, 1.0), "length = .*at least 1"),
        (lambda: vanishing.exact_extremes([2.0, np.nan], 1.0), "length = .*at least 1"),
        (lambda: vanishing.crossover_log_length(-1.0, 1.0), "bound = -1"),
        (lambda: vanishing.crossover_log_length(1.0, 0.0), "temperature = 0"),
        (lambda: vanishing.exact_extremes(4, -0.5), "log_ratio = -0.5"),
        (lambda: vanishing.extreme_logits(1, 1.0, largest=True), "length = 1"),
    ],
)
def test_errors_say_what_was_wrong(call, words):
    with pytest.raises(ValueError, match=words):
        call()
