"""Charts that several chapters share: the map of all heads with the curves of one, and plain curves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from .figures import MAX_ROWS
from .parts import check_columns, drop_downs


def head_explorer(
    rows: pd.DataFrame,
    *,
    x: str,
    x_title: str,
    series: Mapping[str, str],
    y_title: str,
    map_value: str,
    map_title: str,
    bands: Mapping[str, tuple[str, str]] | None = None,
    pickers: Sequence[str] = ("space",),
    log_x: bool = False,
    log_y: bool = False,
) -> alt.HConcatChart:
    """A map of every head beside the curves of the head that is picked in it, by click or by drop-down list.

    ``rows`` is tidy, one row per layer, head, picker values and ``x``; it has the columns ``layer``,
    ``head``, those of ``pickers`` (one drop-down list each), ``x`` and every column named below. ``series``
    maps a column to the label of its curve, ``bands`` such a column to the columns of its interval (low,
    high). The map shows ``map_value`` at the largest ``x``. Titles carry the units. Raises ValueError that
    names missing columns, names that are not identifiers, several rows for one point, values a logarithmic
    axis cannot show, or too many rows.
    """
    bands = dict(bands or {})
    keys = ["layer", "head", *pickers, x]
    columns = list(dict.fromkeys([*keys, *series, *(c for pair in bands.values() for c in pair), map_value]))
    _check_rows(rows, columns, keys)
    if stray := sorted(set(bands) - set(series)):
        raise ValueError(f"bands for {stray}, which are not among the series {sorted(series)}")
    if log_y:
        _check_positive(rows, [*series, *(c for pair in bands.values() for c in pair)])
    rows = rows[columns]
    params, chosen = drop_downs(rows, {name: name.replace("_", " ") for name in pickers})
    height = max(250, min(400, 24 * rows["layer"].nunique()))
    heat = _map(chosen, _head_pick(rows), x, map_value, map_title).properties(width=230, height=height)
    lines = _lines(x, x_title, series, bands, y_title, sorted(rows[x].unique().tolist()), log_x, log_y)
    lines = lines.transform_filter(chosen).transform_filter(
        "datum.layer === pick_layer && datum.head === pick_head"
    )
    title = alt.Title(alt.expr("'Layer ' + pick_layer + ', head ' + pick_head"))
    lines = lines.properties(width=330, height=height, title=title)
    both = alt.hconcat(heat, lines, data=rows, spacing=36).add_params(*params)
    return both.resolve_scale(color="independent", strokeDash="independent")


def curves(
    rows: pd.DataFrame,
    x: str,
    y: str,
    colour: str,
    *,
    x_title: str,
    y_title: str,
    colour_title: str = "",
    band: tuple[str, str] | None = None,
    log_x: bool = False,
    log_y: bool = False,
) -> alt.LayerChart:
    """Lines of ``y`` against ``x``, one per value of ``colour``, with interval bands; a click in the legend
    singles one out.

    ``rows`` is tidy with one row per colour and x; ``band`` names its columns (low, high). Titles carry the
    units. Raises ValueError as :func:`head_explorer` does.
    """
    columns = list(dict.fromkeys([x, y, colour, *(band or ())]))
    _check_rows(rows, columns, [colour, x])
    if log_y:
        _check_positive(rows, [y, *(band or ())])
    rows = rows[columns]
    focus = alt.selection_point(name="focus", fields=[colour], bind="legend")
    legend = alt.Legend(title=colour_title or None)
    shade = alt.Color(f"{colour}:N", sort=None, legend=legend)
    base = alt.Chart(rows).encode(x=_x_axis(x, x_title, sorted(rows[x].unique().tolist()), log_x))
    y_axis = alt.Y(f"{y}:Q", title=y_title, scale=_scale(log_y))
    line = base.mark_line(point=True).encode(
        y=y_axis,
        color=shade,
        strokeDash=alt.StrokeDash(f"{colour}:N", sort=None, legend=legend),
        opacity=alt.condition(focus, alt.value(1), alt.value(0.15)),
        tooltip=columns,
    )
    layers = [line.add_params(focus)]
    if band:
        area = base.mark_area(opacity=0.2).encode(
            y=alt.Y(f"{band[0]}:Q", title=y_title, scale=_scale(log_y)),
            y2=band[1],
            color=shade,
            opacity=alt.condition(focus, alt.value(0.2), alt.value(0.03)),
        )
        layers.insert(0, area)
    return alt.LayerChart(layer=layers).properties(width=560, height=320)


def _check_rows(rows: pd.DataFrame, columns: Sequence[str], keys: Sequence[str]) -> None:
    """Raise ValueError for what would draw a wrong or an empty chart."""
    if odd := [name for name in columns if not name.isidentifier()]:
        raise ValueError(f"column names {odd}: use letters, digits and underscores")
    check_columns(rows, columns)
    if rows.empty:
        raise ValueError("rows are empty: there is nothing to draw")
    if len(rows) > MAX_ROWS:
        raise ValueError(
            f"{len(rows)} rows are more than the {MAX_ROWS} a page may carry: drop windows, lengths or spaces"
        )
    if rows.duplicated(list(keys)).any():
        raise ValueError(f"several rows share one point of {list(keys)}: average them or add a picker")


def _check_positive(rows: pd.DataFrame, columns: Sequence[str]) -> None:
    for name in columns:
        if (rows[name] <= 0).any():
            raise ValueError(
                f"column {name!r} has {rows[name].min()}: a logarithmic axis shows positive values only"
            )


def _head_pick(rows: pd.DataFrame) -> alt.Parameter:
    """The head that is picked, by a click or by a drop-down list each for layer and head; the first one at first."""
    values = {name: sorted(rows[name].unique().tolist()) for name in ("layer", "head")}
    return alt.selection_point(
        name="pick",
        fields=list(values),
        bind={  # type: ignore[arg-type]  # Altair takes a control for each field, its types do not say so
            name: alt.binding_select(options=options, name=name) for name, options in values.items()
        },
        on="click[event.item && event.item.datum && isValid(event.item.datum.head)]",
        clear=False,
        value=[{name: options[0] for name, options in values.items()}],
    )


def _map(chosen: str, pick: alt.Parameter, x: str, value: str, title: str) -> alt.LayerChart:
    """One cell per head, coloured by ``value`` at the largest ``x``; the picked cell is framed."""
    base = (
        alt.Chart()
        .transform_joinaggregate(largest=f"max({x})")
        .transform_filter(f"datum[{json.dumps(x)}] === datum.largest")
        .transform_filter(chosen)
        .encode(
            x=alt.X("head:O", title="head", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("layer:O", title="layer"),
            tooltip=["layer:O", "head:O", alt.Tooltip(f"{value}:Q", title=title, format=".4g")],
        )
    )
    legend = alt.Legend(orient="top", direction="horizontal", gradientLength=200, title=title)
    cells = base.mark_rect(cursor="pointer").encode(color=alt.Color(f"{value}:Q", legend=legend))
    picked = base.transform_filter("datum.layer === pick_layer && datum.head === pick_head")
    frames = [
        picked.mark_rect(fillOpacity=0, stroke=colour, strokeWidth=width, cursor="pointer")
        for colour, width in (("black", 5), ("white", 2))
    ]
    return alt.LayerChart(layer=[cells.add_params(pick), *frames])


def _lines(
    x: str,
    x_title: str,
    series: Mapping[str, str],
    bands: Mapping[str, tuple[str, str]],
    y_title: str,
    xs: Sequence[float],
    log_x: bool,
    log_y: bool,
) -> alt.LayerChart:
    """One line with points per series, its interval as a band; dashes repeat what the colours say."""
    legend = alt.Legend(orient="top", direction="vertical", columns=1, title=None, labelLimit=320)
    look: dict[str, Any] = {"scale": alt.Scale(domain=list(series.values())), "legend": legend}
    layers = []
    for column, label in series.items():
        base = alt.Chart().transform_calculate(curve_label=json.dumps(label))
        base = base.encode(x=_x_axis(x, x_title, xs, log_x), color=alt.Color("curve_label:N", **look))
        parts = [column, *bands.get(column, ())]
        y, *interval = (alt.Y(f"{part}:Q", title=y_title, scale=_scale(log_y)) for part in parts)
        if interval:
            layers.append(base.mark_area(opacity=0.22).encode(y=interval[0], y2=parts[2]))
        tooltip = [alt.Tooltip(f"{x}:Q", title=x_title)] + [
            alt.Tooltip(f"{part}:Q", title=name, format=".4g")
            for part, name in zip(parts, [label, "interval from", "interval to"], strict=False)
        ]
        line = base.encode(y=y, tooltip=tooltip)
        layers.append(line.mark_line().encode(strokeDash=alt.StrokeDash("curve_label:N", **look)))
        layers.append(line.mark_point(filled=True, size=45, opacity=1))
    return alt.LayerChart(layer=layers)


def _x_axis(x: str, title: str, xs: Sequence[float], log: bool) -> alt.X:
    """Axis with a tick at each measured value where these are few."""
    axis = alt.Axis(values=list(xs), format="~s" if max(xs) >= 1e5 else "") if len(xs) <= 10 else alt.Axis()
    return alt.X(f"{x}:Q", title=title, scale=_scale(log, base=2), axis=axis)


def _scale(log: bool, base: int = 10) -> alt.Scale:
    return alt.Scale(type="log", base=base, nice=False) if log else alt.Scale(zero=False)
