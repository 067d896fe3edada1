"""The kernels as PyTorch operations on all rows of a block at once, for accelerators; they run on any device.

A walk down the sorted weights is a Python loop over N whose steps take in one token of every row; what a row does not
see is masked. Nothing is moved to another device, and no value is read back while the loop runs.
"""

from .distance import distance_rows
from .geometry import geometry_rows
from .rows import gradient_rows, top_rows, weight_rows
from .softmax import moved_rows, softmax_rows

__all__ = [
    "distance_rows",
    "geometry_rows",
    "gradient_rows",
    "moved_rows",
    "softmax_rows",
    "top_rows",
    "weight_rows",
]
