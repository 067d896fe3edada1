"""Claims C13 and C14: other normalisers, and guidelines."""

from __future__ import annotations

from attention_limits.scorecard import picks
from attention_limits.scorecard.claims.readings import LEVELS, SWEEP
from attention_limits.scorecard.score import Claim, Use

CLAIMS: tuple[Claim, ...] = (
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
        limits="each rule is put in softmax's place on the logits of a model made for softmax, and nothing is "
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
