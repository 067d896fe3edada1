"""Claims C7 to C9: which selected tokens can be told apart."""

from __future__ import annotations

from attention_limits.scorecard import picks
from attention_limits.scorecard.claims.readings import READING
from attention_limits.scorecard.score import Claim, Use

SPHERE, MODEL = {"vectors": "random on the sphere"}, {"vectors": "model"}
OBSERVED = {"radius": "r from the data"}
LOWER, UPPER = "means below the lower bound for fixed r", "means above the upper bound for fixed r"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="C7",
        title="Theorem 2 bounds how many selected tokens can be told apart",
        words="The expected share of selected tokens that lie within r of their sum, while no other token does,"
        " lies between a lower and an upper bound.",
        readings=("radius", "vectors", *READING),
        uses=(
            Use("theorem-2", "fixed_r.violations", "unbroken", reading=SPHERE | {"radius": "r fixed"}),
            Use("theorem-2", "data_r.sure_violations", "unbroken", reading=SPHERE | OBSERVED),
            Use("theorem-2", "data_r.broken.lower.markov", "unbroken", LOWER, reading=SPHERE | OBSERVED),
            Use("theorem-2", "data_r.broken.upper.mcdiarmid", "unbroken", UPPER, reading=SPHERE | OBSERVED),
            Use("algorithm-4", "bound.violations", "unbroken", reading=MODEL | OBSERVED),
            Use(
                "algorithm-4",
                "bound.sharp_broken",
                "unbroken",
                f"{LOWER}, heads x N",
                reading=MODEL | OBSERVED,
            ),
            Use(
                "algorithm-4",
                "bound.upper_broken",
                "unbroken",
                f"{UPPER}, heads x N",
                reading=MODEL | OBSERVED,
            ),
            Use(
                "theorem-2",
                "looseness.lower.markov",
                meaning="mean distance of the lower bound from the share",
            ),
            Use(
                "theorem-2",
                "looseness.upper.mcdiarmid",
                meaning="mean distance of the upper bound from the share",
            ),
            Use("theorem-2", "fixed_r.variant_violations"),
        ),
        evidence=(
            "thm-2-lower",
            "thm-2-upper",
            "prop-variant",
            "fig-theorem-2-bounds",
            "fig-algorithm-4-boxes",
        ),
        limits="the bounds (re-derived) are proved for independent vectors and an r fixed before they are drawn."
        " The experiments compute r from the same vectors, and a model's vectors depend on each other: "
        "there only the sure lower bound is a theorem. The invalid Hoeffding form has no part in the "
        "verdict.",
    ),
    Claim(
        id="C8",
        title="The share told apart falls until N = 16, then settles between 0.70 and 0.85",
        words="N_s/N falls as N grows to 16 and then saturates between 70 and 85 per cent.",
        readings=READING,
        uses=(
            Use(
                "algorithm-4",
                "ratio.median",
                "falls",
                "median over heads of N_s/N at N = 16, over its value at the smallest N",
                derive=picks.fall,
                presence="reading",
            ),
            Use(
                "algorithm-4",
                "ratio.median",
                "0.70 to 0.85",
                "median over heads of N_s/N, each N from 16",
                derive=picks.past_sixteen,
                presence="reading",
            ),
            Use("algorithm-4", "shape.plateau"),
            Use("algorithm-4", "shape.plateau_q25"),
            Use("algorithm-4", "shape.plateau_q75"),
            Use("algorithm-4", "shape.inside"),
            Use("algorithm-4", "random.plateau"),
        ),
        evidence=(
            "fig-algorithm-4-boxes",
            "fig-algorithm-4-heads",
            "fig-algorithm-4-controls",
            "fig-models-numbers",
        ),
        limits="vectors are scaled to length one. The control with random directions shows what the weights and "
        "the dimension alone give.",
    ),
    Claim(
        id="C9",
        title="Three heads together tell 99 % of the tokens apart",
        words="If each of three heads tells 80 per cent apart, together they cover 99 per cent.",
        readings=("tokens", *READING),
        uses=(
            Use(
                "algorithm-4",
                "coverage.union",
                "99 %",
                derive=picks.of_three,
                reading={"tokens": "selected by a head"},
            ),
            Use(
                "algorithm-4",
                "coverage.shared",
                "99 %",
                derive=picks.of_three,
                reading={"tokens": "selected by all"},
            ),
            Use("algorithm-4", "coverage.one_head"),
            Use("algorithm-4", "coverage.independent"),
            Use("algorithm-4", "coverage.gap"),
            Use("theorem-2", "coverage.independent"),
        ),
        evidence=("prop-coverage", "fig-algorithm-4-coverage"),
        limits="the arithmetic is right for independent heads; what is judged is what heads of a model cover.",
    ),
)
