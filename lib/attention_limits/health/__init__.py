"""The health of attention heads: numbers, a verdict by printed rules, and the paper's guidelines, for any model.

    from attention_limits import health
    report = health.check("auto", "auto")
    print(report)

``check`` also takes a model in the middle of its training with a tensor of token ids, and a handful of heads; see
:mod:`.numbers` for what is measured, :mod:`.rules` for the verdicts, :mod:`.report` for the JSON file.
"""

from .numbers import measure
from .report import NUMBERS, Report, load
from .rules import RULES, VERDICTS, verdict
from .run import check

__all__ = ["NUMBERS", "RULES", "VERDICTS", "Report", "check", "load", "measure", "verdict"]
