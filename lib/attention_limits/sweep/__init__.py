"""Sweeps: the chapters again for each row of a table of models, texts and lengths, and all results in one table.

:mod:`.table` reads and checks the table, the Snakefile makes its rows into jobs, :mod:`.results` gathers what
they recorded. Importing this package loads neither torch nor pandas.
"""

from .headlines import HEADLINES, headlines
from .results import Job, Watch, collect, gather, load
from .table import CHAPTERS, SHORTEST, Cell, SweepError, determined, from_yaml, grid, read, settings

__all__ = [
    "CHAPTERS",
    "HEADLINES",
    "SHORTEST",
    "Cell",
    "Job",
    "SweepError",
    "Watch",
    "collect",
    "determined",
    "from_yaml",
    "gather",
    "grid",
    "headlines",
    "load",
    "read",
    "settings",
]
