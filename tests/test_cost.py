"""The benchmark: what it runs is the protocol, what it extrapolates from is correct, and memory is really watched."""

import itertools
import mmap
import time

import numpy as np
import pandas as pd
import pytest
import torch
from attention_limits import capture, controls, cost, measures
from attention_limits.cost import memory, protocol, scaling
from attention_limits.cost.__main__ import main

SHAPE = {"n_layer": 2, "n_head": 2, "n_embd": 32, "vocab_size": 101, "n_positions": 64}


@pytest.fixture(scope="module")
def run():
    """The protocol on two layers of two heads and 40 tokens."""
    model = controls.untrained("gpt2", 0, device="cpu", **SHAPE)
    ids = torch.randint(101, (40,), generator=torch.Generator().manual_seed(0))
    return cost.run_protocol(model, ids)


def test_protocol_runs_all_five_on_every_head(run):
    timing, seen, found = run
    assert (timing.heads, timing.length, seen.length) == (4, 40, 40)
    assert list(timing.algorithms) == list(found) == [f"algorithm-{k}" for k in range(1, 6)]
    assert timing.forward > 0 and all(seconds > 0 for seconds in timing.algorithms.values())
    assert timing.total == pytest.approx(sum(timing.algorithms[f"algorithm-{k}"] for k in (3, 4, 5)))
    # The walk of Algorithm 3 holds the numbers of Algorithms 1 and 2.
    given = {"spaces": ["hidden"], "supports": ["causal"]}
    walk = measures.distances(seen, **given, lengths=[32, 40], top_ns=range(1, 40))
    for name, kept in (("algorithm-1", walk.top_n == 5), ("algorithm-2", walk.length == 40)):
        keys = ["layer", "head", "length", "top_n"]
        both = found[name].merge(walk[kept], on=keys, suffixes=("", "_walk"))
        assert len(both) == len(found[name])
        np.testing.assert_allclose(both.d, both.d_walk, rtol=1e-12)
    one = measures.distances(seen, spaces=["hidden"], supports=["causal"], lengths=[32, 40], top_ns=[5])
    pd.testing.assert_frame_equal(found["algorithm-1"], one)
    assert sorted(found["algorithm-2"].top_n.unique()) == [1, 5, 10, 20]  # those of the protocol below 40
    assert sorted(found["algorithm-4"].top_n.unique()) == [1, 2, 4, 5, 8, 10, 16, 20, 32]
    assert found["algorithm-5"].groupby(["temperature", "epsilon"]).ngroups == 13 * 3


def test_algorithm_3_gives_the_first_n_that_the_test_does_not_reject(run):
    from scipy import stats

    _, seen, found = run
    for line in found["algorithm-3"].to_dict("records"):
        given = {"spaces": ["hidden"], "supports": ["causal"], "lengths": [line["length"]]}
        table = measures.distances(seen, **given, top_ns=range(1, int(line["length"])))
        p = {n: stats.ks_2samp(part.d, part.expected).pvalue for n, part in table.groupby("top_n")}
        first = next((n for n in sorted(p) if p[n] >= line["level"]), np.nan)
        assert line["N"] == pytest.approx(first, nan_ok=True)


def test_plain_step_is_the_definition(run):
    """d, E_J (against the exact mean over all sets, which it bounds) and the bound, spelled out for one row."""
    _, seen, _ = run
    n, top_n, head = 7, 2, 1
    part = seen.layers[1]
    q, k = part.q[head, n - 1].double().numpy(), part.k[head, :n].double().numpy()
    weights = np.exp(k @ q * part.scale)
    y = (weights / weights.sum())[:, None] * part.hidden[:n].double().numpy()
    order = np.argsort(-weights)
    s = y[order[:top_n]].sum(axis=0)
    d, expected, bound = cost.plain_step(seen, "hidden", 1, head, n, top_n, bound=True)
    assert d == pytest.approx(sum(np.linalg.norm(y[i] - s) for i in order[top_n:]), rel=1e-9)
    sets = [
        sum(np.linalg.norm(y[i] - y[list(some)].sum(axis=0)) for i in set(range(n)) - set(some))
        for some in itertools.combinations(range(n), top_n)
    ]
    assert np.mean(sets) <= expected <= 1.5 * np.mean(sets)
    assert bound >= d


def test_plain_loop_counts_every_step(run):
    _, seen, _ = run
    loops = cost.plain_loop(seen, "hidden", sample=3, seed=0)

    def steps(lengths, sizes):
        return 4 * sum(n > top_n for length in lengths for n in range(1, length + 1) for top_n in sizes)

    assert loops["algorithm-1"].steps == steps([32, 40], [5])
    assert loops["algorithm-2"].steps == steps([40], [1, 5, 10, 20])
    assert loops["algorithm-3"].steps == steps([32, 40], range(1, 40))
    assert all(loop.sample == 3 and loop.seconds > 0 and loop.error > 0 for loop in loops.values())


def test_extrapolation_is_the_mean_step_times_the_steps(run, monkeypatch):
    """With steps that take 1, 2, 3, ... seconds by the clock, the mean of ten is 5.5."""
    now = itertools.count()
    ticks = (t for k in itertools.count(1) for t in (0.0, float((k - 1) % 10 + 1)))
    monkeypatch.setattr(protocol.time, "perf_counter", lambda: next(ticks))
    monkeypatch.setattr(protocol, "plain_step", lambda *a, **k: next(now))
    loop = cost.plain_loop(run[1], "hidden", sample=10, seed=0)["algorithm-1"]
    assert loop.seconds == pytest.approx(5.5 * loop.steps)
    assert loop.error == pytest.approx(np.std(range(1, 11), ddof=1) / np.sqrt(10) * loop.steps)


def test_runtime_table_compares_like_with_like():
    timing = protocol.Timing(144, 1024, 2.0, {f"algorithm-{k}": float(k) for k in range(1, 6)})
    loops = {f"algorithm-{k}": protocol.PlainLoop(1000.0 * k, 10.0, 7, 5) for k in (1, 2, 3)}
    table = cost.runtime_table(timing, loops)
    assert list(table.index) == [
        *(f"Algorithm {k}" for k in range(1, 6)),
        "all, one walk for 1 to 3",
        "1 to 3, one by one",
    ]
    assert (
        table.loc["all, one walk for 1 to 3", "here"] == "12 s"
        and table.loc["all, one walk for 1 to 3", "in forward passes"] == "6.00"
    )
    assert table.loc["Algorithm 3", "plain loop / here"] == "1,000"
    assert (
        table.loc["1 to 3, one by one", "plain loop / here"] == "1,000"
        and table.loc["Algorithm 4", "plain loop / here"] == "–"
    )
    # 24 + 37 + 1024 + 7 + 1 minutes, as printed.
    assert table.iloc[:, 0].loc["all, one walk for 1 to 3"] == "18 h 13 min"


def test_largest_difference():
    one = pd.DataFrame({"name": ["a", "b", "c"], "x": [1.0, np.nan, 0.0], "n": [3, 4, 5]})
    assert cost.largest_difference(one, one) == 0.0
    assert cost.largest_difference(one, one.assign(x=[1.25, np.nan, 0.0])) == pytest.approx(0.2)
    assert np.isnan(cost.largest_difference(one, one.assign(x=[1.0, 2.0, 0.0])))
    with pytest.raises(ValueError, match="differ in form"):
        cost.largest_difference(one, one.iloc[:2])


def test_memory_is_watched_while_it_is_held():
    """64 MiB that are filled, held for a moment and let go again are seen, to a page or so."""
    with memory.watched() as most:
        begin = most[0]
        with mmap.mmap(-1, 64 * 2**20) as block:  # pages of its own: none that the process had freed before
            for _ in range(64):
                block.write(bytes(2**20))
            time.sleep(0.1)
    assert 60 * 2**20 <= most[0] - begin <= 96 * 2**20


def test_peak_memory_of_a_process_of_its_own():
    found = cost.peak_memory("gpt2-shape", 48, algorithms=["algorithm-1"], layers=1)
    assert list(found.beyond) == ["capture", "algorithm-1"]
    assert found.loaded > 4 * 50257 * 768  # at least the float32 embeddings
    assert 0 <= found.most < found.loaded
    with pytest.raises(RuntimeError, match="ended with status"):
        cost.peak_memory("gpt2-shape", 4096, algorithms=[], layers=1)  # longer than the model's context


def test_growth_measures_every_length_and_every_number_of_heads():
    found = cost.growth([40, 32, 48], [2, 1])
    assert set(zip(found.length, found["heads"], strict=True)) == {(32, 1), (40, 1), (48, 1), (40, 2)}
    assert (found.groupby(["length", "heads"]).task.nunique() == len(scaling.TASKS)).all()
    assert (found.seconds > 0).all()
    with pytest.raises(ValueError, match=r"lengths are \[16\].* from 32 to"):
        cost.growth([16], [1])


def test_random_capture_has_one_layer_of_the_shape_of_gpt2():
    seen = scaling.random_capture(20, 3)
    assert seen.layers[0].q.shape == (3, 20, 64) and seen.layers[0].hidden.shape == (20, 768)
    assert seen.weights(0, 2).sum(dim=1).numpy() == pytest.approx(np.ones(20), abs=1e-6)


def test_bench_prints_the_table(capfd):
    assert main(["--length", "8", "--layers", "1", "--sample", "2"]) == 0
    said = capfd.readouterr().out
    for word in (
        "Processor: ",
        "torch ",
        "Forward pass with capture",
        "one walk",
        "one by one",
        "GiB with the model loaded",
    ):
        assert word in said


@pytest.mark.parametrize(
    "given", [["--length", "7"], ["--length", "2048"], ["--sample", "0"], ["--layers", "two"]]
)
def test_bench_refuses_numbers_that_mean_nothing(given, capfd):
    with pytest.raises(SystemExit):
        main(given)
    assert f"argument {given[0]}: '{given[1]}' is no whole number from " in capfd.readouterr().err


# --- models with random weights -------------------------------------------------------------------------------------


def test_untrained_models_have_their_sizes_and_depend_on_the_seed_alone():
    before = torch.get_rng_state()
    one, same, other = (controls.untrained("gpt2", seed, device="cpu", **SHAPE) for seed in (0, 0, 1))
    assert torch.equal(before, torch.get_rng_state())
    weights = [model.module.transformer.h[0].attn.c_attn.weight for model in (one, same, other)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    assert "random weights (seed 1)" in other.provenance.name
    large = controls.untrained("gpt2", 0, device="cpu").module
    assert sum(p.numel() for p in large.parameters()) == 124_439_808  # GPT-2 124M
    with pytest.raises(ValueError, match="shape is 'gtp2'; it must be one of gpt2, llama"):
        controls.untrained("gtp2", 0)


def test_an_untrained_llama_is_captured_with_shared_key_value_heads():
    small = {"num_hidden_layers": 1, "hidden_size": 48, "intermediate_size": 64, "vocab_size": 101}
    model = controls.untrained("llama", 0, device="cpu", **small)
    seen = capture.capture(model, torch.arange(12))
    assert seen.layers[0].q.shape == (12, 12, 4) and seen.layers[0].k.shape[0] == 4
