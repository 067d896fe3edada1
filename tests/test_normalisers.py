"""The five rules and their Jacobians against plain definitions, autograd, finite differences and dense matrices."""

import itertools
import math

import numpy as np
import pytest
import torch
from attention_limits import normalisers as nm
from attention_limits.normalisers import verdicts
from hypothesis import assume, given, settings
from hypothesis import strategies as st

RULES = nm.normalisers([0.43, 0.2])
NAMES = [rule.name for rule in RULES]
BY_NAME = dict(zip(NAMES, RULES, strict=True))
TEMPERATURES = [0.05, 0.5, 1.0, 6.0]


# --- the definitions, in plain Python floats: z = l / T -------------------------------------------------------------
def softmax(rule, logits, z):
    parts = [math.exp(x - max(z)) for x in z]
    return [part / sum(parts) for part in parts]


def sparsemax(rule, logits, z):
    """The threshold by trying every support."""
    for size in range(1, len(z) + 1):
        tau = (sum(sorted(z)[-size:]) - 1) / size
        weights = [max(x - tau, 0.0) for x in z]
        if abs(sum(weights) - 1) < 1e-9:
            return weights
    raise AssertionError(f"no support fits {z}")


def entmax15(rule, logits, z):
    """The threshold by bisection: the sum falls from at least one to zero."""
    low, high = max(z) / 2 - 1, max(z) / 2
    for _ in range(200):
        middle = (low + high) / 2
        if sum(max(x / 2 - middle, 0.0) ** 2 for x in z) > 1:
            low = middle
        else:
            high = middle
    return [max(x / 2 - low, 0.0) ** 2 for x in z]


def scalable(rule, logits, z):
    return softmax(rule, logits, [rule.scale * math.log(len(z)) * x for x in z])


def self_adjusted(rule, logits, z):
    low, high = min([*logits, 0.0]), max([*logits, 0.0])
    return [w * (l - low) / (high - low) for w, l in zip(softmax(rule, logits, z), logits, strict=True)]


DEFINITIONS = {
    "softmax": softmax,
    "sparsemax": sparsemax,
    "1.5-entmax": entmax15,
    "SSMax": scalable,
    "SA-Softmax": self_adjusted,
}


def plain(rule, logits, temperature):
    """Weights of one row by the definition of the rule's kind."""
    return DEFINITIONS[rule.kind](rule, logits, [l / temperature for l in logits])


def row(logits):
    logits = torch.tensor([logits], dtype=torch.float64)
    return logits, torch.tensor([logits.shape[1]])


LOGITS = st.lists(st.floats(-12, 12, width=32), min_size=2, max_size=12)


@settings(deadline=None, max_examples=150)
@given(LOGITS, st.sampled_from(RULES), st.sampled_from(TEMPERATURES))
def test_weights_equal_the_definition(logits, rule, temperature):
    assume(rule.kind != "SA-Softmax" or any(logits))
    got = rule.weights(*row(logits), temperature)[0].numpy()
    np.testing.assert_allclose(got, plain(rule, logits, temperature), rtol=1e-7, atol=1e-9)
    assert got.sum() == pytest.approx(1, abs=1e-9) or rule.kind == "SA-Softmax"
    # None changes the order of the logits.
    assert (np.diff(got[np.argsort(logits)]) >= -1e-15).all()


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_hidden_columns_and_other_rows_do_not_show(rule):
    rng = np.random.default_rng(0)
    logits = torch.from_numpy(rng.normal(size=(5, 90)) * 4)
    visible = torch.tensor([1, 2, 17, 70, 90])
    logits[:, -1] = 1e3  # hidden from all rows but the last
    got = rule.weights(logits, visible)
    for r, n in enumerate(visible.tolist()):
        alone = rule.weights(logits[r : r + 1, :n], visible[r : r + 1])[0]
        np.testing.assert_allclose(got[r, :n], alone, rtol=1e-13, atol=1e-300)
        assert not got[r, n:].any()


def test_known_values():
    """Worked by hand: logits 1 and 0.5 and a far one."""
    logits = [1.0, 0.5, -10.0]
    by_name = {rule.name: rule.weights(*row(logits))[0].tolist() for rule in RULES}
    assert by_name["sparsemax"] == pytest.approx([0.75, 0.25, 0])
    # a - b = 1/4 and a^2 + b^2 = 1 for the square roots a, b of the weights
    b = (-0.25 + math.sqrt(2 - 0.0625)) / 2
    assert by_name["1.5-entmax"] == pytest.approx([(b + 0.25) ** 2, b**2, 0])
    odds = 3 ** (0.43 * 0.5)
    assert by_name["SSMax(0.43)"][:2] == pytest.approx([odds / (1 + odds), 1 / (1 + odds)], rel=1e-2)
    odds = math.exp(0.5)
    assert by_name["SA-Softmax"] == pytest.approx([odds / (1 + odds), 10.5 / 11 / (1 + odds), 0], rel=1e-4)


def test_ssmax_is_softmax_at_n_equal_to_exp_1_over_s():
    rule = nm.Normaliser("SSMax", 1 / math.log(20))
    logits = torch.from_numpy(np.random.default_rng(1).normal(size=(1, 20)))
    n = torch.tensor([20])
    np.testing.assert_allclose(rule.weights(logits, n), RULES[0].weights(logits, n), rtol=1e-13)


def test_self_adjust_sums_below_one_and_takes_a_row_of_zeros():
    rule = BY_NAME["SA-Softmax"]
    assert rule.weights(*row([-3.0, -1.0]))[0].tolist() == pytest.approx([0, 2 / 3 / (1 + math.exp(-2))])
    assert rule.weights(*row([0.0, 0.0, 0.0]))[0].tolist() == pytest.approx([1 / 3] * 3)
    assert rule.weights(*row([-2.0])).item() == 0.0 and rule.weights(*row([2.0])).item() == 1.0


@settings(deadline=None, max_examples=120)
@given(st.lists(st.integers(-400, 400), min_size=2, max_size=10, unique=True), st.sampled_from(RULES),
       st.sampled_from(TEMPERATURES[1:]))  # fmt: skip
def test_jacobians_equal_central_differences(tenths, rule, temperature):
    """Distinct logits away from zero and from the edge of a support: there every rule is smooth."""
    logits = np.array(tenths) / 100 + 0.0013
    got = nm.jacobian(rule, torch.from_numpy(logits), temperature).numpy()
    step, rough = 1e-6, np.empty((len(logits), len(logits)))
    supports = set()
    for j in range(len(logits)):
        sides = []
        for sign in (1, -1):
            moved = logits.copy()
            moved[j] += sign * step
            sides.append(np.array(plain(rule, moved, temperature)))
            supports.add(tuple(sides[-1] > 0) if rule.sparse else ())
        rough[:, j] = (sides[0] - sides[1]) / (2 * step)
    assume(len(supports) == 1)
    np.testing.assert_allclose(got, rough, atol=2e-6 / temperature)


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
@pytest.mark.parametrize("shift", [-30.0, 0.0, 30.0])  # all logits below zero, on both sides, all above
def test_jacobians_equal_autograd(rule, shift):
    logits = torch.from_numpy(np.random.default_rng(3).normal(size=13) * 2 + shift)
    for temperature in TEMPERATURES:
        one = torch.tensor([13])
        own = torch.autograd.functional.jacobian(lambda l: rule.weights(l[None], one, temperature)[0], logits)  # noqa: B023
        np.testing.assert_allclose(nm.jacobian(rule, logits, temperature), own, rtol=1e-8, atol=1e-13)


@settings(deadline=None, max_examples=200)
@given(LOGITS, st.sampled_from(RULES), st.sampled_from(TEMPERATURES))
def test_norms_equal_dense_singular_values(logits, rule, temperature):
    dense = np.linalg.norm(
        nm.jacobian(rule, torch.tensor(logits, dtype=torch.float64), temperature).numpy(), 2
    )
    got, residual = nm.spectral_norms(rule, *row(logits), temperature)
    loose = 1e-7 if rule.kind == "SA-Softmax" else 1e-9
    assert got.item() == pytest.approx(
        dense, rel=loose, abs=2e-8 / temperature * (rule.kind == "SA-Softmax") + 1e-12
    )
    assert residual <= 1e-6


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_norms_of_long_rows_in_one_block_equal_dense_ones(rule):
    logits = torch.from_numpy(np.random.default_rng(5).normal(size=(4, 300)) * [[0.1], [1], [3], [9]])
    visible = torch.tensor([300, 299, 150, 1])
    got, _ = nm.spectral_norms(rule, logits, visible, 0.3)
    for r, n in enumerate(visible.tolist()):
        dense = torch.linalg.matrix_norm(nm.jacobian(rule, logits[r, :n], 0.3), 2)
        assert got[r].item() == pytest.approx(dense.item(), rel=1e-7, abs=1e-8)


def test_norm_bounds_that_the_chapter_proves():
    """sparsemax: 0 or 1/T. 1.5-entmax: between the two largest square roots, above 1/(2T) for two equal weights."""
    rng = np.random.default_rng(7)
    sparse, half = BY_NAME["sparsemax"], BY_NAME["1.5-entmax"]
    for _ in range(200):
        logits, n = row((rng.normal(size=rng.integers(2, 40)) * 10 ** rng.uniform(-2, 1)).tolist())
        norm = nm.spectral_norms(sparse, logits, n, 0.2)[0].item()
        assert norm == pytest.approx(
            5.0 if (sparse.weights(logits, n, 0.2) > 0).sum() > 1 else 0.0, rel=1e-12
        )
        roots = half.weights(logits, n).sqrt()[0].sort(descending=True).values
        norm = nm.spectral_norms(half, logits, n)[0].item()
        assert roots[1] * (1 - 1e-9) <= norm <= roots[0] * (1 + 1e-9)
    assert nm.spectral_norms(half, *row([3.0, 3.0]))[0].item() == pytest.approx(math.sqrt(0.5))


# --- the largest possible weight ------------------------------------------------------------------------------------
@pytest.mark.parametrize("rule", RULES, ids=NAMES)
@pytest.mark.parametrize(
    ("length", "spread"), list(itertools.product([2, 3, 10, 200], [0.0, 0.3, 1.0, 1.7, 2.0, 5.0]))
)
def test_largest_weight_is_attained_and_never_passed(rule, length, spread):
    most = nm.largest_weight(rule, length, spread)
    attaining = [spread if spread else 1.0] + [0.0 if spread else 1.0] * (length - 1)
    assert rule.weights(*row(attaining)).max().item() == pytest.approx(most, rel=1e-9)
    rng = np.random.default_rng(length)
    for _ in range(60):
        logits = rng.uniform(0, 1, length) ** rng.choice([0.2, 1, 5]) * spread + rng.normal()
        assert rule.weights(*row(logits.tolist())).max().item() <= most * (1 + 1e-9)


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
@pytest.mark.parametrize("spread", [0.5, 1.5, 4.0, 8.0])
def test_largest_weight_tends_to_its_limit(rule, spread):
    far = nm.largest_weight(rule, 10**60, spread)
    assert far == pytest.approx(nm.limit_weight(rule, spread), abs=1e-6)


def test_limit_of_ssmax_at_its_edge():
    assert nm.limit_weight(nm.Normaliser("SSMax", 0.5), 2.0) == 0.5
    assert nm.largest_weight(nm.Normaliser("SSMax", 0.5), 10**9, 2.0) == pytest.approx(0.5)


# --- verdicts and refusals ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("limit", "relaxed", "unchanged", "worse"),
    [
        ("length", [0.1, 0.5], [0.0999, 0, -0.0999], [-0.1, -2]),
        ("geometry", [0.05, 0.4], [0.049, 0, -0.049], [-0.05, -0.9]),
        ("gradient", [0.8, 0.0], [0.801, 1, 1.249], [1.25, 9]),
    ],
)
def test_thresholds_on_both_sides(limit, relaxed, unchanged, worse):
    rule = nm.THRESHOLDS[limit]
    words = (verdicts.RELAXED, verdicts.UNCHANGED, verdicts.WORSE)
    for word, numbers in zip(words, (relaxed, unchanged, worse), strict=True):
        assert [rule.word(number) for number in numbers] == [word] * len(numbers)
    with pytest.raises(ValueError, match="NaN cannot be judged"):
        rule.word(float("nan"))


@pytest.mark.parametrize("scales", [[], [0.0], [-1.0, 0.4], [0.4, 0.4]])
def test_senseless_scales_are_refused(scales):
    with pytest.raises(ValueError, match=r"scales are .* all above 0 and different"):
        nm.normalisers(scales)


def test_senseless_arguments_are_refused():
    with pytest.raises(ValueError, match=r"temperature is 0; it must be above 0"):
        RULES[0].weights(*row([1.0, 2.0]), 0)
    with pytest.raises(ValueError, match="length is 1 and spread is 1"):
        nm.largest_weight(RULES[0], 1, 1)
    with pytest.raises(ValueError, match="spread is -1"):
        nm.largest_weight(RULES[0], 5, -1)


@settings(deadline=None, max_examples=100)
@given(LOGITS, st.sampled_from(TEMPERATURES))
def test_self_adjust_norm_is_below_its_bound(logits, temperature):
    width = max([*logits, 0.0]) - min([*logits, 0.0])
    assume(width > 0)
    norm = nm.spectral_norms(BY_NAME["SA-Softmax"], *row(logits), temperature)[0].item()
    assert norm <= (0.5 / temperature + 3 / width) * (1 + 1e-9)


def test_self_adjust_on_decided_rows_keeps_a_slope_only_where_all_logits_are_negative():
    above, below = torch.tensor([900.0, -5.0, 3.0]).double(), torch.tensor([-4.0, -900.0, -950.0]).double()
    assert nm.jacobian(BY_NAME["SA-Softmax"], above).abs().max().item() < 1e-12
    slopes = nm.jacobian(BY_NAME["SA-Softmax"], below)
    f = (950 - 4) / 950
    assert slopes[0].tolist() == pytest.approx([1 / 950, 0, -(1 - f) / 950], abs=1e-12)
