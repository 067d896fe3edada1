"""The shuffled model keeps every matrix's entries and none of its function."""

import torch
from attention_limits import capture, controls
from attention_limits.sources import Model, Provenance
from test_capture import gpt2, llama, some_ids


def model_of(built):
    provenance = Provenance("model", "toy", "toy", "", "", 0, "", "made by the test", "")
    return Model(built.module, None, built.device, provenance)


def test_entries_stay_and_places_change():
    for make in (gpt2, llama):
        model = model_of(make())
        copy = controls.shuffled(model, 3)
        for (name, before), after in zip(
            model.module.named_parameters(), copy.module.parameters(), strict=True
        ):
            assert torch.equal(before.flatten().sort().values, after.flatten().sort().values)
            same = torch.equal(before, after)
            # A constant matrix or a vector looks the same in any order.
            assert same == (before.ndim < 2 or bool((before == before.flatten()[0]).all())), name


def test_original_is_untouched_and_ties_are_kept():
    model = model_of(gpt2())
    before = {name: value.clone() for name, value in model.module.state_dict().items()}
    copy = controls.shuffled(model, 0)
    assert all(torch.equal(value, before[name]) for name, value in model.module.state_dict().items())
    assert copy.module.lm_head.weight.data_ptr() == copy.module.transformer.wte.weight.data_ptr()
    assert copy.provenance.name == "toy, weights shuffled (seed 0)"


def test_seed_decides():
    model, ids = model_of(gpt2()), some_ids(20)
    one, same, other = (capture.capture(controls.shuffled(model, seed), ids) for seed in (1, 1, 2))
    assert torch.equal(one.layers[1].q, same.layers[1].q)
    assert not torch.allclose(one.layers[1].q, other.layers[1].q)
