"""Watches the tensors that a piece of code makes."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class LargestTensor(TorchDispatchMode):
    """Within ``with LargestTensor() as watch:``, ``watch.entries`` is the size of the largest tensor made so far."""

    entries = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for part in out if isinstance(out, tuple | list) else [out]:
            if isinstance(part, torch.Tensor):
                self.entries = max(self.entries, part.numel())
        return out
