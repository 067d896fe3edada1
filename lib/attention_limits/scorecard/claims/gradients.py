"""Claims C10 to C12: how softmax moves with its logits."""

from __future__ import annotations

from attention_limits.scorecard import picks
from attention_limits.scorecard.claims.readings import SWEEP
from attention_limits.scorecard.score import Claim, Use

TENTH, LOWEST = {"start": "from T = 0.1"}, {"start": "from T = 0.01"}

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="C10",
        title="Lemma 2 bounds the Jacobian of a general normaliser",
        words="The norm of the Jacobian of the weights is bounded by the slope of F, the length of the weight "
        "vector and the sum of F.",
        uses=(Use("gradients", "lemma-2.violations", "unbroken"), Use("gradients", "lemma-2.tightness")),
        evidence=("lem-2",),
        limits="the form that is checked, for several F, is re-derived.",
    ),
    Claim(
        id="C11",
        title="The Jacobian of softmax has norm at most min{1/(4T), √2} (Corollary 3)",
        words="The spectral norm of the Jacobian of softmax is at most one over four times the temperature, and"
        " at most √2.",
        uses=(
            Use("gradients", "corollary-3.printed_violations", "unbroken"),
            Use("algorithm-5", "printed.violations", "unbroken"),
            Use("gradients", "corollary-3.counter_example"),
            Use("gradients", "corollary-3.corrected_violations", "unbroken", corrected=True),
            Use("gradients", "finite_difference.violations", "unbroken", corrected=True),
            Use("algorithm-5", "bound.violations", "unbroken", corrected=True),
        ),
        evidence=("cor-3-printed", "thm-3-corrected", "fig-gradients-norms", "fig-algorithm-5-temperature"),
        limits="1/(4T) bounds every entry of the Jacobian. The corrected bound of its norm is 1/(2T), which two "
        "weights of one half reach.",
    ),
    Claim(
        id="C12",
        title="g follows 1/T below T = 0.1 and falls by two orders of magnitude until T = 1",
        words="The largest head's finite difference g is proportional to 1/T for T below 0.1, and two orders of"
        " magnitude smaller at T = 1.",
        readings=(*SWEEP, "start"),
        uses=(
            Use("algorithm-5", "fit.exponent", "1/T", presence="reading"),
            Use("algorithm-5", "fall.from_tenth", "two orders", reading=TENTH, presence="optional"),
            Use(
                "algorithm-5",
                "fall.from_lowest",
                "two orders",
                derive=picks.from_hundredth,
                reading=LOWEST,
                presence="optional",
            ),
            Use("algorithm-5", "heads.exponent_median", presence="optional"),
            Use("algorithm-5", "shuffled.exponent", presence="optional"),
        ),
        evidence=("fig-algorithm-5-temperature", "fig-algorithm-5-heads", "fig-algorithm-5-control"),
        limits="the paper leaves open which T the fall starts from. Exactly 1/T falls by one order from 0.1 and "
        "by two from 0.01. Epsilon is the length of the step in the logits.",
    ),
)
