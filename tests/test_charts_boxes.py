"""Box plots draw the five numbers of the picked reading, and the five numbers are those of NumPy."""

import re

import numpy as np
import pandas as pd
import pytest
import vl_convert
from attention_limits.charts import boxes
from attention_limits.statistics import box_numbers


def rows():
    return pd.DataFrame(
        [
            {"space": space, "n": n, "low": 0.1 + shift, "q25": 0.2, "median": 0.3 + n / 100, "q75": 0.4,
             "high": 0.5, "a bound": 0.9 if n < 4 else None}
            for space, shift in (("hidden", 0), ("value", 0.05))
            for n in (1, 2, 4)
        ]
    )  # fmt: skip


def draw(table, **changes):
    given = {"x": "n", "x_title": "N", "y_title": "share", "label": "heads", "pickers": {"space": "space"}}
    return boxes(table, **{**given, "lines": ["a bound"], **changes}).to_dict()


def test_draws_a_box_per_x_of_the_first_reading_and_cuts_the_line_at_a_gap():
    svg = vl_convert.vegalite_to_svg(draw(rows()))
    whiskers = re.findall(r"N: (\d); share: ([\d.]+); high: ([\d.]+); curve: heads", svg)
    assert whiskers == [("1", "0.1", "0.5"), ("2", "0.1", "0.5"), ("4", "0.1", "0.5")]
    bars = re.findall(r"N: (\d); share: ([\d.]+); q75: ([\d.]+); curve: heads", svg)
    assert bars == [("1", "0.2", "0.4"), ("2", "0.2", "0.4"), ("4", "0.2", "0.4")]
    marks = re.findall(r"N: (\d); share: ([\d.]+); curve: heads", svg)
    assert marks == [("1", "0.31"), ("2", "0.32"), ("4", "0.34")]
    assert set(re.findall(r"N: (\d); share: 0.9; curve: a bound", svg)) == {"1", "2"}


def test_offers_every_reading():
    assert draw(rows())["params"][0]["bind"]["options"] == ["hidden", "value"]


def test_says_what_is_wrong():
    with pytest.raises(ValueError, match=r"no column .'q75'"):
        draw(rows().drop(columns="q75"))
    with pytest.raises(ValueError, match="3 rows repeat"):
        draw(pd.concat([rows(), rows().head(3)]))


def test_box_numbers_are_quantiles_of_each_group():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"space": ["b"] * 40 + ["a"] * 25, "ratio": rng.standard_normal(65)})
    found = box_numbers(table, ["space"], "ratio")
    assert found.space.tolist() == ["b", "a"]  # order of appearance
    for space, line in found.set_index("space").iterrows():
        expected = np.quantile(table.ratio[table.space == space], [0.05, 0.25, 0.5, 0.75, 0.95])
        np.testing.assert_allclose(line.to_numpy(dtype=float), expected)


def test_without_curves_there_are_boxes_alone():
    chart = draw(rows(), lines=())
    assert [layer["mark"]["type"] for layer in chart["layer"]] == ["rule", "bar", "tick"]
    assert chart["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["heads"]
