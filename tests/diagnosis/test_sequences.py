"""Sequences of calls side by side: every item has its place, equal ones share it, and a gap is where something is missing."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from labkit.diagnosis.sequences import MOST_EDITS, aligned, pairs

LINES = st.lists(st.integers(0, 3), max_size=14)


@given(LINES, LINES)
def test_every_item_has_one_place_in_its_order(one: list[int], two: list[int]) -> None:
    found = pairs(one, two)
    assert [i for i, _ in found if i is not None] == list(range(len(one)))
    assert [j for _, j in found if j is not None] == list(range(len(two)))


@given(LINES, st.integers(0, 13))
def test_what_is_left_out_is_the_only_gap(line: list[int], at: int) -> None:
    shorter = line[:at] + line[at + 1 :]
    found = pairs(line, shorter)
    assert sum(j is None for _, j in found) == len(line) - len(shorter)
    assert all(line[i] == shorter[j] for i, j in found if i is not None and j is not None)


@given(st.lists(LINES, min_size=1, max_size=5))
def test_columns_rise_along_each_line_and_an_equal_line_has_equal_columns(lines: list[list[int]]) -> None:
    found = aligned(lines)
    assert all(columns == sorted(set(columns)) for columns in found)
    assert all(found[i] == found[j] for i in range(len(lines)) for j in range(len(lines)) if lines[i] == lines[j])


def test_two_that_changed_places_are_no_gap() -> None:
    assert pairs([1, 2, 3], [2, 1, 3]) == pairs([2, 1, 3], [1, 2, 3]) == [(0, 0), (1, 1), (2, 2)]
    assert pairs([7, 1, 2, 3, 4], [7, 4, 2, 3, 1]) == [(i, i) for i in range(5)]


def test_another_call_in_the_same_place_is_no_gap() -> None:
    assert pairs([1, 2, 3], [1, 9, 3]) == [(0, 0), (1, 1), (2, 2)]


def test_a_rank_that_put_one_in_makes_a_column_for_all() -> None:
    assert aligned([[1, 2, 3], [1, 2, 3], [1, 9, 2, 3]]) == [[0, 2, 3], [0, 2, 3], [0, 1, 2, 3]]


def test_two_programs_that_have_nothing_in_common_stand_side_by_side() -> None:
    one, two = [1] * (MOST_EDITS + 10), [2] * MOST_EDITS
    assert pairs(one, two)[-1] == (MOST_EDITS + 9, None)
    assert aligned([one, two])[1] == list(range(MOST_EDITS))


def test_a_long_loop_is_aligned_at_once() -> None:
    loop = [12, 15, 18] * 3300
    before = time.process_time()
    found = aligned([loop] * 63 + [loop[:5000] + loop[5001:]])
    assert time.process_time() - before < 1.0
    assert 5000 not in found[63]
    assert found[63][-1] == len(loop) - 1
