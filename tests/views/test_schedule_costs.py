"""Cost curves and traffic: their numbers, their text, and a figure that plotly takes."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import UsageError
from labkit.plain import from_plain, to_plain
from labkit.schedule import ALGORITHMS, Link, crossover, predict, traffic
from labkit.views import to_html, to_rich, to_text
from labkit.views._plotly import MIME
from labkit.views.costs import CostCurves, cost_curves, figure
from labkit.views.costs_figure import LOOKS, byte_ticks, time_ticks
from labkit.views.schedule_style import contrast
from labkit.views.traffic import traffic_matrix

LINK = Link.of(latency_us=50, gb_per_s=1)
SIZES = [2.0**power for power in range(10, 25, 2)]


def measured(*names: str, factor: float = 1.0) -> dict[str, dict[float, list[float]]]:
    def runs(name: str, size: float) -> list[float]:
        seconds = predict(name, 4, size, LINK).seconds * factor
        return [seconds * 0.9, seconds, seconds * 1.4]

    return {name: {size: runs(name, size) for size in SIZES} for name in names}


def both() -> CostCurves:
    return cost_curves(4, measured("ring", "recursive-doubling"), LINK)


def test_a_point_is_the_median_and_the_spread() -> None:
    point = both().points[0]
    assert (point.name, point.num_bytes, point.num_runs) == ("ring", 1024, 3)
    assert point.low_s < point.median_s < point.high_s
    assert point.median_s == pytest.approx(predict("ring", 4, 1024, LINK).seconds)


def test_crossings_predicted_and_measured_agree_where_the_model_is_right() -> None:
    model, seen = both().crossings
    assert (model.one, model.other, model.how, seen.how) == ("recursive-doubling", "ring", "model", "measured")
    assert model.num_bytes == crossover("recursive-doubling", "ring", 4, LINK)
    assert seen.num_bytes == pytest.approx(model.num_bytes, rel=0.3)
    assert seen.seconds == pytest.approx(model.seconds, rel=0.3)


def test_noise_crosses_often_and_is_told_once() -> None:
    runs = measured("ring", "recursive-doubling")
    for place, size in enumerate(SIZES[3:6]):
        runs["ring"][size] = [seconds * (1.6 if place % 2 else 0.6) for seconds in runs["recursive-doubling"][size]]
    (seen,) = (each for each in cost_curves(4, runs, LINK).crossings if each.how == "measured")
    assert (seen.one, seen.other) == ("recursive-doubling", "ring")
    assert SIZES[2] < seen.num_bytes < SIZES[6]


def test_the_title_is_as_wide_as_a_narrow_notebook() -> None:
    curves = cost_curves(4, measured("ring", "recursive-doubling"), LINK, title="a title of many words " * 4)
    title = to_rich(curves)[MIME]["layout"]["title"]["text"]
    lines = [re.sub("<[^>]+>", "", line) for line in title.split("<br>")]
    assert max(map(len, lines)) <= 48
    assert lines[-2:] == ["from 391 KiB on ring is cheaper (model)", "from 443 KiB on ring is cheaper (measured)"]


def test_of_more_than_two_one_is_the_cheapest() -> None:
    curves = cost_curves(8, link=Link.of(5, 10), algorithms=["ring", "recursive-doubling", "naive"])
    assert "ring is the cheapest (model)" in to_rich(curves)[MIME]["layout"]["title"]["text"]


@pytest.mark.parametrize("page", ["#ffffff", "#111111"])
def test_lines_are_seen_on_light_and_dark_pages(page: str) -> None:
    made = to_rich(both())[MIME]
    drawn = [each["line"]["color"] for each in made["data"] if each["mode"] == "lines"]
    assert len(drawn) == 2
    for color in (*drawn, *(look[0] for look in LOOKS), made["layout"]["xaxis"]["linecolor"], made["layout"]["font"]["color"]):
        assert contrast(color, page) >= 3
    assert all(each.get("opacity", 1) == 1 for each in made["data"])


def test_text_has_a_row_per_size_and_the_crossings() -> None:
    lines = to_text(both()).splitlines()
    assert lines[0] == "time by size on 4 ranks"
    assert len(lines) == 1 + 2 * (1 + len(SIZES)) + 1 + 2
    assert lines[2] == "1 KiB       302 µs (271 µs to 422 µs)       302 µs"
    assert lines[4 + len(SIZES)] == "1 KiB        102 µs (92 µs to 143 µs)                     102 µs"
    assert lines[-2] == "from 391 KiB on ring is cheaper than recursive-doubling (model)"
    assert lines[-1].endswith("(measured)")


def test_a_library_has_points_and_no_line() -> None:
    curves = cost_curves(4, {**measured("ring"), "dist.all_reduce": {1024: 1e-4}}, LINK)
    assert curves.names == ("ring", "dist.all_reduce")
    assert [line.name for line in curves.lines] == ["ring"]
    assert "100 µs" in to_text(curves)
    assert "  -" in to_text(curves)
    assert curves.crossings == ()


def test_lines_alone() -> None:
    curves = cost_curves(8, link=Link.of(5, 10), algorithms=["ring", "recursive-doubling"])
    assert curves.points == ()
    assert to_text(curves).count("iB") >= 5


def test_points_alone_need_no_link() -> None:
    curves = cost_curves(4, measured("ring"))
    assert curves.lines == ()
    assert "no algorithm overtakes" not in to_text(curves)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "nothing to draw"), ({"link": LINK}, "nothing to draw"), ({"measured": {"ring": {1024: []}}}, "no time"),
        ({"measured": {"ring": {1024: [0.0]}}}, "can't be 0.0"), ({"measured": {"ring": {0: [1.0]}}}, "can't be 0"),
        ({"measured": {"ring": {1024: [1.0, math.nan]}}}, "the time of ring at 1024 bytes can't be nan"),
        ({"measured": {"ring": {1024: math.inf}}}, "1024 bytes can't be inf"),
        ({"measured": {"{ring}": {1024: "1 ms"}}}, "{ring} at 1024 bytes can't be '1 ms'"),
        ({"measured": {"ring": {math.nan: 1.0}}}, "the size of ring can't be nan"),
        ({"link": LINK, "span": 5}, "no sizes from 5"),
        ({"link": LINK, "algorithms": ["ring"], "span": (1, math.inf)}, "a size in bytes can't be inf"),
        ({"link": LINK, "algorithms": ["ring"], "span": (0, 4)}, "a size in bytes can't be 0; give a number above 0"),
        ({"link": LINK, "algorithms": ["rign"]}, "ring"),
    ],
)  # fmt: skip
def test_what_can_not_be_drawn_is_said(given: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        cost_curves(4, **given)  # type: ignore[arg-type]


def test_the_figure_is_one_that_plotly_takes_and_is_small() -> None:
    made = figure(both())
    assert isinstance(made, go.Figure)
    assert (made.layout.xaxis.type, made.layout.yaxis.type) == ("log", "log")
    names = [each.name for each in made.data]
    assert names == [
        "ring, model", "recursive-doubling, model", "ring, measured", "recursive-doubling, measured",
        "crossover, model", "crossover, measured",
    ]  # fmt: skip
    assert made.data[2].hovertext[0].startswith("ring, 1 KiB: 302 µs<br>the middle of 3 runs, which took 271 µs to 422 µs<br>")
    assert made.data[2].hovertext[0].endswith("the model says 302 µs, as measured")
    assert len(made.data[2].error_y.array) == len(SIZES)
    assert len(json.dumps(to_rich(both())[MIME])) < 40_000


def test_every_name_differs_in_shape_and_dash_too() -> None:
    data = to_rich(cost_curves(4, measured("ring", "naive", "recursive-doubling"), LINK))[MIME]["data"]
    assert len({each["line"]["dash"] for each in data if each["mode"] == "lines"}) == 3
    assert len({each["marker"]["symbol"] for each in data if each["name"].endswith(", measured") and "error_y" in each}) == 3


def test_hostile_names_are_escaped() -> None:
    curves = cost_curves(2, {"<script>": {1: 1.0}, "b": {1: 2.0}})
    assert "<script" not in to_html(curves)
    assert "<script" not in json.dumps(to_rich(curves))


def test_records_travel() -> None:
    for record in (both(), traffic_matrix(ALGORITHMS["ring"].schedule(3), 30)):
        back = from_plain(json.loads(json.dumps(to_plain(record))))
        assert (to_text(back), to_html(back), to_rich(back)) == (to_text(record), to_html(record), to_rich(record))


@given(st.floats(1, 1e12), st.floats(1, 1e6))
def test_ticks_are_few(low: float, factor: float) -> None:
    assert 1 <= len(byte_ticks(low, low * factor)) <= 11
    assert 1 <= len(time_ticks(low * 1e-9, low * factor * 1e-9)) <= 10


def test_traffic_is_the_schedules() -> None:
    schedule = ALGORITHMS["ring"].schedule(4)
    matrix = traffic_matrix(schedule, 1 << 20)
    assert np.array_equal(np.array(matrix.num_bytes), traffic(schedule, 1 << 20))
    assert matrix.sent == matrix.received == (6 << 20,) * 4
    lines = to_text(matrix).splitlines()
    assert lines[:2] == ["ring: all-reduce of 4 MiB on 4 ranks", "4 pairs of 12 send 6 MiB, together 24 MiB"]
    assert lines[3].split() == ["rank", "0", ".", "6", "MiB", ".", ".", "6", "MiB"]


@pytest.mark.parametrize("size", [2, 8, 12, 13, 64])
def test_a_plain_print_is_the_text_and_fits_a_terminal(size: int) -> None:
    records = [
        traffic_matrix(ALGORITHMS["double-tree"].schedule(size), 12_345_678),
        cost_curves(size, measured("ring", "recursive-doubling", "halving-doubling"), LINK),
        both(),
    ]
    for record in records:
        assert str(record) == to_text(record)
        assert max(map(len, str(record).splitlines())) <= 80


def test_a_wide_matrix_is_folded_and_every_row_of_it_says_whose_it_is() -> None:
    lines = str(traffic_matrix([[1023] * 12] * 12)).splitlines()
    first, second = (i for i, line in enumerate(lines) if line.startswith("from"))
    assert [line.split()[:2] for line in lines[first + 1 : first + 13]] == [["rank", str(rank)] for rank in range(12)]
    assert lines[second - 1] == ""
    assert lines[second].split()[-1] == "sends"
    assert len(lines[first].split()[3:] + lines[second].split()[3:]) == 13


def test_traffic_html_has_every_number_and_the_ink_to_read_it() -> None:
    drawn = to_html(traffic_matrix([[0, 1024], [4096, 0]], title="<b>"))
    assert "<b> " not in drawn
    assert 'title="rank 1 to rank 0: 4,096 bytes"' in drawn
    assert "background:#ffe945;color:#000000" in drawn


def test_a_large_world_is_drawn_as_squares_and_a_larger_one_is_told() -> None:
    wide = traffic_matrix(ALGORITHMS["double-tree"].schedule(64), 1 << 16)
    assert to_html(wide).count("<title>") == len(wide.pairs)
    assert len(to_text(wide).splitlines()) == 16
    huge = traffic_matrix(np.ones((130, 130), dtype=int).tolist())
    assert "<svg" not in to_html(huge)


def test_nobody_sends() -> None:
    assert "nobody sends anything" in to_text(traffic_matrix([[0, 0], [0, 0]]))
    assert "nobody sends anything" in to_html(traffic_matrix([[0] * 20] * 20))


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], "no square"), ([[1, 2]], "no square"), ([[0, -1], [0, 0]], "below 0"), ("abc", "no square"), (5, "no square"),
        ([[0, math.nan], [1, 0]], "nan is no number of bytes"), ([[0, 1.5], [1, 0]], "1.5 is no number of bytes"),
        ([[0, "1"], [1, 0]], "'1' is no number of bytes"), ([[0, math.inf], [1, 0]], "inf is no number"),
    ],
)  # fmt: skip
def test_no_matrix(rows: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        traffic_matrix(rows)


def test_whole_floats_are_numbers_of_bytes() -> None:
    assert traffic_matrix(np.array([[0.0, 2.0], [1.0, 0.0]])).num_bytes == ((0, 2), (1, 0))


def test_algorithms_of_several_collectives_have_lines_and_no_crossing() -> None:
    curves = cost_curves(8, link=LINK, algorithms=["recursive-doubling", "binomial-broadcast", "ring-all-gather"])
    assert len(curves.lines) == 3
    assert curves.crossings == ()


def test_a_schedule_needs_a_size() -> None:
    with pytest.raises(UsageError, match="give num_elements"):
        traffic_matrix(ALGORITHMS["ring"].schedule(3))
