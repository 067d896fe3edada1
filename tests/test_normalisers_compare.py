"""The comparison of normalisers on a captured model, against plain loops over heads, tokens and keys."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from attention_limits import kernels
from attention_limits import normalisers as nm
from attention_limits.capture import Capture, Layer
from paths import kernel_path  # noqa: F401
from test_measures import seen, softmax_of_head  # noqa: F401  (seen is a fixture)
from test_measures_geometry import plain_row
from test_normalisers import plain

RULES = nm.normalisers([0.43, 0.2])
BY_NAME = {rule.name: rule for rule in RULES}
LENGTHS, TOP_NS = [10, 40], [1, 3, 8]


def rows_of(seen, layer, head, stride):  # noqa: F811
    """Plain logits of the rows with two keys or more that a stride keeps."""
    logits = softmax_of_head(seen, layer, head)[1]
    return [logits[n - 1].tolist() for n in range(stride, 41, stride) if n > 1]


def test_scaling_equals_plain_loops(seen):  # noqa: F811
    found = nm.scaling(seen, RULES, lengths=LENGTHS, top_ns=TOP_NS, stride=5)
    assert len(found) == 2 * 4 * len(RULES) * len(LENGTHS)
    for line in found[found["head"] == 1 + found.layer].to_dict("records"):
        rule, expected = BY_NAME[line["normaliser"]], []
        zeros = beyond = 0
        for logits in rows_of(seen, line["layer"], line["head"], 5):
            n = len(logits)
            if not line["length"] // 2 < n <= line["length"]:
                continue
            w = plain(rule, logits, 1.0)
            total, order = sum(w), sorted(range(n), key=lambda i: -logits[i])
            p = [x / total for x in w if x > 1e-12]
            entropy = -sum(x * math.log(x) for x in p)
            support = (
                sum(x > 1e-12 for x in w)
                if rule.kind in ("sparsemax", "1.5-entmax")
                else sum(x > 0 for x in w)
            )
            masses = [sum(w[i] for i in order[:top_n]) / total for top_n in TOP_NS]
            expected.append([math.log(n), math.log(max(w)), entropy / math.log(n), math.exp(entropy), support,
                             support / n, total, *masses])  # fmt: skip
            zeros += support < n
            beyond += max(w) > 1 / (1 + (n - 1) * math.exp(min(logits) - max(logits))) * (1 + 1e-9)
        mean = np.mean(expected, axis=0)
        mean[:2] = np.exp(mean[:2])
        names = ["keys", "largest", "entropy_share", "effective", "support", "support_share", "total"]
        got = [line[name] for name in [*names, *(f"mass_{top_n}" for top_n in TOP_NS)]]
        np.testing.assert_allclose(got, mean, rtol=1e-6, atol=1e-7, err_msg=str(line))
        assert (line["rows"], line["zeros"], line["beyond"]) == (len(expected), zeros, beyond)


@pytest.mark.parametrize("space", ["hidden", "value"])
def test_separability_equals_exact_rational_arithmetic(seen, space):  # noqa: F811
    found = nm.separability(seen, RULES, top_ns=TOP_NS, spaces=[space], stride=8)
    assert len(found) == 2 * 4 * len(RULES) * len(TOP_NS)
    for line in found[found["head"] == 2 - found.layer].to_dict("records"):
        rule, ratios, own, matched = BY_NAME[line["normaliser"]], [], [], []
        x = seen.vectors(space, line["layer"], line["head"]).double().numpy()
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        for logits in rows_of(seen, line["layer"], line["head"], 8):
            n = len(logits)
            if n <= line["top_n"]:
                continue
            # The rule's own float64 weights, so that only the geometry is compared.
            row = torch.tensor([logits], dtype=torch.float64), torch.tensor([n])
            w, soft = (one.weights(*row)[0].numpy() for one in (rule, RULES[0]))
            ratios.append(np.mean(plain_row(w, x[:n], line["top_n"])[1]))
            smaller = min(line["top_n"], max(1, int((w > 0).sum())))
            own.append(np.mean(plain_row(w, x[:n], smaller)[1]))
            matched.append(np.mean(plain_row(soft, x[:n], smaller)[1]))
        assert line["rows"] == len(ratios)
        got = [line[name] for name in ("ratio", "own", "matched")]
        assert got == pytest.approx([np.mean(part) for part in (ratios, own, matched)], abs=1e-12)


def test_which_zero_weights_are_selected_does_not_matter():
    """With three positive weights and N = 5 any two of the zeros may be selected, as the definition has it."""
    rng = np.random.default_rng(2)
    w, x = np.array([0.5, 0.3, 0.2, 0, 0, 0, 0]), rng.normal(size=(7, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    visible, none = torch.tensor([7]), torch.zeros(1, 1, dtype=torch.int64)
    weights, gram = torch.from_numpy(w)[None], torch.from_numpy(x @ x.T)
    found = set()
    for swap in ([3, 4, 5, 6], [6, 5, 4, 3], [5, 3, 6, 4]):
        order = torch.tensor([[0, 1, 2, *swap]])
        given = (weights, visible, none, order, torch.tensor([5]), gram, none.double(), 4, 5)
        values, flags = kernels.geometry_rows(*given)
        found.add((float(values[0, 0, 0, 0]), tuple(flags[0].tolist())))
    _, told, *_ = plain_row(w, x, 5)
    assert found == {(np.mean(told), tuple(told))} and not any(told[3:])


def test_an_exponential_weight_too_small_for_float64_is_not_a_zero():
    """Logits 1000 apart underflow under softmax; sparsemax gives real zeros there."""
    layer = torch.zeros(1, 12, 2), torch.zeros(1, 12, 2)
    layer[0][..., 0], layer[1][0, :, 0] = 1.0, -1000.0 * torch.arange(12)
    q, k = layer
    sharp = Capture(torch.arange(12), torch.ones(12, 2), (Layer(q, k, k, torch.ones(12, 2), 1.0),))
    found = nm.scaling(sharp, RULES, lengths=[12], top_ns=[1], stride=1).set_index("normaliser")
    assert found.zeros["softmax"] == 0 and found.support["softmax"] > 6
    assert found.zeros["sparsemax"] > 0 and found.support["sparsemax"] == 1


def test_sensitivity_equals_dense_jacobians(seen):  # noqa: F811
    temperatures = [0.05, 1.0, 8.0]
    found = nm.sensitivity(seen, RULES, temperatures=temperatures, stride=8)
    assert len(found) == 2 * 4 * len(RULES) * len(temperatures)
    for line in found[found["head"] == 1 + found.layer].to_dict("records"):
        rule, T, norms = BY_NAME[line["normaliser"]], line["temperature"], []
        above = beyond = 0
        for logits in rows_of(seen, line["layer"], line["head"], 8):
            n = len(logits)
            norm = np.linalg.norm(nm.jacobian(rule, torch.tensor(logits, dtype=torch.float64), T).numpy(), 2)
            norms.append(norm)
            above += norm > 0.5 / T * (1 + 1e-9)
            w = np.array(plain(rule, logits, T))
            c = rule.scale * math.log(n) / T if rule.kind == "SSMax" else 1 / T
            beyond += norm > c * math.sqrt(n) * np.linalg.norm(w) * w.max() * (1 + 1e-9)
        loose = 2e-8 / T if rule.kind == "SA-Softmax" else 1e-10
        assert line["spectral"] == pytest.approx(np.mean(norms), rel=1e-7, abs=loose)
        assert line["worst"] == pytest.approx(T * max(norms), rel=1e-7, abs=loose)
        assert (line["rows"], line["above"], line["beyond"]) == (5, above, beyond)
        assert line["still"] == sum(norm * T < 1e-3 for norm in norms)
        assert line["residual"] <= 1e-6


@pytest.mark.parametrize(
    ("function", "change", "message"),
    [
        (nm.scaling, {"lengths": [41]}, r"lengths are \[41\].* from 2 to 40"),
        (nm.scaling, {"top_ns": [0]}, r"top_ns are \[0\].* from 1 to 40"),
        (nm.scaling, {"stride": 6}, "stride is 6; with the length 10 it must be from 1 to 5"),
        (nm.scaling, {"stride": 0}, "stride is 0"),
        (nm.separability, {"spaces": ["hiden"]}, "out of hidden, embedding, value"),
        (nm.separability, {"top_ns": [40]}, r"top_ns are \[40\].* from 1 to 39"),
        (nm.separability, {"stride": 41}, "stride is 41; it must be from 1 to 40"),
        (nm.sensitivity, {"temperatures": [0.0]}, r"temperatures are \[0.0\]"),
        (nm.sensitivity, {"temperatures": []}, "temperatures are"),
        (nm.sensitivity, {"stride": 0}, "stride is 0; it must be from 1 to 40"),
    ],
)
def test_senseless_parameters_are_refused(seen, function, change, message):  # noqa: F811
    given = {
        nm.scaling: {"lengths": LENGTHS, "top_ns": TOP_NS},
        nm.separability: {"top_ns": TOP_NS, "spaces": ["hidden"]},
        nm.sensitivity: {"temperatures": [1.0]},
    }[function]
    with pytest.raises(ValueError, match=message):
        function(seen, RULES, **{**given, **change})


# --- the verdicts ----------------------------------------------------------------------------------------------------
def made_up(exponent=-0.2, own=0.9, ratio=0.7, norm=2.0, windows=(0, 1)):
    """Tables of two heads in which rule `b` has the given numbers and softmax 0.6 of -1, 0.8 and 2."""
    weights, geometry, norms = [], [], []
    for window in windows:
        for head in (0, 1):
            for name in ("softmax", "b"):
                key = {"window": window, "layer": 0, "head": head, "normaliser": name}
                power = exponent if name == "b" else -0.6
                weights += [key | {"length": n, "keys": float(n), "largest": n**power} for n in (8, 16, 64)]
                numbers = (ratio, own, 0.8) if name == "b" else (0.8, 0.8, 0.8)
                named = dict(zip(("ratio", "own", "matched"), numbers, strict=True))
                geometry.append(key | {"space": "hidden", "top_n": 16} | named)
                norms.append(
                    key | {"temperature": 0.1, "spectral": norm + head if name == "b" else 2.0 + head}
                )
    return [pd.DataFrame(part) for part in (weights, geometry, norms)]


def test_judge_on_made_up_tables():
    lines = nm.judge(*made_up(norm=4.0), top_n=16, temperature=0.1).set_index(
        ["normaliser", "limit", "selection"]
    )
    assert (lines.loc["softmax"].word == "unchanged").all()
    got = lines.loc["b"]
    assert got.number.to_dict() == pytest.approx(
        {
            ("length", ""): 0.4,
            ("geometry", "top N"): -0.1,
            ("geometry", "own support"): 0.1,
            ("gradient", ""): 9 / 5,
        }
    )
    assert got.word.tolist() == ["relaxed", "worse", "relaxed", "worse"]
    np.testing.assert_allclose(got[["low", "high"]].T, [got.number, got.number])  # both windows are the same


def test_judge_without_three_lengths_has_no_power_and_with_one_window_no_interval():
    weights, geometry, norms = made_up(windows=(0,))
    lines = nm.judge(weights[weights.length < 20], geometry, norms, top_n=16, temperature=0.1)
    assert set(lines.limit) == {"geometry", "gradient"} and lines[["low", "high"]].isna().all().all()
    for wrong in ({"top_n": 5, "temperature": 0.1}, {"top_n": 16, "temperature": 0.3}):
        with pytest.raises(KeyError, match="was not measured"):
            nm.judge(weights, geometry, norms, **wrong)


def test_all_tables_together_and_parameters_refused_before_any_is_made(seen, monkeypatch):  # noqa: F811
    given = {
        "lengths": LENGTHS,
        "top_ns": TOP_NS,
        "temperatures": [0.1, 1.0],
        "spaces": ["value"],
        "stride": 5,
    }
    weights, geometry, norms = nm.compare(seen, RULES, **given)
    pd.testing.assert_frame_equal(weights, nm.scaling(seen, RULES, lengths=LENGTHS, top_ns=TOP_NS, stride=5))
    again = nm.separability(seen, RULES, top_ns=TOP_NS, spaces=["value"], stride=20)
    pd.testing.assert_frame_equal(geometry, again)
    pd.testing.assert_frame_equal(norms, nm.sensitivity(seen, RULES, temperatures=[0.1, 1.0], stride=40))
    # Calling it would raise TypeError.
    monkeypatch.setattr("attention_limits.normalisers.comparison.scaling", None)
    for change in (
        {"stride": 6},
        {"temperatures": [0]},
        {"spaces": []},
        {"top_ns": [40]},
        {"lengths": [1, 9]},
    ):
        with pytest.raises(ValueError, match=next(iter(change))):
            nm.compare(seen, RULES, **{**given, **change})
