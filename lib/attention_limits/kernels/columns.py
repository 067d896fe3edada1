"""Which columns a row sees."""

from __future__ import annotations

import torch


def columns_seen(rows: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
    """(R, L) bool for ``rows`` of that shape: whether row r sees column i, that is i < ``visible[r]``."""
    return torch.arange(rows.shape[1], device=rows.device) < visible[:, None]
