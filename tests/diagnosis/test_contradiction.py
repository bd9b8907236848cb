"""A contradiction is known when the second rank has come, without a stall; and it is never found where none is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.diagnosis import Contradiction, contradiction, judge
from labkit.wire import Evidence

from .build import World, world
from .test_healthy import WORLDS, healthy_worlds
from .test_mutations import slips


def arrived(script: str, differ: dict[int, str], *ranks: int, **options: object) -> World:
    """A world in which so far only these ranks have made their first call, in this order."""
    seen = world(script, differ, **options)
    for rank in ranks:
        seen.issue(rank)
    return seen


@pytest.mark.parametrize(
    ("mine", "code"), [("bc2", "LK004"), ("ar1:4", "LK005"), ("ar1/f64", "LK005"), ("bar1", "LK004"), ("bc2&", "LK004")]
)
def test_two_of_four_ranks_are_enough_and_no_time_need_pass(mine: str, code: str) -> None:
    seen = arrived("ar1", {2: mine}, 0, 2)
    found = contradiction(seen.evidence(0.0))
    assert found == Contradiction("world", 1, (0, 2), (1, 3))
    (verdict,) = judge(seen.evidence(0.0))
    assert verdict.code == code
    assert {2} <= set(verdict.culprits) <= {0, 2}
    for rank in (1, 3):
        seen.issue(rank)
    assert contradiction(seen.evidence(0.0)) == Contradiction("world", 1, (0, 1, 2, 3), ())
    assert judge(seen.evidence(0.0))[0].culprits == (2,)


def test_one_rank_alone_contradicts_nobody() -> None:
    assert contradiction(arrived("ar1", {2: "bc2"}, 2).evidence(60.0)) is None


def test_it_is_told_for_each_group_by_its_own_numbers() -> None:
    seen = arrived("ar1", {0: "ar2%tp", 1: "bc3%tp"}, 0, 1, 2, groups={"tp": (0, 1)})
    assert contradiction(seen.evidence(0.0)) == Contradiction("tp", 1, (0, 1), ())


def test_two_groups_of_one_name_are_not_compared() -> None:
    seen = arrived("ar1%tp", {2: "bc1%tp", 3: "bc1%tp"}, 0, 2, groups={"tp": (0, 1)})
    seen.calls[2] = [replace(call, group_ranks=(2, 3)) for call in seen.calls[2]]
    assert contradiction(seen.evidence(0.0)) is None


def test_asynchronous_ranks_at_different_numbers_are_merely_ahead() -> None:
    seen = world("ar1& bc2& bar3& ar4:4")
    for rank, calls in ((0, 4), (1, 1), (2, 2), (3, 3)):
        for _ in range(calls):
            seen.issue(rank)
        assert contradiction(seen.evidence(60.0)) is None


@pytest.mark.parametrize("op", ["all_to_all_single", "all_gather_object", "barrier"])
def test_sizes_that_may_differ_are_none(op: str) -> None:
    seen = arrived("ar1", {2: "ar1:4"}, 0, 2)
    for rank in (0, 2):
        seen.calls[rank] = [replace(call, op=op) for call in seen.calls[rank]]
    assert contradiction(seen.evidence(60.0)) is None


@pytest.mark.parametrize("op", ["all_gather", "reduce_scatter"])
def test_lists_of_uneven_tensors_are_fine_on_nccl_and_not_on_gloo(op: str) -> None:
    seen = arrived("ar1", {2: "ar1:4"}, 0, 2)
    for rank in (0, 2):
        seen.calls[rank] = [replace(call, op=op) for call in seen.calls[rank]]
    assert contradiction(seen.evidence(backend="nccl")) is None
    assert contradiction(seen.evidence(backend="gloo")) is not None


def test_another_root_or_reduce_op_need_not_block() -> None:
    assert contradiction(arrived("bc1", {2: "bc1^2"}, 0, 2).evidence()) is None
    assert contradiction(arrived("ar1", {2: "ar1~max"}, 0, 2).evidence()) is None


@pytest.mark.parametrize("state", ["done", "failed", "refused", "invalid"])
def test_a_call_that_is_over_blocks_nobody(state: str) -> None:
    seen = arrived("ar1", {2: "bc2"}, 0, 2)
    seen.calls[0] = [replace(call, state=state) for call in seen.calls[0]]
    assert contradiction(seen.evidence(60.0)) is None


def test_a_mismatch_that_was_let_by_blocks_nobody_either() -> None:
    seen = arrived("ar1 ar2", {2: "bc2"}, 0, 2)
    seen.calls[0] = [replace(call, state="done") for call in seen.calls[0]]
    seen.issue(0)
    assert contradiction(seen.evidence(60.0)) is None


def test_calls_of_a_generation_before_and_of_a_dead_rank_do_not_count() -> None:
    seen = arrived("ar1", {2: "bc2"}, 0, 2)
    evidence = seen.evidence()
    assert contradiction(evidence) is not None
    assert contradiction(seen.but(2, process="dead", exit_code=-9).evidence()) is None
    assert contradiction(replace(evidence, generation=2)) is None


@pytest.mark.parametrize(("fate", "code"), [("", "LK007"), ("raise2", "LK003"), ("die", "LK001")])
def test_a_rank_that_can_not_come_any_more_has_its_verdict_at_once(fate: str, code: str) -> None:
    seen = world("ar1 ar1", {2: f"ar1 {fate}"}).run()
    assert [(verdict.code, verdict.culprits) for verdict in judge(seen.evidence(0.0))] == [(code, (2,))]


@pytest.mark.parametrize("name", WORLDS)
def test_none_in_a_healthy_world(name: str) -> None:
    assert contradiction(WORLDS[name]) is None


@settings(max_examples=3 * settings().max_examples)
@given(healthy_worlds(), st.integers(0, 60), st.integers(1, 10_000))
def test_none_in_a_healthy_world_at_any_moment(seen: World, ticks: int, seed: int) -> None:
    assert contradiction(seen.run(ticks, seed).evidence(60.0)) is None


@settings(max_examples=3 * settings().max_examples)
@given(slips(), st.integers(1, 40), st.integers(1, 1000))
def test_what_is_found_at_any_moment_stays_and_has_a_verdict_at_once(slip: tuple[World, int, str], ticks: int, seed: int) -> None:
    seen, rank, _ = slip
    early = seen.run(ticks, seed).evidence(0.0)
    found = contradiction(early)
    if found is None:
        return
    assert rank in found.ranks
    assert blames(early, rank)
    late = seen.run(None, seed).evidence()
    assert contradiction(late) is not None
    assert judge(late)[0].culprits == (rank,)


def blames(evidence: Evidence, rank: int) -> bool:
    """The first verdict is of differing calls, and this rank is among those it names."""
    verdict = judge(evidence)[0]
    return rank in verdict.culprits and verdict.code in ("LK004", "LK005", "LK009")
