"""Timelines: the record, its text, its still picture, and a figure that plotly takes."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.timeline import ROOM, Timeline, make_timeline
from labkit.views import to_html, to_rich, to_text
from labkit.views._marks import MARKS
from labkit.views._plotly import MIME
from labkit.views._svg import ticks
from labkit.wire import Call, CallSite, Evidence, RankView


def call(index: int, op: str, issued: float, returned: float = 0.0, *, seq: int | None = None, cell: int = 7) -> Call:
    state = "done" if returned else "issued"
    number = index if seq is None else seq
    site = CallSite(f"cell {cell}", 3)
    return Call(index, number, op, num_bytes=4096, site=site, cell=cell, state=state, issued_s=issued, returned_s=returned)


def of(*ranks: list[Call], taken_s: float = 0.0) -> Evidence:
    views = tuple(RankView(rank, calls=tuple(calls)) for rank, calls in enumerate(ranks))
    return Evidence(len(ranks), ranks=views, taken_s=taken_s)


def straggling() -> Timeline:
    return make_timeline(
        of(
            [call(1, "all_reduce", 100.0, 100.35), call(2, "broadcast", 100.36, 100.40)],
            [call(1, "all_reduce", 100.3, 100.35), call(2, "broadcast", 100.36, 100.40)],
        )
    )


def test_the_last_to_come_is_named() -> None:
    late = straggling().straggler
    assert late is not None
    assert (late.rank, late.call, round(late.late_s, 6)) == (1, "all_reduce #1", 0.3)


def test_text() -> None:
    lines = to_text(straggling()).splitlines()
    assert lines[0] == "cell 7: 4 calls in 400 ms"
    assert re.fullmatch(r"rank 0  \|A~{40,}A+\.?B+\|", lines[1])
    assert re.fullmatch(r"rank 1  \|\.{40,}A+\.?B+\|", lines[2])
    assert lines[3] == "A all_reduce, B broadcast, ~ waits for the last rank, . no call"
    assert lines[4] == "rank 1 came last to all_reduce #1 (cell 7, line 3): 300 ms after the first"
    assert lines[5].split() == ["call", "bytes", "first", "rank", "last", "rank", "last", "to", "return"]


def test_calls_that_not_everybody_came_to_stay_open_and_say_so() -> None:
    line = make_timeline(of([call(1, "all_reduce", 10.0)], [call(1, "broadcast", 10.1)], taken_s=12.0))
    assert (line.num_open, line.span_s, line.straggler) == (2, 2.0, None)
    text = to_text(line)
    assert "cell 7: 2 calls in 2.00 s, 2 still open" in text
    assert "rank 0 in all_reduce #1, which not everybody has come to" in text
    assert to_html(line).count('class="lk-open"') == 2


def test_only_the_last_cell_unless_more_are_asked_for() -> None:
    evidence = of([call(1, "barrier", 1.0, 1.1, cell=3), call(2, "barrier", 2.0, 2.1, cell=5)])
    assert make_timeline(evidence).cells == (5,)
    assert make_timeline(evidence, cells=2).cells == (3, 5)


def test_many_calls_are_cut_to_the_newest_and_that_is_said() -> None:
    line = make_timeline(of([call(n, "barrier", float(n), n + 0.5) for n in range(1, ROOM + 41)]))
    assert (len(line.bars), line.left_out) == (ROOM, 40)
    assert "(40 earlier calls not shown)" in to_text(line)
    assert "(48 earlier calls not in this table)" in to_text(line)


@pytest.mark.parametrize("line", [Timeline(2, (), ()), Timeline(2, (4,), ())])
def test_nothing_to_draw(line: Timeline) -> None:
    assert "no call made" in to_text(line)
    assert "no call made" in to_html(line)
    assert to_rich(line) == {}


def test_the_figure_is_one_that_plotly_takes_and_is_small() -> None:
    rich = to_rich(straggling())
    assert list(rich) == [MIME]
    spec = dict(rich[MIME])
    spec.pop("config")
    figure = go.Figure(spec)
    assert [trace.name for trace in figure.data] == ["waits for the last rank", "all_reduce", "broadcast"]
    assert figure.data[2].marker.pattern.shape == "/"
    assert len(json.dumps(rich)) < 8_000


def test_a_picture_of_a_full_beacon_stays_small() -> None:
    ranks = [[call(n, ("all_reduce", "broadcast")[n % 2], n * 1e-3, n * 1e-3 + 5e-4) for n in range(1, 257)] for _ in range(4)]
    line = make_timeline(of(*ranks))
    assert len(to_html(line)) + len(json.dumps(to_rich(line))) < 300_000


def test_colour_is_never_alone() -> None:
    assert len({mark.hatch for mark in MARKS}) == len({mark.color for mark in MARKS}) == len(MARKS)


def test_hostile_names_are_escaped() -> None:
    evil = dataclasses.replace(call(1, "<script>x</script>", 1.0, 2.0), site=CallSite("<b>", 1))
    line = make_timeline(of([evil]))
    for text in (to_html(line), json.dumps(to_rich(line))):
        assert "<script" not in text.replace('"text": ["<script>x</script> #1"]', "").replace('"name": "<script>x</script>"', "")


@given(st.floats(1e-7, 1e4))
def test_ticks_are_few_and_inside(span_s: float) -> None:
    found = ticks(span_s)
    assert 2 <= len(found) <= 8
    assert all(0 <= one <= span_s * 1.000001 for one in found)


def test_a_record_is_drawn_the_same_each_time() -> None:
    drawn: list[Any] = [(to_text(one), to_html(one), to_rich(one)) for one in (straggling(), straggling())]
    assert drawn[0] == drawn[1]
