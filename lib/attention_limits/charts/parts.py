"""What several charts are made of: the check of their columns, and drop-down lists."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import altair as alt
import pandas as pd


def check_columns(rows: pd.DataFrame, columns: Iterable[str], name: str = "rows") -> None:
    """Raise ValueError that names the columns which ``rows``, called ``name``, lacks."""
    if missing := [column for column in columns if column not in rows.columns]:
        raise ValueError(f"{name} have no column {missing}; they have {list(rows.columns)}")


def drop_downs(
    rows: pd.DataFrame, labels: Mapping[str, str], start: Mapping[str, Any] | None = None
) -> tuple[list[alt.Parameter], str]:
    """A list of the values of each column in ``labels``, and the Vega expression for the rows that are picked.

    A list begins at ``start[column]``, or else at the column's first value.
    """
    params = []
    for name, label in labels.items():
        options = rows[name].drop_duplicates().tolist()
        bind = alt.binding_select(options=options, name=label)
        params.append(alt.param(name=f"pick_{name}", value=(start or {}).get(name, options[0]), bind=bind))
    chosen = [f"datum[{json.dumps(name)}] === pick_{name}" for name in labels]
    return params, " && ".join(chosen) or "true"
