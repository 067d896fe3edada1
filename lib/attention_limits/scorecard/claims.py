"""The paper's claims C1 to C14 in our words, and which recorded numbers judge each by which rule."""

from __future__ import annotations

from attention_limits.scorecard import picks
from attention_limits.scorecard.score import Claim, Use

READING = ("space", "support")
LEVELS = (*READING, "level")
SWEEP = ("logits", "epsilon")
WEIGHTS = ("smallest", "median", "largest")
SPHERE, MODEL = {"vectors": "random on the sphere"}, {"vectors": "model"}
OBSERVED = {"radius": "r from the data"}
TENTH, LOWEST = {"start": "from T = 0.1"}, {"start": "from T = 0.01"}
LOWER, UPPER = "means below the lower bound for fixed r", "means above the upper bound for fixed r"

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
    Claim(
        id="C13",
        title="Other normalisers each relax one of the limits",
        words="Sparsemax and entmax, Scalable-Softmax and Self-Adjust Softmax each ease one of softmax's "
        "limits.",
        readings=("normaliser", "selection"),
        uses=(
            Use(
                "normalisers",
                "relaxed.limits",
                "relaxes one",
                derive=picks.at_sixteen_and_a_tenth,
                presence="reading",
            ),
            Use("normalisers", "worse.limits", derive=picks.at_sixteen_and_a_tenth, presence="optional"),
            Use("normalisers", "length.exponent_gain", presence="optional"),
            Use("normalisers", "geometry.gain"),
            Use("normalisers", "gradient.ratio"),
        ),
        evidence=(
            "thm-normaliser-extremes",
            "thm-normaliser-jacobians",
            "fig-normalisers-heads",
            "fig-normalisers-geometry",
            "fig-normalisers-norms",
        ),
        limits="each rule is put in softmax's place on the logits of a model trained with softmax, and nothing is "
        "trained again: this measures the rule, not a model. The limits are length (power of L of the largest weight), "
        "geometry (N_s/N at N = 16) and gradient (norm of the Jacobian at T = 0.1). A gradient that vanishes, which "
        "Self-Adjust Softmax was made for, is not one of them.",
    ),
    Claim(
        id="C14",
        title="Keep the active set sub-linear, watch entropy and N_s/N, avoid T below 0.1",
        words="Three guidelines: let the number of attended tokens grow slower than L; monitor entropy and the "
        "share told apart; keep the temperature above 0.1.",
        readings=("guideline", *LEVELS, *SWEEP),
        uses=(
            Use(
                "algorithm-3",
                "combined.lengths",
                "found",
                "share of the lengths with a critical N",
                picks.found_share,
                reading={"guideline": "active set"},
            ),
            Use(
                "algorithm-3",
                "combined.exponent",
                "below linear",
                bound="high",
                reading={"guideline": "active set"},
                presence="optional",
            ),
            Use(
                "algorithm-5",
                "fall.from_lowest",
                "one order",
                derive=picks.from_hundredth,
                reading={"guideline": "temperature"},
                presence="optional",
            ),
            Use("health", "guideline.top_k", reading={"guideline": "active set"}),
            Use("health", "guideline.growth", reading={"guideline": "active set"}),
            Use("health", "heads.saturated", reading={"guideline": "entropy and N_s/N"}),
            Use("health", "heads.diffuse", reading={"guideline": "entropy and N_s/N"}),
            Use("health", "guideline.sharp", reading={"guideline": "temperature"}),
            Use("selection", "trend.grows", reading={"guideline": "active set"}),
            Use("selection", "trend.falls", reading={"guideline": "active set"}),
        ),
        evidence=(
            "fig-algorithm-3-critical",
            "fig-algorithm-5-temperature",
            "fig-health-map",
            "fig-selection-size",
        ),
        limits="judged is whether the measurements that the guidelines rest on were reproduced, not whether "
        "following them makes a better model.",
        missing="whether watching entropy and N_s/N tells when a model goes wrong; that needs training.",
    ),
)
