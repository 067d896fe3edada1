"""What runs on the processor runs on an accelerator too: nothing is made in the wrong place, little comes back."""

from types import SimpleNamespace
from unittest import mock

import accelerator
import numpy as np
import pandas as pd
import pytest
import torch
from attention_limits import capture, controls, cost, health, intervention, kernels, measures, normalisers
from test_capture import gpt2, llama, some_ids

LENGTH = 32
RULES = normalisers.normalisers([0.43])
READINGS = {"spaces": ["hidden", "embedding", "value"], "supports": ["causal", "full"]}


# Each gives tables.
MEASURES = {
    "distances": lambda seen: [measures.distances(seen, **READINGS, lengths=[6, seen.length], top_ns=[1, 5])],
    "separability": lambda seen: measures.separability(seen, **READINGS, top_ns=[1, 5], group_top_n=5),
    "sensitivity": lambda seen: [
        measures.sensitivity(
            seen, logits=["model", "raw"], temperatures=[0.01, 1.0], epsilons=[1e-3, 10.0], seed=0
        )
    ],
    "retrieval": lambda seen: [
        measures.retrieval(seen, spaces=["hidden", "value"], top_ns=[1, 5], stride=1, unit=True)
    ],
    "weight_scaling": lambda seen: [measures.weight_scaling(seen, lengths=[8, seen.length])],
    "normalisers": lambda seen: normalisers.compare(
        seen, RULES, lengths=[16, seen.length], top_ns=[1, 5], temperatures=[0.1], spaces=["value"], stride=1
    ),
    "random directions": lambda seen: [
        measures.distances(controls.random_directions(seen, 0), **READINGS, lengths=[seen.length], top_ns=[5])
    ],
}


def small_gpt2():
    return gpt2(n_layer=1, n_head=2)


def small_llama():
    return llama(num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1)


@pytest.fixture(params=[small_gpt2, small_llama], ids=["gpt2", "llama"])
def model(request):
    return request.param()


@pytest.fixture
def device():
    """An accelerator with a gigabyte of memory."""
    with (
        accelerator.Accelerator() as entered,
        mock.patch.object(torch.cuda, "mem_get_info", lambda _: (2**30, 2**30)),
    ):
        yield entered


def moved(model):
    return SimpleNamespace(module=model.module.to(accelerator.DEVICE), device=accelerator.DEVICE)


def assert_same(table, other):
    """To 1e-6; the one difference is the order of sums, and square roots in float32 on the processor."""
    assert len(table) == len(other) > 0 and list(table) == list(other)
    for name in table:
        if pd.api.types.is_numeric_dtype(table[name]):
            a, b = (part[name].to_numpy(dtype=float, na_value=np.nan) for part in (table, other))
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_gives_the_same_there_and_fetches_no_square(model, device, name):
    ids, fetched = some_ids(LENGTH), []
    here = MEASURES[name](capture.capture(model, ids))
    there = moved(model)
    for length in (LENGTH // 2, LENGTH):
        seen = capture.capture(there, ids[:length])
        assert seen.layers[0].q.device == accelerator.DEVICE
        before = device.fetched
        found = MEASURES[name](seen)
        fetched.append(device.fetched - before)
    for table, other in zip(here, found, strict=True):
        assert_same(table, other)
    # What comes back grows no faster than the rows, of which there are twice as many; a square would be four times.
    assert 0 < fetched[1] <= 2.1 * fetched[0]


def test_flags_that_are_not_wanted_are_there_too(device):
    weights, gram = torch.tensor([[0.5, 0.3, 0.2]]).double().to(accelerator.DEVICE), torch.eye(3).double()
    visible, none = torch.tensor([3]).to(accelerator.DEVICE), torch.zeros(1, 1, dtype=torch.int64)
    none, gram = none.to(accelerator.DEVICE), gram.to(accelerator.DEVICE)
    order = kernels.top_rows(weights, visible, 2)
    _, flags = kernels.geometry_rows(
        weights, visible, none, order, torch.tensor([1]), gram, none.double(), 3, 2
    )
    assert flags.device == accelerator.DEVICE and flags.cpu().tolist() == [[False, False]]


def test_the_health_check_gives_the_same_there(model, device):
    given = {"length": LENGTH, "top_n": 4, "stride": 1, "space": "value"}
    here = health.check(model.module, some_ids(LENGTH), **given)
    there = health.check(moved(model).module, some_ids(LENGTH), **given)
    assert_same(here.table, there.table)
    assert device.fetched < LENGTH**2


def test_the_loss_with_selected_keys_is_the_same_there(model, device):
    given = {"top_ns": [4, 8], "rules": ["unchanged", "renormalised", "random"], "targets": 16, "seed": 0}
    here = intervention.loss_curve(model, some_ids(LENGTH), **given)
    assert_same(here, intervention.loss_curve(moved(model), some_ids(LENGTH), **given))


def test_the_protocol_of_the_benchmark_gives_the_same_there(model, device):
    ids = some_ids(LENGTH)
    _, _, here = cost.run_protocol(model, ids)
    _, seen, there = cost.run_protocol(moved(model), ids)
    assert seen.embedding.device == accelerator.DEVICE
    for name in here:
        assert cost.largest_difference(here[name], there[name]) < 1e-6, name


def test_the_pretended_device_sees_what_a_real_one_refuses():
    near = torch.ones(3)
    with accelerator.Accelerator() as device:
        far = torch.ones(3).to(accelerator.DEVICE)
        for mixed in (lambda: far + near, lambda: torch.where(far > 0, far, near), lambda: far.add_(near)):
            with pytest.raises(AssertionError, match="mixes main memory and the accelerator"):
                mixed()
        assert device.fetched == 0
        far[torch.tensor([0, 1])] = 5.0  # positions may lie in main memory, and so may a single number
        assert (far * torch.tensor(2.0)).tolist() == [10.0, 10.0, 2.0] and device.fetched == 3
        assert float(far.sum()) == 11.0 and device.fetched == 4
        far[[2]] = torch.tensor([7.0], device=accelerator.DEVICE)
        assert far.cpu().tolist() == [5.0, 5.0, 7.0]
        with pytest.raises((TypeError, RuntimeError)):
            far.numpy()
    with pytest.raises(AssertionError, match="outlived"):
        far + 1
