"""All heads at once: two maps side by side, of the class of each head and of a number that the reader picks, and the
heads in which a number is lowest and highest, in words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd

from .figures import MAX_ROWS, number
from .parts import check_columns


def lowest_and_highest(values: pd.Series) -> str:
    """Where ``values``, indexed by (layer, head), are lowest and highest, or that they are the same in every head."""
    if values.min() == values.max():
        return f"{number(values.min())} in every head"
    low, high = (
        f"layer {layer}, head {head} ({number(values[layer, head])})"
        for layer, head in (values.idxmin(), values.idxmax())
    )
    return f"lowest in {low} and highest in {high}"


def head_map(
    rows: pd.DataFrame, *, category: str, order: Sequence[str], numbers: Mapping[str, str], start: str
) -> alt.HConcatChart:
    """Left: layers x heads coloured by ``category`` (a click in the legend singles one out). Right: by a number.

    ``rows`` has one row per head with the columns ``layer``, ``head``, ``category`` and those of ``numbers`` (column ->
    its name with unit, for the drop-down list and the tooltips; missing values leave a gap). ``order`` lists the
    categories; ``start`` is the number shown first. Raises ValueError for missing columns, a category that is not in
    ``order``, heads that repeat, or more heads than a page may carry.
    """
    columns = ["layer", "head", category, *numbers]
    check_columns(rows, columns)
    if stray := sorted(set(rows[category]) - set(order)):
        raise ValueError(f"{category} has {stray}, which are not in {list(order)}")
    if start not in numbers:
        raise ValueError(f"start is {start!r}; it must be one of {list(numbers)}")
    if len(rows) > MAX_ROWS or rows.duplicated(["layer", "head"]).any():
        raise ValueError(f"{len(rows)} rows; wanted one for each head, at most {MAX_ROWS}")
    tooltip = [alt.Tooltip(f"{name}:O") for name in ("layer", "head")] + [alt.Tooltip(f"{category}:N")]
    tooltip += [alt.Tooltip(f"{name}:Q", title=title, format=".4g") for name, title in numbers.items()]
    place = {
        "x": alt.X("head:O", title="head", axis=alt.Axis(labelAngle=0)),
        "y": alt.Y("layer:O", title="layer"),
        "tooltip": tooltip,
    }
    size = {"width": 280, "height": max(200, min(420, 22 * rows["layer"].nunique()))}
    pick = alt.param(
        name="pick_number",
        value=start,
        bind=alt.binding_select(options=list(numbers), labels=list(numbers.values()), name="number "),
    )
    both = alt.hconcat(
        _classes(category, order, place, size),
        _picked(numbers, place, size),
        data=rows[columns],
        spacing=36,
    )
    return both.add_params(pick).resolve_scale(color="independent")


def _classes(category: str, order: Sequence[str], place: dict, size: dict) -> alt.Chart:
    focus = alt.selection_point(name="focus", fields=[category], bind="legend")
    colour = alt.Color(
        f"{category}:N", scale=alt.Scale(domain=list(order)), legend=alt.Legend(title=None, columns=2)
    )
    chart = alt.Chart().mark_rect().encode(color=colour, **place)
    chart = chart.encode(opacity=alt.condition(focus, alt.value(1), alt.value(0.15)))
    return chart.add_params(focus).properties(title=category, **size)


def _picked(titles: Mapping[str, str], place: dict, size: dict) -> alt.Chart:
    chart = alt.Chart().transform_calculate(picked_value="datum[pick_number]")
    chart = chart.transform_filter("isValid(datum.picked_value)").mark_rect()
    legend = alt.Legend(title=None, direction="horizontal", gradientLength=200)
    title = alt.Title(alt.expr(f"{json.dumps(dict(titles), ensure_ascii=False)}[pick_number]"))
    return chart.encode(color=alt.Color("picked_value:Q", legend=legend), **place).properties(
        title=title, **size
    )
