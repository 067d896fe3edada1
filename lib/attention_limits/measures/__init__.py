"""What the paper's algorithms count on a captured model, for every head and every token.

Each function takes one :class:`~attention_limits.capture.Capture` (one window of text) and returns a tidy
:class:`pandas.DataFrame`: a row per layer, head and reading, its numbers averaged over the tokens of the window. All
of it is float64 from the captured float32 queries, keys and vectors on, save the square roots of the distances, so
block sizes and threads do not show.
"""

from .distance import distances
from .geometry import separability
from .gradients import sensitivity
from .heads import SUPPORTS, TOLERANCE, logit_blocks, step_beyond
from .retrieval import retrieval
from .weights import weight_scaling

__all__ = [
    "SUPPORTS",
    "TOLERANCE",
    "distances",
    "logit_blocks",
    "retrieval",
    "sensitivity",
    "separability",
    "step_beyond",
    "weight_scaling",
]
