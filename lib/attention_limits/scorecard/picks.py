"""What claims take from a record: ratios, shares and parts of curves, in the record's own format.

Each gets the results of one id and the parameters of the run, and returns the results to judge: none where the
settings of the run are too small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attention_limits.scorecard.score import Parameters, Results


def lengths_from(least: int) -> Callable[[Results, Parameters], Results]:
    """The results, unless they come from fewer than ``least`` lengths: few points look like any curve."""
    return lambda results, parameters: results if len(set(parameters["lengths"])) >= least else []


def found_share(results: Results, parameters: Parameters) -> Results:
    """Share of the lengths with a critical N; none for fewer than three lengths, which give no exponent."""
    return [{**r, "value": r["value"] / r["n"]} for r in lengths_from(3)(results, parameters)]


def from_twenty(results: Results, parameters: Parameters) -> Results:
    """Ratios from N = 20, where the paper's plateau starts, to the nearest recorded N of twice that or more."""
    kept = [r for r in results if r["reading"]["from_n"] == 20 and r["reading"]["to_n"] >= 40]
    return [r for r in kept if r["reading"]["to_n"] == min(k["reading"]["to_n"] for k in kept)]


def past_sixteen(results: Results, parameters: Parameters) -> Results:
    """Points of a curve from N = 16 on, where there is more than one."""
    kept = [r for r in results if r["reading"]["top_n"] >= 16]
    return kept if len({r["reading"]["top_n"] for r in kept}) > 1 else []


def fall(results: Results, parameters: Parameters) -> Results:
    """Value of a curve at N = 16 over its value at the smallest N below, for each space and support."""
    curves: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    for r in results:
        curves.setdefault((r["reading"]["space"], r["reading"]["support"]), {})[r["reading"]["top_n"]] = r
    return [
        {**curve[16], "value": curve[16]["value"] / curve[min(curve)]["value"], "low": None, "high": None}
        for curve in curves.values()
        if 16 in curve and min(curve) < 16 and curve[min(curve)]["value"] > 0
    ]


def of_three(results: Results, parameters: Parameters) -> Results:
    """Coverage by groups of three heads, the paper's number."""
    return [r for r in results if r["reading"]["heads"] == 3]


def from_hundredth(results: Results, parameters: Parameters) -> Results:
    """Falls of g that start at T = 0.01, where the paper's sweep starts, or below."""
    return results if min(parameters["temperatures"]) <= 0.01 else []


def at_sixteen_and_a_tenth(results: Results, parameters: Parameters) -> Results:
    """What was judged at N = 16 and T = 0.1, the settings that the thresholds are argued for."""
    return [r for r in results if (r["reading"]["top_n"], r["reading"]["temperature"]) == (16, 0.1)]
