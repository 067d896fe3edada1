import numpy as np
import pytest
import torch
from attention_limits.theory import gradients as grad
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import softmax
from strategies import distributions

NORMALISERS = {
    "exp": torch.exp,
    "softplus": torch.nn.functional.softplus,
    "sigmoid": torch.sigmoid,
    "one plus square": lambda x: 1 + x**2,
    "wave": lambda x: 2 + torch.sin(3 * x),
}
logit_rows = st.integers(1, 12).flatmap(lambda n: arrays(float, n, elements=st.floats(-6, 6)))
temperatures = st.floats(0.01, 20)


def by_autograd(function, logits):
    """Weights' Jacobian, F and F' at the logits, all from torch's autograd in float64."""
    l = torch.tensor(logits, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda x: function(x) / function(x).sum(), l)
    slopes = torch.autograd.functional.jacobian(lambda x: function(x).sum(), l)
    return jacobian.numpy(), function(l).numpy(), slopes.numpy()


def spectral(jacobian):
    return float(np.linalg.norm(jacobian, 2))


@given(logit_rows, st.sampled_from(sorted(NORMALISERS)))
def test_general_jacobian_and_lemma_2(logits, name):
    expected, values, slopes = by_autograd(NORMALISERS[name], logits)
    assert grad.normaliser_jacobian(values, slopes) == pytest.approx(expected, rel=1e-10, abs=1e-14)
    sharp, simple = grad.lemma_2_bounds(values, slopes)
    assert spectral(expected) <= sharp * (1 + 1e-10) + 1e-15
    assert sharp <= simple * (1 + 1e-12)


def test_lemma_2_is_nearly_attained():
    """Equal weights and one slope come within a factor sqrt(1 - 1/L) of the bound."""
    values = np.ones(50)
    slopes = np.eye(50)[3]
    sharp, simple = grad.lemma_2_bounds(values, slopes)
    assert sharp == pytest.approx(simple) == pytest.approx(1 / 50)
    assert spectral(grad.normaliser_jacobian(values, slopes)) == pytest.approx(np.sqrt(1 - 1 / 50) / 50)


@given(logit_rows, temperatures)
def test_softmax_jacobian_against_autograd(logits, temperature):
    expected, values, slopes = by_autograd(lambda x: torch.exp(x / temperature - 0.0), logits * temperature)
    alpha = softmax(logits)
    assert grad.softmax_jacobian(alpha, temperature) == pytest.approx(
        expected, rel=1e-9, abs=1e-12 / temperature
    )
    assert grad.normaliser_jacobian(values, slopes) == pytest.approx(
        expected, rel=1e-9, abs=1e-12 / temperature
    )


@given(distributions(), temperatures)
def test_exact_norms_against_dense_linear_algebra(alpha, temperature):
    eigenvalues = np.linalg.eigvalsh(grad.softmax_jacobian(alpha, temperature))
    spectral_norm = grad.softmax_spectral_norm(alpha, temperature)
    assert spectral_norm == pytest.approx(eigenvalues[-1], rel=1e-12, abs=1e-14 / temperature)
    frobenius = grad.softmax_frobenius_norm(alpha, temperature)
    assert frobenius == pytest.approx(np.sqrt((eigenvalues**2).sum()), rel=1e-12, abs=1e-14 / temperature)
    assert grad.random_direction_rms(alpha, temperature) == pytest.approx(frobenius / np.sqrt(alpha.size))


@given(distributions(), temperatures)
def test_order_of_the_norms_and_corollary_3(alpha, temperature):
    spectral_norm = grad.softmax_spectral_norm(alpha, temperature)
    frobenius = grad.softmax_frobenius_norm(alpha)
    bound = grad.softmax_spectral_bound(alpha, temperature)
    corrected = grad.corollary_3_corrected(temperature)
    slack = 1 + 1e-12
    assert spectral_norm <= frobenius / temperature * slack + 1e-16
    assert spectral_norm <= bound * slack + 1e-16 and bound <= corrected * slack
    square = float(alpha @ alpha)
    # The step used for |J|_F <= 1/(2T).
    assert frobenius <= np.sqrt(max(square * (1 - square), 0)) * slack + 1e-8
    assert frobenius / temperature <= corrected * slack
    # What 1/(4T) bounds.
    assert np.abs(grad.softmax_jacobian(alpha, temperature)).max() <= 0.25 / temperature * slack


def test_norms_and_bound_are_those_of_temperature_one_unless_another_is_named():
    for function in (grad.softmax_spectral_norm, grad.softmax_frobenius_norm, grad.softmax_spectral_bound):
        assert function([0.5, 0.3, 0.2], 0.5) == 2 * function([0.5, 0.3, 0.2])
    assert (grad.softmax_jacobian([0.5, 0.5], 0.5) == 2 * grad.softmax_jacobian([0.5, 0.5])).all()
    assert grad.random_direction_rms([0.5, 0.5], 0.5) == 2 * grad.random_direction_rms([0.5, 0.5])


def test_float32_rows_are_moved_in_float64():
    l, v = np.array([0.3, -1.2, 0.7], np.float32), np.array([1.0, 0.1, -0.3], np.float32)
    assert grad.finite_difference(l, v, 1.0, 1e-6) == grad.finite_difference(
        l.astype(float), v.astype(float), 1.0, 1e-6
    )
    values = np.exp(l)
    assert grad.lemma_2_bounds(values, v) == grad.lemma_2_bounds(values.astype(float), v.astype(float))


def test_frobenius_near_one_hot_keeps_its_digits():
    """|J|_F = 2 e (1 - e) for (1 - e, e): at e = 1e-12 the textbook form returns 0 or 1e-8."""
    assert grad.softmax_frobenius_norm([1 - 1e-12, 1e-12]) == pytest.approx(2e-12, rel=1e-3)
    assert grad.softmax_spectral_norm([1 - 1e-12, 1e-12]) == pytest.approx(2e-12, rel=1e-3)


@pytest.mark.parametrize("temperature", [0.01, 0.1, 0.3, 0.5, 1.0, 8.0])
def test_corollary_3_as_printed_is_false(temperature):
    """alpha = (1/2, 1/2) has |J|_2 = 1/(2T): at least 1.9 times the printed constant at these T."""
    norm = spectral(grad.softmax_jacobian([0.5, 0.5], temperature))
    assert norm == pytest.approx(grad.corollary_3_corrected(temperature))
    assert norm > grad.corollary_3_printed_invalid(temperature) * 1.9
    assert norm == pytest.approx(grad.softmax_spectral_bound([0.5, 0.5], temperature))


def test_printed_constant_has_both_its_parts():
    assert grad.corollary_3_printed_invalid(1.0) == 0.25
    assert grad.corollary_3_printed_invalid(0.1) == np.sqrt(2)


@given(logit_rows, temperatures, st.sampled_from([1e-3, 0.1, 1.0, 10.0]), st.integers(0, 2**32 - 1))
def test_finite_difference_stays_below_its_bound(logits, temperature, epsilon, seed):
    direction = np.random.default_rng(seed).standard_normal(logits.size)
    g = grad.finite_difference(logits, direction, temperature, epsilon)
    assert g <= grad.finite_difference_bound(temperature, epsilon) * (1 + 1e-9)


def test_finite_difference_bound_is_approached_on_both_sides():
    towards = np.array([1.0, -1.0])  # the top eigenvector of (1/2, 1/2)
    assert grad.finite_difference([0.0, 0.0], towards, 1.0, 1e-4) == pytest.approx(0.5, rel=1e-6)
    flipped = grad.finite_difference([-5.0, 5.0], towards, 0.1, np.sqrt(200))
    assert flipped == pytest.approx(grad.finite_difference_bound(0.1, np.sqrt(200)), rel=1e-6)


def test_algorithm_5_estimates_the_frobenius_norm():
    """Mean of g^2 over 3,000 directions against |J|_F^2 / n, to 4.5 standard errors; far from |J|_2."""
    logits = np.random.default_rng(3).standard_normal(40) * 2
    rng = np.random.default_rng(4)
    g2 = np.array(
        [grad.finite_difference(logits, rng.standard_normal(40), 0.7, 1e-5) ** 2 for _ in range(3000)]
    )
    alpha, se = softmax(logits / 0.7), g2.std(ddof=1) / np.sqrt(g2.size)
    assert abs(g2.mean() - grad.random_direction_rms(alpha, 0.7) ** 2) < 4.5 * se
    assert np.sqrt(g2.mean()) < 0.3 * grad.softmax_spectral_norm(alpha, 0.7)


@pytest.mark.parametrize("epsilon, temperature", [(1e-3, 1.0), (1e-3, 0.05), (0.1, 1.0)])
def test_swapping_the_top_two_moves_the_weights_by_epsilon_over_t(epsilon, temperature):
    """Two rows eps apart whose top two trade places: the weights move by 0.9 to 1 times eps/(2T)."""
    half = epsilon / np.sqrt(8)
    before, after = np.array([half, -half, -5.0]), np.array([-half, half, -5.0])
    moved = np.linalg.norm(softmax(before / temperature) - softmax(after / temperature))
    assert np.linalg.norm(before - after) == pytest.approx(epsilon)
    assert 0.9 * epsilon / (2 * temperature) < moved <= epsilon / (2 * temperature)


def test_one_key_never_moves():
    assert grad.softmax_spectral_norm([1.0]) == grad.softmax_frobenius_norm([1.0]) == 0.0
    assert grad.finite_difference([3.0], [1.0], 0.5, 0.1) == 0.0


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: grad.normaliser_jacobian([1.0, 0.0], [1.0, 1.0]), "finite F > 0"),
        (lambda: grad.lemma_2_bounds([1.0, 2.0], [1.0]), "two rows of one length"),
        (lambda: grad.lemma_2_bounds([[1.0, 2.0]], [[1.0, 1.0]]), "two rows of one length"),
        (lambda: grad.lemma_2_bounds([], []), "two rows of one length"),
        (lambda: grad.lemma_2_bounds([1.0, np.inf], [1.0, 1.0]), "finite F > 0"),
        (lambda: grad.lemma_2_bounds([1.0, 2.0], [1.0, np.nan]), "finite slopes"),
        (lambda: grad.softmax_spectral_norm([0.5, 0.4]), "sum to one"),
        (lambda: grad.softmax_frobenius_norm([0.5, 0.5], 0.0), "^temperature = 0"),
        (lambda: grad.finite_difference([1.0, 2.0], [0.0, 0.0], 1.0, 0.1), "direction not 0"),
        (lambda: grad.finite_difference([[1.0, 2.0]], [[1.0, 0.0]], 1.0, 0.1), "two rows of one length"),
        (lambda: grad.finite_difference([1.0, 2.0], [1.0, 0.0, 0.0], 1.0, 0.1), "two rows of one length"),
        (lambda: grad.finite_difference([1.0, 2.0], [1.0, 0.0], 0.0, 0.1), "^temperature = 0"),
        (lambda: grad.finite_difference([1.0, 2.0], [1.0, 0.0], 1.0, 0.0), "^epsilon = 0"),
        (lambda: grad.finite_difference_bound(1.0, 0.0), "^epsilon = 0"),
        (lambda: grad.corollary_3_corrected(0.0), "^temperature = 0"),
        (lambda: grad.corollary_3_printed_invalid(0.0), "^temperature = 0"),
        (lambda: grad.softmax_spectral_bound([0.5, 0.5], 0.0), "^temperature = 0"),
        (lambda: grad.softmax_spectral_norm([0.5, 0.5], 0.0), "^temperature = 0"),
        (lambda: grad.softmax_jacobian([0.5, 0.5], 0.0), "^temperature = 0"),
    ],
)
def test_errors_say_what_was_wrong(call, words):
    with pytest.raises(ValueError, match=words):
        call()
