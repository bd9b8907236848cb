"""The rank x element grid: exact texts, marks, samples, and numbers."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.tensors.differences import differences, number, pick, written
from labkit.views import to_html, to_text
from labkit.wire import TensorTable

NAN = float("nan")


def test_identical_integers(samples: Any) -> None:
    assert to_text(samples.table([[1, 2, 30]] * 2, dtype="torch.int64")) == (
        "x: int64 [3] on 2 ranks\n        0  1   2\nrank 0  1  2  30\nrank 1  1  2  30\nidentical on all ranks"
    )


def test_before_and_after_with_the_odd_rank_marked(samples: Any) -> None:
    table = samples.table([[5.0, 5.0], [5.0, 4.5], [5.0, 5.0]], before=[[1.0, 1.0], [2.0, 2.0], [2.0, 2.0]])
    assert to_text(table) == (
        "x: float32 [2] on 3 ranks\n"
        "before all_reduce\n"
        "        0  1\n"
        "rank 0  1  1\n"
        "rank 1  2  2\n"
        "rank 2  2  2\n"
        "after all_reduce\n"
        "        0     1\n"
        "rank 0  5     5\n"
        "rank 1  5  *4.5\n"
        "rank 2  5     5\n"
        "differs: rank 1 at element 1 (marked *)"
    )
    html = to_html(table)
    assert html.count('<td class="lk-differs">≠ 4.5</td>') == 1
    assert "≠ differs: rank 1 at element 1" in html


def test_a_run_of_elements(samples: Any) -> None:
    rows = [[17.0] * 8 for _ in range(4)]
    rows[2][:4] = [13.0] * 4
    assert to_text(samples.table(rows)).endswith("differs: rank 2 at elements 0-3 (marked *)")


def test_everything_differs_is_a_line_and_no_marks(samples: Any) -> None:
    text = to_text(samples.table([[float(rank)] * 3 for rank in range(4)]))
    assert text.endswith("\ndiffers: no two ranks are equal")
    assert "*" not in text
    assert to_text(samples.table([[1.0], [2.0]])).endswith("\ndiffers: the ranks disagree at element 0")


def test_equal_rows_are_told_by_letters_where_there_is_no_majority(samples: Any) -> None:
    table = samples.table([[7.0, 7.0], [7.0, 7.0], [70.0, 70.0], [70.0, 70.0]])
    assert to_text(table) == (
        "x: float32 [2] on 4 ranks\n"
        "           0   1\n"
        "rank 0 A   7   7\n"
        "rank 1 A   7   7\n"
        "rank 2 B  70  70\n"
        "rank 3 B  70  70\n"
        "differs: ranks 0 and 1 are equal, ranks 2 and 3 are equal"
    )
    html = to_html(table)
    assert html.count('<tr class="lk-a">') == html.count('<tr class="lk-b">') == 2
    assert html.count('<span class="lk-side-tag">A</span>') == 2


def test_a_reduce_leaves_rows_that_are_equal_by_chance(samples: Any) -> None:
    rows = [[77.0] * 2, [5.0] * 2, [5.0] * 2, [53.0] * 2]
    assert to_text(samples.table(rows)).endswith("differs: rank 0 is alone, ranks 1 and 2 are equal, rank 3 is alone")


def test_two_ranks_have_no_majority(samples: Any) -> None:
    assert to_text(samples.table([[1.0, 2.0], [1.0, 3.0]])).endswith("differs: the ranks disagree at element 1 (marked *)")


def test_a_sampled_tensor_says_so(samples: Any) -> None:
    rows = [[float(i) for i in range(64)] for _ in range(2)]
    text = to_text(samples.table(rows, shape=(1000, 1000)))
    assert text.startswith("x: float32 [1000, 1000] on 2 ranks, 12 of 1,000,000 elements, elements numbered in memory order\n")
    assert "64 of 1,000,000 elements" in to_html(samples.table(rows, shape=(1000, 1000)))
    assert max(len(line) for line in text.splitlines()) <= 110


def test_a_difference_is_among_the_elements_shown(samples: Any) -> None:
    rows = [[0.0] * 64 for _ in range(3)]
    rows[1][37] = 9.0
    text = to_text(samples.table(rows))
    assert "*9" in text
    assert text.endswith("differs: rank 1 at element 37 (marked *)")


def test_a_difference_outside_the_sample(samples: Any) -> None:
    table = samples.table([[1.0], [1.0]], shape=(500,))
    odd = dataclasses.replace(table.samples[1], digest="other")
    text = to_text(TensorTable("x", (table.samples[0], odd)))
    assert text.endswith("differs: not at the elements shown here, but the checksums are not the same")


def test_shapes_and_types_that_differ(samples: Any) -> None:
    short, long = samples.table([[1.0]]).samples[0], samples.table([[1.0, 2.0]] * 3).samples[1:]
    text = to_text(TensorTable("x", (short, *long)))
    assert text == (
        "x: on 3 ranks\n        0  1\nrank 0  1  -\nrank 1  1  2\nrank 2  1  2\n"
        "differs: shape [1] on rank 0, [2] on ranks 1 and 2"
    )
    half = dataclasses.replace(long[0], dtype="float16")
    assert to_text(TensorTable("x", (half, long[1]))).endswith("differs: dtype float16 on rank 1, float32 on rank 2")


def test_missing_and_nan_are_said(samples: Any) -> None:
    table = samples.table([[1.0, NAN], [1.0, NAN]])
    bad = tuple(dataclasses.replace(sample, num_nan=1) for sample in table.samples)
    lines = to_text(TensorTable("x", bad, missing=(2, 3))).splitlines()
    assert lines[-4:] == [
        "identical on ranks 0 and 1",
        "ranks 2 and 3: no variable 'x'",
        "rank 0: 1 of 2 elements are nan",
        "rank 1: 1 of 2 elements are nan",
    ]


@pytest.mark.parametrize("rows", [[], [[]], [[], []]])
def test_empty_tables_can_be_drawn(samples: Any, rows: list[list[float]]) -> None:
    assert to_text(samples.table(rows)).startswith("x")
    assert to_html(samples.table(rows))


def test_a_scalar_and_one_rank(samples: Any) -> None:
    sample = dataclasses.replace(samples.table([[0.1]]).samples[0], shape=())
    text = to_text(TensorTable("x", (sample,)))
    assert text == "x: float32 [] on 1 rank\n          0\nrank 0  0.1\nonly on rank 0, nothing to compare with"


def test_values_that_differ_never_read_the_same() -> None:
    assert written([1.0, 1.0000001], "float32") == ["1", "1.0000001"]
    assert written([0.0, -0.0], "float32") == ["0", "-0"]


def test_special_numbers() -> None:
    assert [number(value) for value in (NAN, float("inf"), 1e-9, 123456.0)] == ["nan", "inf", "1e-09", "1.235e+05"]


@given(st.lists(st.lists(st.sampled_from([0.0, -0.0, 1.0, NAN]), min_size=3, max_size=3), min_size=2, max_size=6))
def test_a_position_is_marked_exactly_if_ranks_differ_there(rows: list[list[float]]) -> None:
    found = differences(dict(enumerate(rows)))
    assert found.positions == [i for i in range(3) if len({repr(row[i]) for row in rows}) > 1]


@given(st.integers(1, 200), st.integers(2, 64), st.lists(st.integers(0, 199), max_size=20))
def test_picking_never_exceeds_the_room(count: int, room: int, first: list[int]) -> None:
    wanted = sorted({position for position in first if position < count})
    chosen = pick(count, room, wanted)
    assert len(chosen) <= max(room, 0) or count <= room
    assert all(0 <= position < count for position in chosen)
    assert chosen == sorted(set(chosen))
    assert set(wanted[: room // 2]) <= set(chosen)
