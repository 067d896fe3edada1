"""What the measurements cost: time against the paper's table, a plain loop and the forward pass; growth; memory."""

from .memory import peak_memory
from .protocol import ALGORITHMS, plain_loop, plain_step, run_protocol
from .report import largest_difference, runtime_table
from .scaling import growth

__all__ = [
    "ALGORITHMS",
    "growth",
    "largest_difference",
    "peak_memory",
    "plain_loop",
    "plain_step",
    "run_protocol",
    "runtime_table",
]
