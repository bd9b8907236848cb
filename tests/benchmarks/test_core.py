"""Medians, ratios, and when a goal is met."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.core import BenchError, Goal, Row, Series, interleaved, parts, ratio

positive = st.floats(min_value=1e-6, max_value=1e6)
several = st.lists(positive, min_size=1, max_size=20)


@given(several)
def test_a_median_lies_between_least_and_greatest(values: list[float]) -> None:
    series = Series.of("x", values)
    assert series.low <= series.median <= series.high
    assert series.median == statistics.median(values)


def test_a_series_of_nothing_is_an_error() -> None:
    with pytest.raises(BenchError, match="torchrun: nothing was measured"):
        Series.of("torchrun", [])


@given(several, several)
def test_without_pairs_the_ratio_is_that_of_the_medians(ours: list[float], beside: list[float]) -> None:
    row = Row("x", Series.of("a", ours), Series.of("b", [*beside, *ours]))
    assert row.ratio == pytest.approx(statistics.median(ours) / statistics.median([*beside, *ours]))


def test_a_machine_that_slows_down_in_between_does_not_count() -> None:
    slowing = [1.0, 2.0, 4.0, 8.0, 16.0]
    row = Row("x", Series.of("a", [0.5 * value for value in slowing]), Series.of("b", slowing))
    assert row.ratio == 0.5
    assert row.ratio_spread == (0.5, 0.5)


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=20))
def test_the_spread_of_a_ratio_is_that_of_neighbours(pairs: list[tuple[float, float]]) -> None:
    row = Row("x", Series.of("a", [a for a, _ in pairs]), Series.of("b", [b for _, b in pairs]))
    assert row.ratio_spread is not None
    low, high = row.ratio_spread
    assert all(low <= a / b <= high for a, b in pairs)
    assert row.ratio is not None
    assert low <= row.ratio <= high


def test_what_is_not_in_pairs_has_no_spread_of_ratios() -> None:
    assert Row("x", Series.of("a", [1.0, 2.0]), Series.of("b", [1.0])).ratio_spread is None


def test_beside_nothing_the_ratio_is_infinite_and_no_goal_is_met() -> None:
    assert ratio(1.0, 0.0) == math.inf
    assert Row("x", Series.of("a", [1.0]), Series.of("b", [0.0]), Goal(0.5)).met is False


@pytest.mark.parametrize(
    ("goal", "value", "met"),
    [
        (Goal(0.9), 0.9, True),
        (Goal(0.9), 0.9001, False),
        (Goal(0.98, at_least=True), 0.98, True),
        (Goal(0.98, at_least=True), 0.9799, False),
        (Goal(1.0, ratio=False), math.nan, False),
        (Goal(1.0, ratio=False, at_least=True), math.nan, False),
    ],
)
def test_a_goal_is_met_up_to_its_bound(goal: Goal, value: float, *, met: bool) -> None:
    assert goal.met(value) is met


def test_a_goal_on_seconds_looks_at_our_own_median() -> None:
    ours, beside = Series.of("a", [0.5, 3.0, 0.7]), Series.of("b", [0.1])
    assert Row("x", ours, beside, Goal(1.0, ratio=False)).met is True
    assert Row("x", ours, beside, Goal(1.0)).met is False


def test_without_a_goal_or_a_number_there_is_no_verdict() -> None:
    assert Row("x", Series.of("a", [1.0])).met is None
    assert Row("x", skipped="there is no lab yet", goal=Goal(1.0)).met is None
    assert Row("x", Series.of("a", [1.0]), None, Goal(1.0)).met is None


def test_sides_take_turns() -> None:
    order: list[str] = []

    def side(name: str) -> float:
        order.append(name)
        return float(len(order))

    first, second = interleaved(3, lambda: side("a"), lambda: side("b"))
    assert order == ["a", "b"] * 3
    assert first == [1.0, 3.0, 5.0]
    assert second == [2.0, 4.0, 6.0]


def test_a_phase_that_only_some_starts_have_counts_where_it_is() -> None:
    assert parts([{"a": 1.0}, {"a": 3.0, "b": 5.0}]) == "b 5.00 s, a 2.00 s"
    assert parts([]) == ""
