"""The selection on a circle (the paper's Figure 1), and curves with drop-down lists."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from .figures import MAX_ROWS
from .parts import check_columns, drop_downs

_FEW = 20  # values of x, up to which each has a mark

# The paper's definitions as Vega expressions, in order; what _SUMS has is summed over the row just before its use.
_KINDS = ["selected, told apart", "selected, not told apart", "not selected"]
_STEPS = {
    "e": "exp(datum.logit / temperature)",
    "weight": "datum.e / datum.total",
    "selected": "datum.rank <= number",
    "y1": "datum.weight * datum.x1",
    "y2": "datum.weight * datum.x2",
    "p1": "datum.selected ? datum.y1 : 0",
    "p2": "datum.selected ? datum.y2 : 0",
    "distance": "hypot(datum.y1 - datum.s1, datum.y2 - datum.s2)",
    "free": "datum.selected ? 1e9 : datum.distance",
    "apart": "datum.selected && datum.distance < datum.r ? 1 : 0",
    "token": f"!datum.selected ? '{_KINDS[2]}' : datum.apart ? '{_KINDS[0]}' : '{_KINDS[1]}'",
}
_SUMS: dict[str, dict[str, Any]] = {
    "weight": {"total": "sum(e)"},
    "distance": {"s1": "sum(p1)", "s2": "sum(p2)"},
    "apart": {"r": "min(free)"},
}


def selection_circle(
    points: pd.DataFrame, *, temperature: float = 1.0, number: int = 4, zoom: float = 1.0
) -> alt.LayerChart:
    """Tokens on the unit circle, shrunk by their softmax weights, with the ball around the sum of the top N.

    ``points`` has one row per token of every layout: ``layout`` (1, 2, ...), ``rank`` (1 = largest logit, all
    different), ``logit`` (float), ``x1`` and ``x2`` (float, on the circle of radius one). The reader moves
    temperature, N, zoom and layout; ``temperature``, ``number`` and ``zoom`` are where they start. Raises
    ValueError that names missing columns.
    """
    check_columns(points, ("layout", "rank", "logit", "x1", "x2"), "points")
    most = int(points.groupby("layout").size().min()) - 1  # one token at least stays unselected
    sliders = [
        _slider("temperature", temperature, 0.1, 4, 0.1, "temperature T "),
        _slider("number", number, 1, most, 1, "selected N "),
        _slider("zoom", zoom, 1, 12, 0.5, "zoom "),
        _slider("layout", 1, 1, int(points["layout"].max()), 1, "layout "),
    ]
    base = _prepared(alt.Chart(points))
    one = base.transform_filter("datum.rank == 1")  # one row that knows s and r
    edge = one.transform_calculate(angle="sequence(0, 6.35, 0.05)").transform_flatten(["angle"])
    edge = edge.transform_calculate(
        b1="datum.s1 + datum.r * cos(datum.angle)", b2="datum.s2 + datum.r * sin(datum.angle)"
    )
    note = one.transform_calculate(text="'told apart: ' + datum.told + ' of ' + number")
    layers = [
        edge.mark_line(strokeWidth=1.5, clip=True).encode(**_plane("b1", "b2"), order="angle:Q"),
        base.mark_point(filled=False, size=25, opacity=0.75, clip=True).encode(
            **_plane("x1", "x2"), color=_kind()
        ),
        base.mark_point(filled=True, size=90, opacity=0.9, clip=True).encode(
            **_plane("y1", "y2"), color=_kind(), shape=_kind(alt.Shape), tooltip=_tooltip()
        ),
        one.mark_point(shape="cross", size=160, filled=True, clip=True).encode(**_plane("s1", "s2")),
        note.mark_text(align="left", fontSize=14).encode(x=alt.value(8), y=alt.value(14), text="text:N"),
    ]
    return alt.LayerChart(layer=layers).add_params(*sliders).properties(height=420)


def picked_curves(
    rows: pd.DataFrame,
    *,
    x: str,
    x_title: str,
    curves: Sequence[str],
    y_title: str,
    pickers: Mapping[str, str],
    start: Mapping[str, object] | None = None,
    log_x: bool = False,
    log_y: bool = False,
    y_domain: tuple[float, float] | None = None,
) -> alt.LayerChart:
    """One line per column in ``curves`` (its name is its label) against ``x``, for the values that the reader picks.

    ``rows`` is wide: one row per combination of ``pickers`` (column -> label of its drop-down list, which
    offers the column's values; it starts at ``start[column]`` or the first) and ``x``. Missing values leave a
    gap; with ``y_domain`` a line is cut at its ends. Where the values of ``x`` are few, marks tell what was
    computed from the line between. Titles carry the units. Raises ValueError for missing columns, repeated
    points, or more rows than a page may carry.
    """
    columns = [*pickers, x, *curves]
    check_columns(rows, columns)
    if len(rows) > MAX_ROWS or rows.duplicated([*pickers, x]).any():
        points = f"at most {MAX_ROWS}, one for each value of {[*pickers, x]}"
        raise ValueError(
            f"{len(rows)} rows, of which {rows[[*pickers, x]].duplicated().sum()} repeat: wanted {points}"
        )
    params, chosen = drop_downs(rows, {name: f"{label} " for name, label in pickers.items()}, start)
    look: dict[str, Any] = {
        "scale": alt.Scale(domain=list(curves)),
        "legend": alt.Legend(title=None, columns=3),
    }
    y_scale: dict[str, Any] = {"type": "log"} if log_y else {}
    if y_domain:
        y_scale |= {"domain": list(y_domain), "clamp": True}
    chart = _folded(rows[columns], curves, chosen)
    chart = chart.mark_line(point=rows[x].nunique() <= _FEW).encode(
        x=alt.X(
            f"{x}:Q",
            title=x_title,
            axis=alt.Axis(format="~s") if rows[x].max() >= 1e5 else alt.Axis(),
            scale=alt.Scale(type="log", nice=False) if log_x else alt.Scale(zero=False),
        ),
        y=alt.Y("value:Q", title=y_title, scale=alt.Scale(**y_scale)),
        color=alt.Color("curve:N", **look),
        strokeDash=alt.StrokeDash("curve:N", **look),
        tooltip=[
            "curve:N",
            *(alt.Tooltip(f"{c}:Q", title=t, format=".4g") for c, t in ((x, x_title), ("value", y_title))),
        ],
    )
    return alt.LayerChart(layer=[chart]).add_params(*params).properties(height=340)


def _folded(rows: pd.DataFrame, curves: Sequence[str], chosen: str) -> alt.Chart:
    """The ``chosen`` rows, each as one of ``curve`` and ``value`` for every column in ``curves`` that has a number."""
    # Vega reads "level 0.01" as a path into an object, so such a column goes by another name in the data.
    fields = {name: re.sub(r"[.\[\]\\'\"]", "_", name) for name in curves}
    labels = json.dumps({field: name for name, field in fields.items()})
    chart = alt.Chart(rows.rename(columns=fields)).transform_filter(chosen)
    chart = chart.transform_fold(list(fields.values()), as_=["field", "value"])
    return chart.transform_filter("isValid(datum.value)").transform_calculate(curve=f"{labels}[datum.field]")


def _slider(name: str, value: float, low: float, high: float, step: float, label: str) -> alt.Parameter:
    return alt.param(name=name, value=value, bind=alt.binding_range(min=low, max=high, step=step, name=label))


def _prepared(chart: alt.Chart) -> alt.Chart:
    chart = chart.transform_filter("datum.layout == layout")
    for name, formula in _STEPS.items():
        if name in _SUMS:
            chart = chart.transform_joinaggregate(**_SUMS[name])
        chart = chart.transform_calculate(**{name: formula})
    return chart.transform_joinaggregate(told="sum(apart)")


def _plane(one: str, two: str) -> dict[str, alt.X | alt.Y]:
    """Both coordinates, one unit as long across as up whatever the shape of the panel, so that a ball is round."""
    reach = {"x": "1.1 * max(1, width / height) / zoom", "y": "1.1 * max(1, height / width) / zoom"}
    scale = {
        axis: alt.Scale(domainMin=alt.expr(f"-{far}"), domainMax=alt.expr(far), nice=False, zero=False)
        for axis, far in reach.items()
    }
    return {
        "x": alt.X(f"{one}:Q", title="first coordinate (M = 1)", scale=scale["x"]),
        "y": alt.Y(f"{two}:Q", title="second coordinate (M = 1)", scale=scale["y"]),
    }


def _kind(channel: type[alt.Color] | type[alt.Shape] = alt.Color) -> alt.Color | alt.Shape:
    return channel("token:N", sort=_KINDS, scale=alt.Scale(domain=_KINDS), legend=alt.Legend(title=None))


def _tooltip() -> list[alt.Tooltip]:
    numbers = {"weight": "weight", "distance": "distance from s", "r": "radius r"}
    return [alt.Tooltip("rank:O", title="rank"), alt.Tooltip("token:N")] + [
        alt.Tooltip(f"{column}:Q", title=title, format=".4f") for column, title in numbers.items()
    ]
