"""Geometric precision, recall and F against plain loops in extended precision, and recall against Theorem 2's N_s/N."""

import numpy as np
import pytest
import torch
from attention_limits import capture, measures
from test_capture import gpt2, llama, uneven_capture

SPACES = ["hidden", "embedding", "value"]
LENGTH = 30


@pytest.fixture(scope="module", params=[gpt2, llama], ids=["gpt2", "llama"])
def seen(request):
    return uneven_capture(request.param(), 8, LENGTH)


def brute_force(seen, space, top_n, layer, head, rows):
    """The definitions word by word, for each row: all distances to s, then counting.

    In extended precision, since a small weight moves a distance by less than float64 can hold beside |s|.
    """
    part = seen.layers[layer]
    x = seen.vectors(space, layer, head).numpy().astype(np.longdouble)
    q, k = (t.numpy().astype(np.longdouble) for t in (part.q[head], part.k[part.key_value_head(head)]))
    found = []
    for n in rows:
        if n <= top_n:
            continue
        logits = np.array([q[n - 1] @ k[i] for i in range(n)]) * part.scale
        weights = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        order = sorted(range(n), key=lambda i: (-weights[i], i))
        chosen, rest = order[:top_n], order[top_n:]
        s = sum(weights[j] * x[j] for j in chosen)
        away = [((weights[i] * x[i] - s) ** 2).sum() for i in range(n)]  # squared: the same order
        intruders = sum(away[i] <= max(away[j] for j in chosen) for i in rest)
        told = sum(away[j] < min(away[i] for i in rest) for j in chosen)
        precision, recall = top_n / (top_n + intruders), told / top_n
        f = 0.0 if recall == 0 else 2 / (1 / precision + 1 / recall)
        found.append([precision, recall, f, sum(weights[j] for j in chosen)])
    return np.mean(found, axis=0).astype(float), len(found)


@pytest.mark.parametrize("stride", [1, 4])
def test_retrieval_equals_brute_force(seen, stride):
    top_ns = [1, 3, 8, 29]
    found = measures.retrieval(seen, spaces=SPACES, top_ns=top_ns, stride=stride)
    counted = [n for n in top_ns if n < range(stride, LENGTH + 1, stride)[-1]]
    assert len(found) == 2 * 4 * len(SPACES) * len(counted)
    for row in found.to_dict("records"):
        key = {name: row[name] for name in ("space", "top_n", "layer", "head")}
        expected, count = brute_force(seen, **key, rows=range(stride, LENGTH + 1, stride))
        numbers = [row[name] for name in ("precision", "recall", "f", "mass")]
        np.testing.assert_allclose(numbers, expected, rtol=1e-9, err_msg=str(key))
        assert row["rows"] == count


def test_recall_of_unit_vectors_is_the_ratio_of_theorem_2(seen):
    key = ["layer", "head", "space", "top_n"]
    found = measures.retrieval(seen, spaces=SPACES, top_ns=[2, 4, 9], unit=True).set_index(key)
    ratios, _ = measures.separability(
        seen, spaces=SPACES, supports=["causal"], top_ns=[2, 4, 9], group=2, group_top_n=4
    )
    ratios = ratios.set_index(key).loc[found.index]
    assert found.recall.nunique() > 20
    np.testing.assert_allclose(found.recall, ratios.ratio, rtol=1e-12)


def test_one_key_that_has_all_the_weight_is_found_and_equal_tokens_are_not():
    """Vectors 1 and 2 are the same and weigh the same, of which one is selected; vector 0 outweighs them."""
    q = torch.ones(1, 4, 1)
    k = torch.tensor([[[3.0], [1.0], [1.0], [0.0]]])
    x = torch.tensor([[4.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 0.5]])
    layer = capture.Layer(q=q, k=k, v=x[None], hidden=x, scale=1.0)
    seen = capture.Capture(ids=torch.arange(4), embedding=x, layers=(layer,))
    found = measures.retrieval(seen, spaces=["value"], top_ns=[1, 2], stride=4).set_index("top_n")
    assert found.loc[1, ["precision", "recall", "f"]].tolist() == [1, 1, 1]
    # N = 2: token 1 is as far from s as the unselected token 2, so it is not closer; token 0 is.
    assert found.loc[2, ["precision", "recall"]].tolist() == pytest.approx([2 / 3, 1 / 2])
    assert found.loc[2, "f"] == pytest.approx(4 / 7)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"top_ns": [LENGTH]}, rf"top_ns are \[{LENGTH}\].* from 1 to {LENGTH - 1}"),
        ({"top_ns": [0]}, r"top_ns are \[0\]"),
        ({"stride": 0}, f"stride is 0; it must be from 1 to {LENGTH}"),
        ({"stride": LENGTH + 1}, f"stride is {LENGTH + 1}"),
        ({"spaces": ["values"]}, "spaces is .*values.*out of hidden, embedding, value"),
    ],
)
def test_senseless_arguments_are_refused(seen, changes, message):
    with pytest.raises(ValueError, match=message):
        measures.retrieval(seen, **{"spaces": ["value"], "top_ns": [2], **changes})
