"""J_ij = d alpha_i / d l_j of every rule at one row, and its exact spectral norm.

All of the five but SA-Softmax have J = c (diag(g) - g g^T / sum g) with g >= 0 and c > 0: g = alpha for softmax
(c = 1/T) and SSMax (c = s log(n)/T), g = 1 on the support for sparsemax and g = sqrt(alpha) for 1.5-entmax (c = 1/T).
With p = g / sum g that is c sum(g) (diag(p) - p p^T): softmax's own Jacobian at the weights p, whose norm is known
exactly.
"""

from __future__ import annotations

import numpy as np
import torch

from attention_limits import kernels
from attention_limits.kernels import columns_seen

from .rules import KINDS, Normaliser, factors, span

RESIDUAL = 1e-7  # where the Lanczos iteration stops: |J^T J v - t v| <= RESIDUAL * t for a unit vector v
FLOOR = 1e-9  # norms below this share of the largest d_i of `_corrections` are rounding of what cancels there
_STEPS = 80


def jacobian(rule: Normaliser, logits: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """J of one row, (n, n) float64, by the formulas of Theorem thm-normaliser-jacobians. logits: (n,) float64.

    At a kink (a key on the edge of the support, two largest or smallest logits, an extreme logit of zero under
    SA-Softmax) it is the derivative of one side. A rule without a formula of its own is differentiated by autograd.
    """
    visible = torch.tensor([len(logits)], device=logits.device)
    if rule.kind == "SA-Softmax":
        diagonal, columns, rows = (part[0] for part in _corrections(logits[None], visible, temperature))
        return torch.diag(diagonal) - columns.T @ rows
    slopes = KINDS[rule.kind].slopes
    if slopes is None:

        def weights(l: torch.Tensor) -> torch.Tensor:
            return rule.weights(l[None], visible, temperature)[0]

        return torch.autograd.functional.jacobian(weights, logits)
    g = slopes(rule.weights(logits[None], visible, temperature))[0]
    return rule.sharpness(visible, temperature) * (torch.diag(g) - torch.outer(g, g) / g.sum())


def spectral_norms(
    rule: Normaliser,
    logits: torch.Tensor,
    visible: torch.Tensor,
    temperature: float = 1.0,
    weights: torch.Tensor | None = None,
) -> tuple[torch.Tensor, float]:
    """|J|_2 of every row, (R,) float64, and the largest relative residual of an iteration (0 where there is none).

    Theorem thm-normaliser-jacobians (b). ``weights`` are the rule's own at these logits, where they are known already.

    Exact to rounding for all rules but SA-Softmax. There the largest eigenvalue of J^T J is found by Lanczos' iteration
    from a fixed start, until the relative residual is `RESIDUAL` or 80 steps are done: some singular value lies within
    half of the residual, relative. Norms below 1e-9 of the largest d_i (`_corrections`) are only known to be so small.
    For a rule without a formula the singular values of every row's Jacobian are computed, which takes long.
    """
    if rule.kind == "SA-Softmax":
        hidden = ~columns_seen(logits, visible)
        drawn = np.random.default_rng(0).standard_normal(logits.shape[1])  # the same at every call
        start = torch.from_numpy(drawn).to(logits.device).expand(logits.shape).masked_fill(hidden, 0.0)
        norms, residuals = _largest_singular_value(*_corrections(logits, visible, temperature), start)
        return norms, float(residuals.max())
    slopes = KINDS[rule.kind].slopes
    if slopes is None:
        rows = zip(logits, visible.tolist(), strict=True)
        dense = [torch.linalg.matrix_norm(jacobian(rule, row[:n], temperature), 2) for row, n in rows]
        return torch.stack(dense), 0.0
    g = slopes(rule.weights(logits, visible, temperature) if weights is None else weights)
    total = g.sum(1, keepdim=True)
    if rule.kind == "sparsemax":  # p is uniform: the norm of softmax's Jacobian is 1 / support there
        norms = (total[:, 0] > 1).double()
    else:
        norms = kernels.gradient_rows(g / total, visible)[0] * total[:, 0]
    return norms * rule.sharpness(visible, temperature), 0.0


def _corrections(
    logits: torch.Tensor, visible: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """J of SA-Softmax as diag(d) - sum_k u_k v_k^T: d (R, L), u and v (R, 2, L).

    With a = softmax(l/T), f the factor and D its denominator: d = a f / T + a / D, u_1 = a f, v_1 = a / T + e_max / D,
    u_2 = a (1 - f) / D, v_2 = e_min. e_max is left out where no logit is above zero, e_min where none is below, since
    the factor's ends are zero there.
    """
    hidden = ~columns_seen(logits, visible)
    low, high = span(logits, hidden)
    per_width = torch.where(high > low, 1 / (high - low), 0.0)
    f = factors(logits, hidden)
    softmax = Normaliser("softmax").weights(logits, visible, temperature)
    largest, smallest = torch.zeros_like(logits), torch.zeros_like(logits)
    largest.scatter_(1, _place(logits, hidden), (high > 0).to(logits))
    smallest.scatter_(1, _place(-logits, hidden), (low < 0).to(logits))
    u = torch.stack([softmax * f, softmax * (1 - f) * per_width], 1)
    v = torch.stack([softmax / temperature + largest * per_width, smallest], 1)
    return softmax * (f / temperature + per_width), u, v


def _place(logits: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    """Position of the largest visible logit of each row, (R, 1)."""
    return logits.masked_fill(hidden, -torch.inf).argmax(1, keepdim=True)


def _largest_singular_value(
    diagonal: torch.Tensor, u: torch.Tensor, v: torch.Tensor, start: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Largest singular value of J = diag(d) - sum_k u_k v_k^T for every row, and the relative residual it was left at.

    Lanczos' iteration on J^T J, all rows at once; ``start``: (R, L). Every new vector is made orthogonal to all earlier
    ones, twice, since one pass leaves rounding that grows. A row whose vectors are exhausted goes on with zeros.
    """
    rows, length = start.shape
    basis = start.new_empty(rows, _STEPS + 1, length)
    basis[:, 0] = start / torch.linalg.vector_norm(start, dim=1, keepdim=True)
    small = start.new_zeros(rows, _STEPS, _STEPS)  # J^T J in that basis, tridiagonal
    for k in range(_STEPS):
        image = _times(diagonal, v, u, _times(diagonal, u, v, basis[:, k]))
        small[:, k, k] = (image * basis[:, k]).sum(1)
        seen = basis[:, : k + 1]
        for _ in range(2):
            image = image - ((seen @ image[:, :, None]).mT @ seen)[:, 0]
        beta = torch.linalg.vector_norm(image, dim=1)
        beta = beta.where(beta > 1e-14 * small[:, : k + 1].amax((1, 2)), 0.0)
        if k % 4 == 3 or k + 1 == _STEPS:
            values, vectors = torch.linalg.eigh(small[:, : k + 1, : k + 1])
            square, residual = values[:, -1].clamp(min=0), beta * vectors[:, -1, -1].abs()
            relative = residual / torch.maximum(square, (FLOOR * diagonal.amax(1)) ** 2)
            if (relative <= RESIDUAL).all():
                break
        if k + 1 < _STEPS:
            small[:, k, k + 1] = small[:, k + 1, k] = beta
        basis[:, k + 1] = torch.where(beta > 0, 1 / beta, 0.0)[:, None] * image
    return square.sqrt(), relative


def _times(d: torch.Tensor, left: torch.Tensor, right: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """(diag(d) - sum_k left_k right_k^T) x on every row."""
    return d * x - ((right @ x[:, :, None]).mT @ left)[:, 0]
