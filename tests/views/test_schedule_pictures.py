"""Schedules drawn: text, still pictures, what the stepper is given, and where ranks stand."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import UsageError
from labkit.plain import from_plain, to_plain
from labkit.schedule import ALGORITHMS, Trace, Transfer, from_steps, trace
from labkit.views import schedule_plain as plain
from labkit.views import to_html, to_text
from labkit.views._html import styles
from labkit.views.schedule_geometry import Scene, kind_of, place
from labkit.views.schedule_stepper import LARGEST, source, stepper
from labkit.views.schedule_style import ADD, COPY, ON_ARROW, contrast, luminance, on_curve, palette
from labkit.views.schedule_svg import svg

SIZES = (2, 3, 4, 5, 6, 8, 12, 16)


def seen(name: str, ranks: int, elements: int = 4096) -> Trace:
    return trace(ALGORITHMS[name].schedule(ranks), elements)


def middles(scene: Scene) -> list[tuple[float, float]]:
    return [(x + width / 2, y + height / 2) for x, y, width, height in scene.boxes]


def test_text_is_the_schedules_text_with_a_headline_and_a_sum() -> None:
    assert to_text(seen("ring", 3, 6)).splitlines() == [
        "ring: all-reduce on 3 ranks, 4 steps",
        "0 reduce-scatter: 0>1+2 1>2+0 2>0+1",
        "1 reduce-scatter: 0>1+1 1>2+2 2>0+0",
        "2 all-gather: 0>1=0 1>2=1 2>0=2",
        "3 all-gather: 0>1=2 1>2=0 2>0=1",
        "at the end each rank has sent 32 B in 4 messages; together 96 B in 12 messages",
    ]


def test_a_long_schedule_stays_readable_as_text() -> None:
    lines = to_text(seen("ring", 64)).splitlines()
    assert len(lines) == 28
    assert max(map(len, lines)) <= 80
    assert lines[25] == "... 102 more steps"
    assert lines[1].endswith("... 64 transfers")


@pytest.mark.parametrize("ranks", [8, 16, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["ring", "pairwise-all-to-all", "double-tree"])
def test_a_plain_print_is_the_text_and_fits_a_terminal(name: str, ranks: int) -> None:
    record = trace(ALGORITHMS[name].schedule(ranks), 12_345)
    assert str(record) == to_text(record)
    assert max(map(len, str(record).splitlines())) <= 80


def test_sixteen_ranks_are_folded_and_nothing_is_cut() -> None:
    text = str(seen("ring", 16))
    assert "transfers" not in text
    assert "15>0+14" in text.splitlines()[2]


def test_what_is_wrong_is_said() -> None:
    half = from_steps("half", "all_reduce", 2, 1, [[Transfer(0, 1, 0, 1, reduce=True)]])
    record = trace(half, 8)
    assert to_text(record).endswith("rank 0 ends with chunk 0 holding the part of rank 0")
    assert "✗ rank 0 ends with chunk 0" in to_html(record)


@pytest.mark.parametrize(
    ("name", "ranks", "kind"),
    [
        ("ring", 2, "ring"), ("ring", 8, "ring"), ("ring-all-gather", 5, "ring"), ("chain-broadcast", 4, "ring"),
        ("binomial-tree", 8, "tree"), ("naive", 6, "tree"), ("binomial-broadcast", 7, "tree"), ("binomial-reduce", 16, "tree"),
        ("recursive-doubling", 8, "circle"), ("double-tree", 8, "circle"), ("hierarchical", 8, "circle"),
        ("everyone", 5, "circle"),
    ],
)  # fmt: skip
def test_a_ring_is_a_ring_and_a_tree_a_tree(name: str, ranks: int, kind: str) -> None:
    assert kind_of(seen(name, ranks)) == kind


def test_a_learners_own_ring_is_drawn_as_one_too() -> None:
    steps = [[Transfer(rank, (rank + 1) % 3, 0, 1, reduce=True) for rank in range(3)]]
    assert kind_of(trace(from_steps("mine", "all_reduce", 3, 1, steps), 8)) == "ring"


@pytest.mark.parametrize("sizes", [SIZES, pytest.param((64,), marks=pytest.mark.slow)], ids=["to 16", "64"])
@pytest.mark.parametrize("portrait", [False, True])
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_boxes_never_touch_and_nothing_leaves_the_picture(name: str, portrait: bool, sizes: tuple[int, ...]) -> None:
    for ranks in sizes:
        scene = place(seen(name, ranks), portrait=portrait)
        for one, other in itertools.combinations(scene.boxes, 2):
            assert one[0] + one[2] <= other[0] + 0.01 or other[0] + other[2] <= one[0] + 0.01 or (
                one[1] + one[3] <= other[1] + 0.01 or other[1] + other[3] <= one[1] + 0.01
            )  # fmt: skip
        for x, y, width, height in scene.boxes:
            assert x >= 0
            assert y >= 0
            assert x + width <= scene.width
            assert y + height <= scene.height
        assert scene.detail == (ranks <= 16)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_arrows_pass_beside_the_boxes_of_others(name: str) -> None:
    for ranks in SIZES:
        scene = place(seen(name, ranks))
        for pair, curve in scene.links.items():
            points = [on_curve(curve, step / 20) for step in range(21)]
            for rank, (x, y, width, height) in enumerate(scene.boxes):
                inside = [px for px, py in points if x < px < x + width and y < py < y + height]
                assert rank in pair or not inside, (ranks, pair, rank)


def test_a_ring_goes_round_clockwise_from_the_top() -> None:
    scene = place(seen("ring", 8))
    cx, cy = scene.width / 2, scene.height / 2
    angles = [math.atan2(x - cx, cy - y) % (2 * math.pi) for x, y in middles(scene)]
    assert min(angles[0], 2 * math.pi - angles[0]) < 0.05
    assert angles[1:] == sorted(angles[1:])


def test_a_trees_root_is_on_top_and_children_below_their_parents() -> None:
    scene = place(seen("binomial-tree", 8))
    heights = [y for _, y in middles(scene)]
    assert heights[0] == min(heights)
    assert heights[1] == heights[2] == heights[4] < heights[3] == heights[5] == heights[6] < heights[7]


@pytest.mark.parametrize("ranks", [4, 8, 16])
def test_a_high_tree_has_flat_boxes_with_their_words_beside_the_chunk(ranks: int) -> None:
    scene = place(seen("binomial-tree", ranks))
    assert scene.beside
    assert scene.height < 500
    for rank, (x, y, width, height) in enumerate(scene.boxes):
        (cell_x, cell_y), (cell_width, cell_height) = scene.cell_at(rank, 0), scene.cell
        assert x < cell_x
        assert y < cell_y
        assert cell_y + cell_height < y + height
        for left, top in scene.words_at(rank):
            assert cell_x + cell_width + 34 < left < x + width - 34, "three words of 11 pixels have room"
            assert y + 9 < top < y + height
    assert not place(seen("naive", 8)).beside, "a wide one has not"
    assert not place(seen("binomial-tree", ranks), portrait=True).beside, "nor has a film"


@pytest.mark.parametrize(
    ("name", "ranks", "there"),
    [
        ("binomial-tree", 8, "1 2 4 8"), ("ring", 4, "1 2 3 4"), ("ring", 16, "1 5 9 12 16"), ("recursive-doubling", 4, "1 2 4"),
        ("binomial-broadcast", 8, "r0"), ("ring-all-gather", 3, "r0 r1 r2"),
    ],
)  # fmt: skip
def test_the_legend_has_what_is_in_the_picture(name: str, ranks: int, there: str) -> None:
    assert [words for _, words in plain.swatches(seen(name, ranks))] == there.split()


def test_the_totals_have_their_plurals_right() -> None:
    record = seen("binomial-tree", 8)
    assert plain.summary(record, 1) == "each rank has sent 0 B to 16 KiB in 0 to 1 messages; together 64 KiB in 4 messages"
    assert plain.summary(seen("ring", 4), 1) == "each rank has sent 4 KiB in 1 message; together 16 KiB in 4 messages"


def test_labels_stand_clear_of_one_another() -> None:
    for name, ranks in itertools.product(("ring", "halving-doubling", "double-tree", "hierarchical"), (4, 6, 8)):
        record = seen(name, ranks)
        scene = place(record)
        for frame in record.frames:
            arrows = plain.arrows(record, frame, scene)
            for one, other in itertools.combinations(arrows, 2):
                apart = (plain.label_width(one.label) + plain.label_width(other.label)) / 2
                assert abs(one.at[0] - other.at[0]) >= apart or abs(one.at[1] - other.at[1]) >= 16, (name, ranks, frame.step)


@pytest.mark.parametrize(("name", "ranks"), [("ring", 4), ("naive", 5), ("pairwise-all-to-all", 4), ("double-tree", 64)])
def test_every_frame_is_a_picture_that_parses_and_stands_alone(name: str, ranks: int) -> None:
    record = seen(name, ranks)
    for position in {0, 1, len(record.frames)}:
        drawn = svg(record, position)
        root = ET.fromstring(drawn)
        assert root.tag.endswith("svg")
        assert "<script" not in drawn
        assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")
        arrows = drawn.count("marker-end")
        assert arrows == (len({(t.src, t.dst) for t in record.frames[position - 1].transfers}) if position else 0)


def test_a_frame_shows_counts_members_and_counters() -> None:
    drawn = svg(seen("ring", 4), 1)
    assert drawn.count("<title>chunk 3: the part of ranks 0 and 1</title>") == 1
    assert drawn.count(">4 KiB sent<") == drawn.count(">1 message<") == 4
    assert re.findall(r">(\+\d)</text>", drawn) == ["+3", "+0", "+1", "+2"]


def test_a_position_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="0 is the start, 6 the end"):
        svg(seen("ring", 4), 7)


def test_the_html_has_the_first_and_the_last_step_and_stays_small() -> None:
    drawn = to_html(seen("ring", 4))
    assert drawn.count("<svg") == 2
    assert "Step 0 (1 of 6)" in drawn
    assert "Step 5 (6 of 6)" in drawn
    assert len(to_html(seen("ring", 16))) < 420_000
    assert len(to_html(seen("ring", 64))) < 120_000


def test_hostile_names_are_escaped() -> None:
    record = dataclasses.replace(seen("ring", 3), name="<script>x</script>", title='"><b>')
    drawn = to_html(record)
    assert "<script" not in drawn
    assert '"><b>' not in drawn
    ET.fromstring(svg(record, 1))


def test_a_record_is_drawn_the_same_each_time_and_after_a_journey() -> None:
    record = seen("double-tree", 6)
    back = from_plain(json.loads(json.dumps(to_plain(record))))
    assert (to_text(back), to_html(back)) == (to_text(record), to_html(record))


@given(st.sampled_from(sorted(ALGORITHMS)), st.integers(2, 16))
def test_the_stepper_is_given_what_the_trace_says(name: str, ranks: int) -> None:
    record = seen(name, ranks, 64)
    scene = place(record)
    made = json.loads(json.dumps(plain.picture(record, scene)))
    held: dict[tuple[int, int], str] = {}
    for frame in (made["start"], *made["frames"]):
        for rank, slot, mask in frame["changes"]:
            held[rank, scene.slots[rank][slot]] = mask
    if scene.detail:
        wanted = {cell: members for cell, members in record.origins(len(record.frames) - 1).items() if members}
        assert {cell: sum(1 << rank for rank in members) for cell, members in wanted.items()} == {
            cell: int(mask, 16) for cell, mask in held.items() if int(mask, 16)
        }
        assert all(len(frame["counters"]) == ranks for frame in made["frames"])
    for frame in made["frames"]:
        assert all(f"{src}>{dst}" in made["links"] for src, dst, *_ in frame["arrows"])


def test_a_picture_of_64_ranks_is_not_too_much_to_send() -> None:
    record = seen("ring", 64)
    assert len(json.dumps(plain.picture(record, place(record)))) < 500_000


def test_the_widget_has_both_files_and_the_still_forms() -> None:
    widget = stepper(seen("ring", 4), step=2, speed=0.5)
    assert (widget.step, widget.speed, widget.picture["ranks"]) == (2, 0.5, 4)
    data, _ = widget._repr_mimebundle_()
    assert data["text/plain"] == to_text(seen("ring", 4))
    assert "<svg" in data["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in data
    widget.close()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"step": 7}, "no step 7"), ({"step": -1}, "no step -1"), ({"step": 1.5}, "no step 1.5"), ({"step": "1"}, "no step '1'"),
        ({"speed": 3}, "no speed 3"), ({"speed": "1"}, "no speed '1'"), ({"speed": True}, "no speed True"),
    ],
)  # fmt: skip
def test_the_stepper_says_what_it_can_do(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        stepper(seen("ring", 4), **wrong)


@pytest.mark.parametrize("name", ["ring", "pairwise-all-to-all", "chain-broadcast"])
def test_the_stepper_traces_a_schedule_itself(name: str) -> None:
    widget = stepper(ALGORITHMS[name].schedule(4))
    assert set(widget._trace.chunk_elements) == {256}
    assert widget.picture["title"].startswith(f"{name}: ")
    widget.close()


def test_the_stepper_plays_nothing_else() -> None:
    with pytest.raises(UsageError, match=r"a str is no trace; give trace\(schedule, num_elements\)"):
        stepper("ring")


def test_too_many_ranks_for_the_stepper() -> None:
    record = dataclasses.replace(seen("ring", 4), world_size=LARGEST + 1)
    with pytest.raises(UsageError, match="at most 64"):
        stepper(record)


def test_the_widgets_files_ask_the_network_for_nothing_and_read_no_html() -> None:
    script = source("stepper.js")
    assert re.findall(r"https?://[^\"]+", script) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|eval\(|import\(|fetch\(", script)
    assert "url(" not in source("stepper.css")
    assert all(
        line.startswith((".lks", "/*", " ", "}", "@"))
        for line in re.sub(r"/\*.*?\*/", "", source("stepper.css"), flags=re.S).split("\n")
        if line
    )
    assert ".lks" not in styles()


@pytest.mark.parametrize("ranks", [2, 4, 16])
def test_colours_rise_in_lightness_and_their_words_can_be_read(ranks: int) -> None:
    colors = palette(ranks)
    lights = [luminance(fill) for fill, _ in colors]
    assert lights == sorted(lights)
    assert all(contrast(fill, ink) >= 4.5 for fill, ink in colors)
    assert all(contrast(color, ON_ARROW) >= 4.5 for color in (ADD, COPY))
    assert all(contrast(color, page) >= 3 for color in (ADD, COPY) for page in ("#ffffff", "#111111"))
