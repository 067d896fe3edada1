import numpy as np
import pytest
from attention_limits.theory import geometry as geo
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import distributions


def monte_carlo(weights, dimension, *, radius=1.0, draws=20_000, seed=0):
    """Z_i for ``draws`` draws of N points on the sphere: (draws, N). Straight from the definition."""
    points = geo.sample_sphere(np.random.default_rng(seed), (draws, len(weights)), dimension, radius=radius)
    y = points * np.asarray(weights)[:, None]
    return np.linalg.norm(y.sum(axis=1, keepdims=True) - y, axis=-1)


ROWS = [
    pytest.param([0.7, 0.1, 0.1, 0.05], 3, 1.0, id="sharp"),
    pytest.param([0.2] * 5, 8, 2.0, id="equal"),
    pytest.param([0.5, 0.5], 1, 1.0, id="two-on-a-line"),
    pytest.param([0.4, 0.3, 0.2, 0.1], 2, 1.0, id="circle"),
    pytest.param([0.9, 0.0, 0.05], 4, 1.0, id="with-a-zero"),
]


def within(sample, expected, errors=4.5):
    """Mean of the sample (axis 0) within ``errors`` standard errors of ``expected``, column by column."""
    se = sample.std(axis=0, ddof=1) / np.sqrt(len(sample))
    return np.all(np.abs(sample.mean(axis=0) - expected) <= errors * se + 1e-12)


@pytest.mark.parametrize("weights, dimension, radius", ROWS)
def test_moments_against_monte_carlo(weights, dimension, radius):
    z = monte_carlo(weights, dimension, radius=radius)
    assert within(z**2, geo.second_moment(weights, radius=radius))
    assert within(z**4, geo.fourth_moment(weights, dimension, radius=radius))


def test_moments_against_enumeration_on_a_line():
    """In d = 1 the sphere is {-1, 1}: all 2^N sign patterns, no sampling error."""
    weights = np.array([0.45, 0.3, 0.15, 0.1])
    signs = np.array(np.meshgrid(*[[-1, 1]] * 4)).reshape(4, -1).T * weights
    z = np.abs(signs.sum(axis=1, keepdims=True) - signs)
    assert geo.second_moment(weights) == pytest.approx((z**2).mean(axis=0), rel=1e-13)
    assert geo.fourth_moment(weights, 1) == pytest.approx((z**4).mean(axis=0), rel=1e-13)
    assert np.all(geo.mean_distance_floor(weights, 1) <= z.mean(axis=0) + 1e-13)


@pytest.mark.parametrize("weights, dimension, radius", ROWS)
def test_floor_and_cap_enclose_the_distance(weights, dimension, radius):
    z = monte_carlo(weights, dimension, radius=radius)
    se = z.std(axis=0, ddof=1) / np.sqrt(len(z))
    assert np.all(
        geo.mean_distance_floor(weights, dimension, radius=radius) <= z.mean(axis=0) + 4.5 * se + 1e-12
    )
    assert np.all(z <= geo.distance_cap(weights, radius=radius) + 1e-12)


@given(distributions(2, 8), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_cap_holds_surely_with_the_distance_that_was_there(weights, dimension, seed):
    x = geo.sample_sphere(np.random.default_rng(seed), (weights.size,), dimension)
    gaps = np.linalg.norm(x[:, None] - x, axis=-1)[~np.eye(weights.size, dtype=bool)]
    y = weights[:, None] * x
    z = np.linalg.norm(y.sum(axis=0) - y, axis=1)
    assert np.all(z <= geo.distance_cap(weights, min_distance=min(gaps.min(), 2.0)) + 1e-7)


@pytest.mark.parametrize("weights, dimension, radius", ROWS)
@pytest.mark.parametrize("share", [0.3, 0.9, 1.0, 1.2, 2.5])
def test_bounds_enclose_the_ratio_at_fixed_r(weights, dimension, radius, share):
    """r around the largest M sqrt(A_i); every bound against the sampled ratio with its standard error."""
    r = share * float(np.sqrt(geo.second_moment(weights, radius=radius).max()))
    told_apart = (monte_carlo(weights, dimension, radius=radius) < r).mean(axis=1)
    ratio, slack = told_apart.mean(), 4.5 * told_apart.std(ddof=1) / np.sqrt(len(told_apart)) + 1e-12
    lower, upper = geo.cantelli_bounds(weights, r, dimension, radius=radius)
    assert geo.markov_lower_bound(weights, r, radius=radius) <= ratio + slack
    assert geo.markov_lower_bound_sharp(weights, r, radius=radius) <= ratio + slack
    assert geo.mcdiarmid_upper_bound(weights, r, dimension, radius=radius) >= ratio - slack
    assert lower - slack <= ratio <= upper + slack


@given(distributions(1, 30), st.floats(1e-3, 2), st.integers(1, 800))
def test_order_among_the_bounds(weights, r, dimension):
    markov, sharp = geo.markov_lower_bound(weights, r), geo.markov_lower_bound_sharp(weights, r)
    assert markov <= sharp + 1e-12  # xi_i at delta = 0 is sum alpha_j >= sqrt(A_i)
    assert max(markov, 0) <= geo.sure_lower_bound(weights, r) + 1e-12
    assert np.exp(-0.5) - 1e-12 <= geo.mcdiarmid_upper_bound(weights, r, dimension) <= 1
    floor, root = geo.mean_distance_floor(weights, dimension), np.sqrt(geo.second_moment(weights))
    assert np.all(floor <= root + 1e-12)
    lower, upper = geo.cantelli_bounds(weights, r, dimension)
    assert 0 <= lower <= upper <= 1


def test_hoeffding_variant_is_no_bound():
    """The counter-example of the notes: ratio 1.00 where the variant allows 0.74."""
    weights = np.full(32, 1 / 32)
    ratio = (monte_carlo(weights, 768, draws=500) < 0.2).mean()
    variant = geo.hoeffding_variant_invalid(weights, 0.2)
    assert round(ratio, 2) == 1.00 and round(variant, 2) == 0.74
    assert geo.cantelli_bounds(weights, 0.2, 768)[0] > variant  # and not by sampling error: a proof
    assert geo.mcdiarmid_upper_bound(weights, 0.2, 768) == 1.0


@pytest.mark.parametrize("short", [0.2, 0.05])
def test_hoeffding_variant_fails_just_below_sqrt_2(short):
    """Below delta = sqrt 2 many equal weights in high dimension break it; proved by Cantelli, no sampling."""
    n, d = 200_000, 10**7
    weights, delta = np.full(n, 1 / n), np.sqrt(2) - short
    r = 1.5 * np.sqrt(1 / n)
    variant = geo.hoeffding_variant_invalid(weights, r, min_distance=delta)
    assert geo.cantelli_bounds(weights, r, d)[0] > variant + 1e-3


@given(distributions(1, 30), st.floats(0, 1))
def test_hoeffding_variant_at_sqrt_2_is_weaker_than_paley_zygmund(weights, share):
    """P(Z^2 >= u E Z^2) >= (1-u)^2 (E Z^2)^2 / E Z^4 proves the variant at delta = sqrt 2, any row and r."""
    second, fourth = geo.second_moment(weights), geo.fourth_moment(weights, 1)  # d = 1: the largest E Z^4
    for m, q in zip(second, fourth, strict=True):
        if m < 1e-200:
            continue
        upper = 1 - (1 - share**2) ** 2 * m**2 / q
        assert upper <= np.exp(-((np.sqrt(m) * (1 - share)) ** 2) / 2) + 1e-12


def by_hand(weights, x, n):
    order = sorted(range(len(weights)), key=lambda i: (-weights[i], i))
    y = [[w * c for c in row] for w, row in zip(weights, x, strict=True)]
    s = [sum(y[i][k] for i in order[:n]) for k in range(len(x[0]))]
    distance = [sum((a - b) ** 2 for a, b in zip(row, s, strict=True)) ** 0.5 for row in y]
    r = min(distance[i] for i in order[n:])
    return [distance[i] for i in order[:n]], r


@given(distributions(2, 12), st.integers(1, 5), st.integers(0, 2**32 - 1), st.data())
def test_distinguish_against_the_definition(weights, dimension, seed, data):
    n = data.draw(st.integers(1, weights.size - 1))  # up to n = N + 1
    x = geo.sample_sphere(np.random.default_rng(seed), (weights.size,), dimension)
    found = geo.distinguish(weights, x, n)
    distances, r = by_hand(weights.tolist(), x.tolist(), n)
    assert found.radius == pytest.approx(r, rel=1e-9, abs=1e-15)
    surely = sum(d < r - 1e-12 for d in distances)
    assert surely <= found.count <= sum(d < r + 1e-12 for d in distances)
    assert found.ratio == found.count / n
    if n == 1 and found.radius > 0:
        assert found.count == 1


@given(distributions(3, 12), st.integers(1, 6), st.integers(0, 2**32 - 1), st.data())
def test_cap_bounds_hold_in_every_draw_with_the_data_dependent_r(weights, dimension, seed, data):
    n = data.draw(st.integers(1, weights.size - 1))
    x = geo.sample_sphere(np.random.default_rng(seed), (weights.size,), dimension)
    found = geo.distinguish(weights, x, n)
    selected = np.sort(weights)[::-1][:n]
    if found.radius > 1e-9:  # below, rounding decides the comparison
        assert found.ratio >= geo.sure_lower_bound(selected, found.radius * (1 - 1e-9)) - 1e-12
        assert found.ratio >= geo.markov_lower_bound(selected, found.radius) - 1e-9


def test_single_token_is_told_apart_unless_r_is_zero():
    x = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert geo.distinguish([0.6, 0.4], x, 1).count == 1
    assert geo.distinguish([0.5, 0.5], np.array([[1.0, 0.0]] * 2), 1) == geo.Selection(0, 0.0, 0.0)


def test_fixed_radius_counts_and_refuses():
    x = np.eye(3)
    weights = [0.5, 0.3, 0.2]  # s = (.5, .3, 0): distances .3, .5 and sqrt(.38)
    assert geo.distinguish(weights, x, 2, radius=0.0).count == 0
    assert geo.distinguish(weights, x, 2, radius=0.4).count == 1
    assert geo.distinguish(weights, x, 2, radius=0.6).count == 2
    with pytest.raises(ValueError, match="unselected token lies at"):
        geo.distinguish(weights, x, 2, radius=0.7)


@settings(max_examples=30)
@given(st.integers(1, 6), st.floats(0.1, 5), st.integers(0, 2**32 - 1))
def test_sphere_points_lie_on_the_sphere(dimension, radius, seed):
    points = geo.sample_sphere(np.random.default_rng(seed), (7, 3), dimension, radius=radius)
    assert points.shape == (7, 3, dimension)
    assert np.linalg.norm(points, axis=-1) == pytest.approx(np.full((7, 3), radius), rel=1e-12)


def test_sphere_points_have_no_direction():
    points = geo.sample_sphere(np.random.default_rng(1), (20_000,), 3)
    assert within(points, np.zeros(3)) and within(points**2, np.full(3, 1 / 3))
    assert within(points[:, :1] * points[:, 1:], 0.0)


@given(distributions(1, 8), st.integers(1, 9), st.sampled_from([0.5, 2.0]), st.floats(0, 2))
def test_moments_and_bounds_against_their_formulas_spelled_out(weights, d, m, share):
    floors, uppers, cantelli = [], [], []
    r = share * m * float(np.sqrt(np.mean(weights**2)))
    for i in range(len(weights)):
        others = [w for j, w in enumerate(weights) if j != i]
        a, b = sum(w**2 for w in others), sum(w**4 for w in others)
        second, fourth = m**2 * a, m**4 * (a**2 + 2 / d * max(a**2 - b, 0))
        floors.append(second**1.5 / fourth**0.5 if fourth > 0 else 0.0)
        uppers.append(np.exp(-(max(floors[-1] - r, 0) ** 2) / (2 * second)) if second > 0 else 1.0)
        gap, variance = r**2 - second, max(fourth - second**2, 0)
        tail = variance / (variance + gap**2) if variance + gap**2 > 0 else 1.0
        cantelli.append((1 - tail if gap > 0 else 0.0, tail if gap < 0 else 1.0))
    assert geo.mean_distance_floor(weights, d, radius=m) == pytest.approx(floors, rel=1e-9)
    assert geo.mcdiarmid_upper_bound(weights, r, d, radius=m) == pytest.approx(np.mean(uppers), rel=1e-9)
    found = geo.cantelli_bounds(weights, r, d, radius=m)
    assert found == pytest.approx(np.mean(cantelli, axis=0), rel=1e-6, abs=1e-9)


def test_cantelli_says_nothing_at_r_squared_equal_to_the_moment():
    with np.errstate(divide="raise", invalid="raise"):
        assert geo.cantelli_bounds([0.5, 0.5], 0.5, 1) == (0.0, 1.0)
        assert geo.cantelli_bounds([1.0], 1e-90, 1) == (0.0, 1.0)  # the square of r^2 is not above zero


def test_a_larger_sphere_holds_points_farther_apart():
    assert geo.distance_cap([0.5, 0.5], radius=2.0, min_distance=3.0) == pytest.approx([1.0, 1.0])
    with pytest.raises(ValueError, match=r"radius 2\.0 are 0 to 4\.0 apart"):
        geo.distance_cap([0.5, 0.5], radius=2.0, min_distance=4.5)


def test_the_sure_bound_counts_the_caps_below_r():
    """xi^2 of (.5, .3, .2), by hand: .25, .49, .64 at delta = 0 and .19, .39, .49 at delta = 1."""
    weights = [0.5, 0.3, 0.2]
    assert geo.distance_cap(weights) ** 2 == pytest.approx([0.25, 0.49, 0.64])
    assert geo.distance_cap(weights, min_distance=1.0) ** 2 == pytest.approx([0.19, 0.39, 0.49])
    assert geo.markov_lower_bound(weights, 1.0) == pytest.approx(1 / 3)
    near = np.sqrt([0.19, 0.39, 0.49])
    assert geo.markov_lower_bound(weights, 1.0, min_distance=1.0) == pytest.approx(1 - near.mean())
    variant = geo.hoeffding_variant_invalid(weights, 0.1, min_distance=1.0)
    assert variant == pytest.approx(np.exp(-((near - 0.1) ** 2) / 2).mean())
    assert geo.sure_lower_bound(weights, 0.65) == pytest.approx(1 / 3)
    assert geo.sure_lower_bound(weights, 0.65, min_distance=1.0) == pytest.approx(2 / 3)
    assert geo.sure_lower_bound([0.25] * 5, 1.0) == 0  # xi_i = r exactly: not told apart for sure


@given(distributions(2, 8), st.sampled_from([0.5, 2.0, 8.0]), st.sampled_from([0.1, 0.4, 1.0]))
def test_bounds_depend_on_lengths_relative_to_the_radius(weights, m, r):
    """Twice as large a sphere with twice as large an r and delta is the same question (powers of two: no rounding)."""
    given_m, given_1 = {"radius": m, "min_distance": 0.125 * m}, {"radius": 1.0, "min_distance": 0.125}
    for bound in (geo.markov_lower_bound, geo.sure_lower_bound, geo.hoeffding_variant_invalid):
        assert bound(weights, r * m, **given_m) == pytest.approx(bound(weights, r, **given_1))
    assert geo.markov_lower_bound_sharp(weights, r * m, radius=m) == geo.markov_lower_bound_sharp(weights, r)
    for bound in (geo.mcdiarmid_upper_bound, geo.cantelli_bounds):
        assert bound(weights, r * m, 5, radius=m) == pytest.approx(bound(weights, r, 5))


def test_float32_vectors_are_compared_in_float64():
    rng = np.random.default_rng(7)
    weights, x = rng.dirichlet(np.ones(6)), rng.standard_normal((6, 3)).astype(np.float32)
    assert geo.distinguish(weights.astype(np.float32), x, 3) == geo.distinguish(
        weights.astype(np.float32).astype(float), x.astype(float), 3
    )


def test_coverage_as_printed_and_by_simulation():
    assert (geo.coverage(0.0, 3), geo.coverage(1.0, 3), geo.coverage(0.5, 0)) == (0.0, 1.0, 0.0)
    assert geo.coverage(0.8, 3) == pytest.approx(0.992, abs=1e-15)
    covered = (np.random.default_rng(2).random((40_000, 4)) < 0.35).any(axis=1)
    assert within(covered.astype(float), geo.coverage(0.35, 4))


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: geo.distance_cap([0.5, 0.5], min_distance=2.1), "min_distance = 2.1"),
        (lambda: geo.distance_cap([0.2] * 5, min_distance=1.9), "so far apart"),
        (lambda: geo.markov_lower_bound([0.5, 0.5], 0.0), "^r = 0"),
        (lambda: geo.markov_lower_bound_sharp([0.5, 0.5], 0.0), "^r = 0"),
        (lambda: geo.sure_lower_bound([0.5, 0.5], 0.0), "^r = 0"),
        (lambda: geo.cantelli_bounds([0.5, 0.5], -1.0, 3), "^r = -1"),
        (lambda: geo.hoeffding_variant_invalid([0.5, 0.5], -1.0), "^r = -1"),
        (lambda: geo.distinguish([0.5, 0.5], np.eye(2), 1, radius=-1.0), "^radius = -1"),
        (lambda: geo.coverage(0.5, -1), "heads = -1"),
        (lambda: geo.mcdiarmid_upper_bound([0.5, 0.5], -1.0, 3), "r = -1"),
        (lambda: geo.fourth_moment([0.5, 0.5], 0), "dimension = 0"),
        (lambda: geo.second_moment([0.5], radius=0), "^radius = 0"),
        (lambda: geo.fourth_moment([0.5], 3, radius=0), "^radius = 0"),
        (lambda: geo.distance_cap([0.5], radius=0), "^radius = 0"),
        (lambda: geo.sample_sphere(np.random.default_rng(0), (2,), 3, radius=0), "^radius = 0"),
        (lambda: geo.distinguish([0.5, 0.5], np.ones((3, 2)), 1), "vectors: wanted shape"),
        (lambda: geo.distinguish([0.5, 0.5], np.ones((2, 2)), 2), "no unselected token"),
        (lambda: geo.coverage(1.2, 3), "ratio = 1.2"),
    ],
)
def test_errors_say_what_was_wrong(call, words):
    with pytest.raises(ValueError, match=words):
        call()
