"""Compiled loops over the rows of one attention head.

Every row is worked on in float64 and on its own, so the result does not depend on how rows are split over threads or
blocks. Shapes: R rows of one head, L tokens in the window, K the largest N. ``visible[r]`` is the number of keys that
row r sees; its weights are zero from there on. ``gram`` is x_i.x_j for all tokens, (L, L). Nothing holds more than one
head.
"""

from .distance import distance_rows
from .geometry import geometry_rows
from .gradients import gradient_rows, moved_rows
from .rows import softmax_rows, top_rows
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
