"""The measurements: every rule on the same logits of every head of one window, float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from attention_limits import kernels
from attention_limits.capture import SPACES, Capture
from attention_limits.measures.heads import TOLERANCE, Head, check_choice, check_numbers, heads, logit_blocks

from .jacobians import spectral_norms
from .rules import Normaliser

_TINY = 1e-300  # weights below are taken as this, so that their logarithm exists
STILL = 1e-3  # a row whose T |J|_2 is below does not react: a logit moved by T moves its weights by less than that


def compare(
    capture: Capture,
    rules: Sequence[Normaliser],
    *,
    lengths: Sequence[int],
    top_ns: Sequence[int],
    temperatures: Sequence[float],
    spaces: Sequence[str],
    stride: int,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """`scaling`, `separability` and `sensitivity` of one window; all parameters are checked before the first.

    N_s/N is measured on every second and the Jacobians on every fourth of the rows that ``stride`` keeps (the window's
    last row always among them where ``stride`` divides its length).
    """
    check_numbers("lengths", lengths, 2, capture.length, "tokens in the window")
    check_numbers("top_ns", top_ns, 1, capture.length - 1, "one token must stay unselected")
    check_choice("spaces", spaces, SPACES)
    _check_temperatures(temperatures)
    _check_stride(stride, min(lengths))
    second, fourth = (min(times * stride, capture.length) for times in (2, 4))
    return (
        scaling(capture, rules, lengths=lengths, top_ns=top_ns, stride=stride),
        separability(capture, rules, top_ns=top_ns, spaces=spaces, stride=second),
        sensitivity(capture, rules, temperatures=temperatures, stride=fourth),
    )


def scaling(
    capture: Capture,
    rules: Sequence[Normaliser],
    *,
    lengths: Sequence[int],
    top_ns: Sequence[int],
    stride: int = 1,
) -> pd.DataFrame:
    """Weights, support, entropy and mass on the top N of every head and rule at context lengths L, at T = 1.

    "At length L" means averaged over the measured rows with n in (L/2, L] keys; ``stride`` measures the last of every
    ``stride`` rows. Shares are of the row's total, which is below one for SA-Softmax only.

    Columns: layer, head, normaliser, length; ``keys`` and ``largest`` (geometric means of n and of the largest
    weight); ``entropy_share`` (entropy / log n, of the weights over their total); ``effective`` (exp entropy, tokens);
    ``support`` (weights above zero, tokens) and ``support_share`` (over n); ``total`` (sum of the weights); mass_N for
    each N of ``top_ns``; ``rows``; ``zeros``, rows with a weight of zero, which no C1 / L bounds from below;
    ``beyond``, rows whose largest weight is above 1 / (1 + (n - 1) exp(-R)), softmax's exact upper extreme at their
    spread R.

    Raises ValueError for a length or N outside its range, and where a stride leaves no row at a length.
    """
    lengths = check_numbers("lengths", lengths, 2, capture.length, "tokens in the window")
    top_ns = check_numbers("top_ns", top_ns, 1, lengths[-1], "tokens in the window")
    _check_stride(stride, lengths[0])
    table = []
    for head in heads(capture, lengths[-1]):
        for name, rows in _weight_values(head, rules, top_ns, stride).items():
            key = {"layer": head.layer, "head": head.head, "normaliser": name}
            table += [key | {"length": length} | _means(rows, length) for length in lengths]
    return pd.DataFrame(table)


def _weight_values(
    head: Head, rules: Sequence[Normaliser], top_ns: list[int], stride: int
) -> dict[str, dict[str, np.ndarray]]:
    """For each rule, what `scaling` averages: a name and one number per row with two or more keys."""
    parts: dict[str, list[dict[str, torch.Tensor]]] = {rule.name: [] for rule in rules}
    for visible, block in logit_blocks(head.source, head.head, head.length, stride):
        visible, logits = torch.as_tensor(visible), torch.as_tensor(block)[:, : int(visible[-1])]
        visible, logits = visible[visible > 1], logits[visible > 1]
        if not len(visible):
            continue
        hidden = torch.arange(logits.shape[1], device=logits.device) >= visible[:, None]
        # No rule changes the order of the logits, so the top N are the same tokens under each.
        top, order = logits.masked_fill(hidden, -torch.inf).topk(min(top_ns[-1], logits.shape[1]), dim=1)
        spread = top[:, 0] - logits.masked_fill(hidden, torch.inf).amin(1)
        for rule in rules:
            weights = rule.weights(logits, visible)
            found = _row_values(weights, visible, weights.gather(1, order).cumsum(1), top_ns)
            extreme = 1 / (1 + (visible - 1) * torch.exp(-spread))
            found["beyond"] = (found["largest"] > extreme * (1 + TOLERANCE)).double()
            parts[rule.name].append(found)
    return {
        name: {key: torch.cat([block[key] for block in blocks]).cpu().numpy() for key in blocks[0]}
        for name, blocks in parts.items()
    }


def _row_values(
    weights: torch.Tensor, visible: torch.Tensor, masses: torch.Tensor, top_ns: list[int]
) -> dict[str, torch.Tensor]:
    """Numbers of each row, (R,); ``masses``: (R, K) weight on the top 1, 2, ..., K tokens."""
    total = weights.sum(1)
    safe = total.clamp(min=_TINY)
    # -sum w log w / t + log t is the entropy of the weights w over their total t.
    entropy = (torch.special.entr(weights).sum(1) / safe + safe.log()).clamp(min=0)
    support = (weights > 0).sum(1)
    found = {
        "n": visible,
        "largest": weights.amax(1),
        "entropy_share": entropy / visible.double().log(),
        "effective": entropy.exp(),
        "support": support.double(),
        "support_share": support / visible,
        "total": total,
        "zeros": (support < visible).double(),
    }
    for top_n in top_ns:
        held = masses[:, min(top_n, masses.shape[1]) - 1]
        found[f"mass_{top_n}"] = held / safe
    return found


def _means(rows: dict[str, np.ndarray], length: int) -> dict[str, float]:
    """Averages over the rows with n in (length/2, length]; counts are summed."""
    kept = (rows["n"] > length // 2) & (rows["n"] <= length)
    part = {name: values[kept] for name, values in rows.items() if name != "n"}
    counts = {name: int(part.pop(name).sum()) for name in ("zeros", "beyond")}
    part["keys"] = rows["n"][kept]
    geometric = {
        name: float(np.exp(np.log(part.pop(name).clip(_TINY)).mean())) for name in ("keys", "largest")
    }
    means = {name: float(values.mean()) for name, values in part.items()}
    return geometric | means | {"rows": int(kept.sum())} | counts


def separability(
    capture: Capture,
    rules: Sequence[Normaliser],
    *,
    top_ns: Sequence[int],
    spaces: Sequence[str],
    stride: int = 1,
) -> pd.DataFrame:
    """N_s/N of every head and rule at T = 1, vectors scaled to length one, r as in Algorithm 4, causal support.

    Columns: layer, head, normaliser, space, top_n; means over the measured rows with n > N of N_s/N (``ratio``) and of
    N_s over the number of selected tokens with a weight above zero (``ratio_positive``); ``rows``.

    A selected token of weight zero is never told apart where an unselected one has weight zero too: both lie at
    distance |s| from s. So it does not matter which of the tokens of weight zero are selected.
    Raises ValueError for a space, N or stride outside its range.
    """
    check_choice("spaces", spaces, SPACES)
    top_ns = check_numbers("top_ns", top_ns, 1, capture.length - 1, "one token must stay unselected")
    if not 1 <= stride <= capture.length:
        raise ValueError(f"stride is {stride}; it must be from 1 to {capture.length}")
    table = []
    for head in heads(capture, capture.length, spaces, unit=True):
        sums: dict[tuple[str, str], torch.Tensor] = {}
        for visible, logits in logit_blocks(head.source, head.head, head.length, stride):
            visible, logits = torch.as_tensor(visible), torch.as_tensor(logits)
            for rule in rules:
                for space, told in _told_apart(rule, logits, visible, head.grams, top_ns).items():
                    key = (rule.name, space)
                    sums[key] = sums.get(key, 0) + told
        for (name, space), (ratio, positive, rows) in sums.items():
            for column, top_n in enumerate(top_ns):
                count = int(rows[column])
                if count:
                    key = {"layer": head.layer, "head": head.head, "normaliser": name, "space": space}
                    means = {
                        "ratio": float(ratio[column]) / count,
                        "ratio_positive": float(positive[column]) / count,
                    }
                    table.append(key | {"top_n": top_n} | means | {"rows": count})
    return pd.DataFrame(table)


def _told_apart(rule, logits, visible, grams, top_ns):
    """Per space, sums over the rows of a block for each N: N_s/N, N_s over the selected with weight, rows; (3, N's)."""
    weights = rule.weights(logits, visible)
    order = kernels.top_rows(weights, visible, top_ns[-1])
    wanted = torch.tensor(top_ns, device=logits.device)
    selected = torch.minimum((weights > 0).sum(1)[:, None], wanted).clamp(min=1)
    none = torch.zeros(1, len(visible), dtype=torch.int64, device=logits.device)
    found = {}
    for space, gram in grams.items():
        # Only N_s/N is used; the bounds beside it would need the gaps and the dimension.
        values, _ = kernels.geometry_rows(
            weights, visible, none, order, wanted, torch.as_tensor(gram), none.double(), 1, 1
        )
        ratio = values[0, 0]
        positive = ratio * wanted / selected
        kept = ~ratio.isnan()
        found[space] = torch.stack(
            [ratio.nan_to_num().sum(0), positive.nan_to_num().sum(0), kept.sum(0)]
        ).cpu()
    return found


def sensitivity(
    capture: Capture,
    rules: Sequence[Normaliser],
    *,
    temperatures: Sequence[float],
    stride: int = 1,
) -> pd.DataFrame:
    """The Jacobian's spectral norm |J|_2 of every head and rule at each temperature, over rows with two or more keys.

    Columns: layer, head, normaliser, temperature; ``spectral`` (mean of |J|_2, per unit of the logits); ``worst``
    (largest T |J|_2); ``above``, rows with |J|_2 beyond 1/(2T), softmax's bound; ``beyond``, rows with |J|_2 beyond
    c sqrt(n) |alpha|_2 max alpha, which is Lemma 2 for F = exp(c l), c = 1/T (for SSMax its own s log(n)/T);
    ``still``, rows with T |J|_2 below 0.001; ``rows``; ``residual``, the largest of the power iteration (SA-Softmax).
    Raises ValueError for a temperature that is not above zero or a stride outside its range.
    """
    _check_temperatures(temperatures)
    if not 1 <= stride <= capture.length:
        raise ValueError(f"stride is {stride}; it must be from 1 to {capture.length}")
    table = []
    for head in heads(capture, capture.length):
        seen = [(torch.as_tensor(n), torch.as_tensor(l)) for n, l in
                logit_blocks(head.source, head.head, head.length, stride)]  # fmt: skip
        visible, logits = (torch.cat(part) for part in zip(*seen, strict=True))
        visible, logits = visible[visible > 1], logits[visible > 1]
        for rule in rules:
            for temperature in temperatures:
                key = {"layer": head.layer, "head": head.head, "normaliser": rule.name}
                found = _norm_values(rule, logits, visible, temperature)
                table.append(key | {"temperature": temperature} | found)
    return pd.DataFrame(table)


def _norm_values(
    rule: Normaliser, logits: torch.Tensor, visible: torch.Tensor, temperature: float
) -> dict[str, float]:
    weights = rule.weights(logits, visible, temperature)
    norms, residual = spectral_norms(rule, logits, visible, temperature, weights)
    lemma_2 = rule.sharpness(visible, temperature) * visible.double().sqrt()
    lemma_2 = lemma_2 * torch.linalg.vector_norm(weights, dim=1) * weights.amax(1)
    slack = 1 + TOLERANCE
    return {
        "spectral": float(norms.mean()),
        "worst": float(norms.max()) * temperature,
        "above": int((norms > 0.5 / temperature * slack).sum()),
        "beyond": int((norms > lemma_2 * slack).sum()),
        "still": int((norms * temperature < STILL).sum()),
        "rows": len(visible),
        "residual": residual,
    }


def _check_stride(stride: int, shortest: int) -> None:
    """ValueError unless every range (L/2, L] has a row at this stride; ``shortest`` is the smallest L."""
    most = shortest - shortest // 2
    if not 1 <= stride <= most:
        raise ValueError(f"stride is {stride}; with the length {shortest} it must be from 1 to {most}")


def _check_temperatures(temperatures: Sequence[float]) -> None:
    if not temperatures or min(temperatures) <= 0:
        raise ValueError(f"temperatures are {list(temperatures)}; there must be one or more, all above zero")
