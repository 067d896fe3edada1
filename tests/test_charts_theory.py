"""The theory charts compute in the browser what the library computes: rendered with Vega and read back."""

import html
import re

import numpy as np
import pandas as pd
import pytest
import vl_convert
from attention_limits.charts.theory import picked_curves, selection_circle
from attention_limits.theory import geometry
from scipy.special import softmax


def layouts(count=2, tokens=9):
    rng = np.random.default_rng(5)
    parts = []
    for layout in range(1, count + 1):
        logit = rng.standard_normal(tokens) * 2
        x = geometry.sample_sphere(rng, (tokens,), 2)
        rank = np.argsort(np.argsort(-logit)) + 1
        parts.append(
            pd.DataFrame({"layout": layout, "rank": rank, "logit": logit, "x1": x[:, 0], "x2": x[:, 1]})
        )
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize("temperature, number", [(1.0, 1), (1.0, 4), (0.3, 4), (4.0, 8), (0.1, 3), (2.0, 6)])
def test_circle_tells_apart_what_the_library_tells_apart(temperature, number):
    points = layouts()
    svg = vl_convert.vegalite_to_svg(
        selection_circle(points, temperature=temperature, number=number).to_dict()
    )
    shown = re.search(r"told apart: (\d+) of (\d+)", svg)
    first = points[points.layout == 1]
    expected = geometry.distinguish(softmax(first.logit / temperature), first[["x1", "x2"]], number)
    assert (int(shown[1]), int(shown[2])) == (expected.count, number)


def test_circle_says_which_column_is_missing():
    with pytest.raises(ValueError, match="logit"):
        selection_circle(layouts().drop(columns="logit"))


def rows():
    return pd.DataFrame(
        [
            {"n": n, "t": t, "low bound": n / t, "value": None if t == 2 else n * t}
            for n in (2, 3)
            for t in (1, 2, 4)
        ]
    )


def test_picked_curves_draw_the_chosen_rows_and_leave_gaps():
    chart = picked_curves(
        rows(),
        x="t",
        x_title="T",
        curves=["low bound", "value"],
        y_title="y",
        pickers={"n": "keys"},
        start={"n": 3},
    )
    svg = vl_convert.vegalite_to_svg(chart.to_dict())
    paths = re.findall(
        r'aria-label="T: 1; y: 3; curve: (low bound|value)"[^>]*"line mark"[^>]* d="([^"]*)"', svg
    )
    # at n = 3 both curves start at y = 3; the second has two points, because its middle one is missing
    assert [(name, len(re.findall("[ML]", path))) for name, path in paths] == [("low bound", 3), ("value", 2)]
    assert chart.to_dict()["params"][0]["bind"]["options"] == [2, 3]


def test_picked_curves_draw_names_that_vega_would_take_for_paths():
    names = ["level 0.01", "q[0]", 'a "b"']
    table = rows().assign(**{name: place for place, name in enumerate(names, start=1)})
    chart = picked_curves(table, x="t", x_title="T", curves=names, y_title="y", pickers={"n": "keys"})
    svg = vl_convert.vegalite_to_svg(chart.to_dict())
    drawn = re.findall(
        r'aria-label="T: 1; y: (\d); curve: ([^>]*?)" role="graphics-symbol"[^>]*"line mark"', svg
    )
    assert [(y, html.unescape(name)) for y, name in drawn] == [
        ("1", names[0]),
        ("2", names[1]),
        ("3", names[2]),
    ]


@pytest.mark.parametrize("steps, marks", [(5, 5), (20, 20), (100, 0)])
def test_picked_curves_mark_what_was_computed_where_that_is_little(steps, marks):
    table = pd.DataFrame({"t": range(steps), "n": 1, "y": 1.0})
    chart = picked_curves(table, x="t", x_title="T", curves=["y"], y_title="y", pickers={"n": "keys"})
    drawn = vl_convert.vegalite_to_svg(chart.to_dict())
    assert (
        len(
            re.findall(
                r'aria-label="T: \d+; y: 1; curve: y" role="graphics-symbol" aria-roledescription="point"',
                drawn,
            )
        )
        == marks
    )


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda r: r.drop(columns="value"), "no column"),
        (lambda r: pd.concat([r, r]), "one for each value"),
    ],
)
def test_picked_curves_say_what_is_wrong(change, words):
    with pytest.raises(ValueError, match=words):
        picked_curves(
            change(rows()),
            x="t",
            x_title="T",
            curves=["low bound", "value"],
            y_title="y",
            pickers={"n": "keys"},
        )


def test_picked_curves_are_cut_at_the_ends_of_the_domain():
    chart = picked_curves(
        rows(),
        x="t",
        x_title="T",
        curves=["low bound"],
        y_title="y",
        pickers={"n": "keys"},
        log_y=True,
        y_domain=(1, 1.5),
    )
    scale = chart.to_dict()["layer"][0]["encoding"]["y"]["scale"]
    assert scale == {"type": "log", "domain": [1, 1.5], "clamp": True}
