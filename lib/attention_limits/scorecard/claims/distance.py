"""Claims C1 to C6: how weights and distances change with the context and with the size of the selected set."""

from __future__ import annotations

from attention_limits.scorecard import picks
from attention_limits.scorecard.claims.readings import LEVELS, READING
from attention_limits.scorecard.score import Claim, Use

WEIGHTS = ("smallest", "median", "largest")

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="C1",
        title="Every weight of a row of L keys lies between C₁/L and C₂/L (Lemma 1, Corollary 1)",
        words="For a positive, continuous normaliser and bounded logits every weight lies between two constants"
        " over L; for softmax the constants are exp(±2D/T).",
        uses=(
            Use("vanishing", "lemma-1.violations", "unbroken"),
            Use("vanishing", "extremes.violations", "unbroken"),
            Use("weights", "bound.violations", "unbroken"),
            Use("weights", "bound.tightness"),
            Use("weights", "bound.corollary_log10"),
            Use("weights", "crossover.log10_over_context"),
        ),
        evidence=("lem-1", "cor-1", "fig-vanishing-extremes", "fig-weights-crossover"),
        limits="that a bound holds does not say that it is close. The lines without a rule say how close it is.",
    ),
    Claim(
        id="C2",
        title="Weights scale as O(1/L)",
        words="As the context grows, the weights of a head fall like one over its length.",
        readings=("weight",),
        uses=(
            *(
                Use("weights", f"exponent.{which}", "falls as 1/L", reading={"weight": f"{which} weight"})
                for which in WEIGHTS
            ),
            *(
                Use("weights", f"control.exponent.{which}", reading={"weight": f"{which} weight"})
                for which in WEIGHTS
            ),
        ),
        evidence=("fig-weights-exponents", "fig-weights-heads"),
        limits="the rate is one for L to infinity, and a power fitted through finite lengths says nothing about that"
        " limit. The reading is which weight of the row is meant.",
    ),
    Claim(
        id="C3",
        title="Theorem 1 bounds the distance d",
        words="The distance d between the selected tokens and all others is never above a bound made of the "
        "selected weight, the largest distance of a selected from an unselected vector, and the largest "
        "selected vector.",
        readings=READING,
        uses=(
            Use("theorem-1", "fixed-set.violations", "unbroken"),
            Use("algorithm-1", "bound.violations", "unbroken"),
            Use("algorithm-2", "bound.violations", "unbroken"),
            Use("algorithm-1", "bound.tightness"),
        ),
        evidence=("thm-1-fixed", "fig-algorithm-1-heads", "fig-algorithm-2-heads"),
        limits="the form that is checked is re-derived.",
    ),
    Claim(
        id="C4",
        title="d grows in a straight line with L while N is small",
        words="With N = 5 the distance grows linearly with the length of the context.",
        readings=READING,
        uses=(
            Use("algorithm-1", "growth.r2", "straight line", derive=picks.lengths_from(4)),
            Use("algorithm-1", "growth.lowest_r2"),
            Use("algorithm-1", "growth.slope"),
            Use("algorithm-1", "growth.count_share"),
            Use("algorithm-1", "growth.mean_d_start"),
            Use("algorithm-1", "growth.mean_d_end"),
        ),
        evidence=("prop-sandwich", "fig-algorithm-1-heads", "fig-algorithm-1-mean-distance"),
        limits="d is a sum over the unselected tokens. What d/(n-N) does not grow by is the growth of their number.",
    ),
    Claim(
        id="C5",
        title="d has a plateau past N = 20 and collapses as N comes near L",
        words="The distance changes little between N = 20 and 100, and falls towards zero as nearly all tokens "
        "are selected.",
        readings=READING,
        uses=(
            Use("algorithm-2", "plateau.d_ratio", "plateau", derive=picks.from_twenty, presence="reading"),
            Use("algorithm-2", "collapse.d_ratio", "collapse", derive=picks.from_twenty, presence="reading"),
            Use("algorithm-2", "plateau.mean_distance_ratio", derive=picks.from_twenty),
            Use("algorithm-2", "plateau.terms_ratio", derive=picks.from_twenty),
            Use("algorithm-2", "collapse.mean_distance_ratio", derive=picks.from_twenty),
            Use("algorithm-2", "collapse.terms_ratio", derive=picks.from_twenty),
        ),
        evidence=("cor-2", "fig-algorithm-2-heads", "fig-algorithm-2-collapse"),
        limits="a sum with few terms left is small whatever the terms. The ratio of d/(n-N) says whether the "
        "separation collapses too.",
    ),
    Claim(
        id="C6",
        title="The critical N is about 0.06 L and grows slower than L",
        words="The first N at which a two-sample Kolmogorov-Smirnov test cannot tell the heads' mean d from "
        "that of random sets is about 0.06 L, and grows sub-linearly with L.",
        readings=LEVELS,
        uses=(
            Use(
                "algorithm-3",
                "combined.lengths",
                "found",
                "share of the lengths with a critical N",
                picks.found_share,
            ),
            Use("algorithm-3", "combined.share", "about 0.06 L", presence="optional"),
            Use("algorithm-3", "combined.exponent", "below linear", bound="high", presence="optional"),
            Use("algorithm-3", "claimed.ratio"),
        ),
        evidence=("fig-algorithm-3-critical", "fig-algorithm-3-ks", "fig-algorithm-3-heads"),
        limits="the random-set value is the re-derived E_J; with another formula the critical N would be "
        "another.",
    ),
)
