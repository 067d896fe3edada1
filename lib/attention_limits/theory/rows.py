"""What every statement of the theory assumes about one row: checked in one place, with one wording."""

from __future__ import annotations

import numpy as np

__all__ = ["positive", "top_set", "weights_row"]


def weights_row(weights: np.ndarray) -> np.ndarray:
    """Return the weights of one row as a float64 array (n,).

    Raises ValueError unless they are a non-empty one-dimensional array of finite numbers >= 0. Their sum is
    not looked at: selected weights alone sum to less than one, and so do some normalisers.
    """
    row = np.asarray(weights, dtype=np.float64)
    if row.ndim != 1 or row.size == 0:
        raise ValueError(f"weights: wanted the weights of one row, shape (n,), got shape {row.shape}")
    if not np.all(np.isfinite(row)) or row.min() < 0:
        raise ValueError(f"weights: wanted finite numbers >= 0, got values from {row.min()} to {row.max()}")
    return row


def positive(name: str, value: float) -> float:
    """Return ``value`` as a float; raise ValueError that names it unless it is finite and > 0."""
    value = float(value)
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name} = {value}: wanted a finite number > 0")
    return value


def top_set(weights: np.ndarray, count: int) -> np.ndarray:
    """Positions of the ``count`` largest weights, largest first; of equal weights the lower position comes
    first.

    Shape (count,), int64. Raises ValueError unless 1 <= count <= n.
    """
    row = weights_row(weights)
    if not 1 <= count <= row.size:
        raise ValueError(
            f"count = {count}: a row of {row.size} weights has top sets of 1 to {row.size} positions"
        )
    return np.argsort(-row, kind="stable")[:count]
