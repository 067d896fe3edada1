"""The controls keep what they say they keep, and nothing else."""

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


def test_random_directions_keep_attention_and_satisfy_assumption_1():
    seen = capture.capture(model_of(llama()), some_ids(24))
    found = controls.random_directions(seen, 4)
    for before, after in zip(seen.layers, found.layers, strict=True):
        assert torch.equal(before.q, after.q) and torch.equal(before.k, after.k)
        assert before.v.shape == after.v.shape and before.hidden.shape == after.hidden.shape
    drawn = [found.embedding, *(layer.hidden for layer in found.layers)]
    drawn += [vectors for layer in found.layers for vectors in layer.v]
    for x in drawn:
        assert torch.allclose(x.norm(dim=-1), torch.ones(len(x)), atol=1e-6)
        n, d = x.shape
        products = (x @ x.T)[torch.ones(n, n, dtype=torch.bool).triu(1)]
        # Independent directions: products of mean 0 and variance 1/d; n(n-1)/2 pairs are uncorrelated.
        assert products.mean().abs() < 5 / (d * len(products)) ** 0.5
        assert abs(products.var() * d - 1) < 0.5
    assert not torch.equal(found.layers[0].hidden, found.layers[1].hidden)
    again, other = controls.random_directions(seen, 4), controls.random_directions(seen, 5)
    assert torch.equal(again.embedding, found.embedding) and not torch.equal(other.embedding, found.embedding)
