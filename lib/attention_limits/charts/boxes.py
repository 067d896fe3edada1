"""Box plots over heads, drawn from their five numbers instead of from every head's value."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from .parts import check_columns, drop_downs

BOX = ("low", "q25", "median", "q75", "high")


def boxes(
    rows: pd.DataFrame,
    *,
    x: str,
    x_title: str,
    y_title: str,
    label: str,
    pickers: Mapping[str, str],
    lines: Sequence[str] = (),
) -> alt.LayerChart:
    """One box per value of ``x`` (whiskers low to high, bar q25 to q75, mark at the median), with curves over it.

    ``rows`` is wide: one row per combination of ``pickers`` (column -> label of its drop-down list) and ``x``, with the
    columns low, q25, median, q75, high (see :func:`attention_limits.statistics.box_numbers`) and those of ``lines``,
    whose names are their labels; missing values leave a gap. ``label`` says in the legend what a box is. Values of
    ``x`` are spaced evenly, in order. Raises ValueError for missing columns or repeated points.
    """
    columns = [*pickers, x, *BOX, *lines]
    check_columns(rows, columns)
    if repeated := int(rows.duplicated([*pickers, x]).sum()):
        raise ValueError(f"{repeated} rows repeat; wanted one for each value of {[*pickers, x]}")
    params, chosen = drop_downs(rows, {name: f"{title} " for name, title in pickers.items()})
    base = alt.Chart(rows[columns]).transform_filter(chosen)
    place = alt.X(f"{x}:O", title=x_title, axis=alt.Axis(labelAngle=0))
    look: dict[str, Any] = {
        "scale": alt.Scale(domain=[label, *lines]),
        "legend": alt.Legend(title=None, columns=2, labelLimit=320),
    }
    tooltip = [alt.Tooltip(f"{x}:O", title=x_title)]
    tooltip += [alt.Tooltip(f"{name}:Q", format=".4g") for name in BOX]
    box = base.transform_calculate(curve=json.dumps(label))
    box = box.encode(x=place, color=alt.Color("curve:N", **look), tooltip=tooltip)
    layers = [
        box.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q", title=y_title), y2="high:Q"),
        box.mark_bar(size=18, opacity=0.45).encode(y=alt.Y("q25:Q", title=y_title), y2="q75:Q"),
        box.mark_tick(size=24, thickness=3, orient="horizontal").encode(y=alt.Y("median:Q", title=y_title)),
    ]
    if lines:
        folded = base.transform_fold(list(lines), as_=["curve", "value"]).transform_filter(
            "isValid(datum.value)"
        )
        layers.append(
            folded.mark_line(point=True).encode(
                x=place,
                y=alt.Y("value:Q", title=y_title),
                color=alt.Color("curve:N", **look),
                strokeDash=alt.StrokeDash("curve:N", **look),
                tooltip=["curve:N", tooltip[0], alt.Tooltip("value:Q", title=y_title, format=".4g")],
            )
        )
    return alt.LayerChart(layer=layers).add_params(*params).properties(width=560, height=320)
