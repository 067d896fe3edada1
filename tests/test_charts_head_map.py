"""The map of verdicts: every head in its colour, the picked number beside it, and what is refused."""

import re

import numpy as np
import pandas as pd
import pytest
import vl_convert
from attention_limits import charts
from attention_limits.charts.head_map import head_map

ORDER = ["selective", "saturated", "diffuse", "sink"]


def rows():
    table = pd.DataFrame(
        [(layer, head) for layer in range(2) for head in range(3)], columns=["layer", "head"]
    )
    table["verdict"] = ["sink", "sink", "selective", "diffuse", "selective", "sink"]
    return table.assign(first=np.arange(6) / 10, critical=[1.0, None, 3.0, None, None, 6.0])


def draw(table, **changes):
    given = {"category": "verdict", "order": ORDER, "start": "first"}
    given["numbers"] = {"first": "weight on the first token", "critical": "critical N"}
    return head_map(table, **{**given, **changes})


def cells(svg):
    """(layer, head, verdict, first) of each drawn cell, in drawing order."""
    return re.findall(
        r'aria-label="head: (\d); layer: (\d)[^"]*verdict: (\w+)[^"]*weight on the first token: ([\d.]+)', svg
    )


def test_both_maps_draw_every_head():
    svg = vl_convert.vegalite_to_svg(draw(rows()).to_dict())
    drawn = [(int(l), int(h), v, float(f)) for h, l, v, f in cells(svg)]
    table = rows()
    assert drawn == 2 * list(zip(table.layer, table["head"], table.verdict, table["first"], strict=True))


def test_equal_verdicts_have_equal_colours_and_others_do_not():
    svg = vl_convert.vegalite_to_svg(draw(rows()).to_dict())
    colours = re.findall(r'aria-label="head: \d; layer: \d[^"]*verdict: (\w+)[^>]*fill="([^"]+)"', svg)[:6]
    assert len(set(colours)) == len({verdict for verdict, _ in colours}) == len({c for _, c in colours}) == 3


def test_the_list_picks_the_number_and_missing_values_leave_gaps():
    spec = draw(rows(), start="critical").to_dict()
    pick = next(p for p in spec["params"] if p["name"] == "pick_number")
    assert pick["bind"]["options"] == ["first", "critical"]
    assert pick["bind"]["labels"] == ["weight on the first token", "critical N"]
    svg = vl_convert.vegalite_to_svg(spec)
    assert len(cells(svg)) == 6 + 3
    assert ">critical N<" in svg


def test_it_is_a_figure_of_the_book():
    made = charts.figure(draw(rows()), name="fig-page-map", caption="Most are sinks.", alt="A map.")
    assert 'id="fig-page-map"' in made.to_html()


@pytest.mark.parametrize(
    ("table", "changes", "message"),
    [
        (rows().drop(columns="first"), {}, r"no column .'first'"),
        (rows().assign(verdict="fine"), {}, r"verdict has .'fine'., which are not in"),
        (rows(), {"start": "entropy"}, "start is 'entropy'; it must be one of"),
        (pd.concat([rows(), rows()]), {}, "12 rows; wanted one for each head"),
    ],
)
def test_says_what_is_wrong(table, changes, message):
    with pytest.raises(ValueError, match=message):
        draw(table, **changes)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0.5, 0.25, 1.0], "lowest in layer 0, head 1 (0.250) and highest in layer 2, head 0 (1.00)"),
        ([0.5, 0.5, 0.5], "0.500 in every head"),
    ],
)
def test_the_lowest_and_the_highest_head_in_words(values, words):
    heads = pd.MultiIndex.from_tuples([(0, 0), (0, 1), (2, 0)], names=["layer", "head"])
    assert charts.lowest_and_highest(pd.Series(values, heads)) == words
