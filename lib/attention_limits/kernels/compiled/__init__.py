"""The kernels as compiled loops over NumPy arrays, for the CPU: one row at a time, on the thread that calls.

They hold no lock of Python's while they run, so that several heads are worked on at once (`measures.heads.each_head`).
"""

from .distance import distance_rows
from .geometry import geometry_rows
from .gradients import gradient_rows
from .softmax import moved_rows, softmax_rows
from .top import top_rows
from .weights import weight_rows

__all__ = [
    "distance_rows",
    "geometry_rows",
    "gradient_rows",
    "moved_rows",
    "softmax_rows",
    "top_rows",
    "weight_rows",
]
