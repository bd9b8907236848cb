"""The thin lines between two rules, and between a verdict and none."""

from __future__ import annotations

from dataclasses import replace

from labkit.diagnosis import judge
from labkit.wire import CodeError, Evidence

from .build import World, world


def found(evidence: Evidence) -> list[tuple[str, tuple[int, ...]]]:
    return [(verdict.code, verdict.culprits) for verdict in judge(evidence)]


def went_by(seen: World) -> World:
    """As gloo may do with many ranks: calls that do not match are let by with wrong values."""
    for rank, program in enumerate(seen.programs):
        while seen.at[rank] < len(program):
            seen.issue(rank, "done")
    return seen


def test_a_skip_explains_the_sizes_that_differ_after_it() -> None:
    seen = went_by(world("ar1 ar2:4 ar3", {1: "ar2:4 ar3"}))
    assert found(seen.evidence()) == [("LK009", (1,))]


def test_a_side_whose_first_rank_has_come_to_nothing_yet_is_told_by_its_longest_line() -> None:
    seen = world("ar1& bc2", {0: "busy9", 2: "bc2"}).run()
    assert found(seen.evidence()) == [("LK009", (2,))]
    (verdict,) = judge(seen.evidence())
    assert [side.ranks for side in verdict.sides] == [(2,), (0, 1, 3)]


def test_a_size_that_went_by_is_silent() -> None:
    (verdict,) = judge(went_by(world("ar1 ar2", {1: "ar1 ar2:4"})).evidence())
    assert (verdict.code, verdict.culprits, verdict.ending) == ("LK005", (1,), "silent")


def test_a_line_of_calls_that_still_grows_is_not_judged() -> None:
    ended = world("ar1 ar2 ar3", {2: "ar1 ar3"}).run()
    assert found(ended.evidence(0.1)) == [("LK009", (2,))]
    running = world("ar1 ar2 ar3 ar4", {2: "ar1 ar3 busy9"}).run()
    assert found(running.evidence(0.1)) == []
    assert found(running.evidence(2.0)) == [("LK009", (2,))]


def test_a_rank_that_died_inside_the_call_explains_the_wait() -> None:
    seen = world("ar1", {3: "busy9"}).run().but(1, process="dead", exit_code=-9)
    assert found(seen.evidence()) == [("LK001", (1,))]


def test_in_a_loop_the_rank_that_has_ended_tells_skip_from_extra() -> None:
    loop = "ar1 ar2 ar1 ar2 ar1 ar2"
    (skip,) = judge(world(loop, {1: "ar1 ar1 ar2 ar1 ar2"}).run().evidence())
    (extra,) = judge(world(loop, {1: "ar1 ar1 ar2 ar1 ar2 ar1 ar2"}).run().evidence())
    assert "skipped all_reduce #2 (cell 7, line 2)" in skip.sentence
    assert "made an extra all_reduce #2 (cell 7, line 1)" in extra.sentence
    assert skip.culprits == extra.culprits == (1,)


def test_numbers_that_begin_anew_in_one_cell() -> None:
    """A check after recovery makes calls in the same cell: the calls before it no longer count."""
    seen = world("ar1 bar2", {1: "ar1 bc3"}).run().cut()
    for rank in range(4):
        seen.calls[rank].append(replace(seen.calls[rank][0], index=9, seq=1, op="barrier", site=None))
        seen.but(rank, error=None)
    assert found(seen.evidence()) == []


def test_numbers_that_begin_anew_end_all_groups() -> None:
    seen = world("ar1 ar2%tp", {0: "ar1 ar2%tp", 1: "ar1 bc3%tp", 2: "ar1", 3: "ar1"}, groups={"tp": (0, 1)}).run().cut()
    assert [verdict.code for verdict in judge(seen.evidence())] == ["LK004"]
    for rank in range(4):
        seen.calls[rank].append(replace(seen.calls[rank][0], index=9, site=None))
        seen.but(rank, error=None)
    assert found(seen.evidence()) == []


def test_an_older_cells_exception_is_no_reason() -> None:
    seen = world("ar1", {2: ""}).run().but(2, cell=6, error=CodeError("ValueError", "in cell 6"))
    assert found(seen.evidence()) == [("LK010", (2,))]


def test_a_rank_that_makes_other_calls_is_not_stuck() -> None:
    seen = world("ar1", {2: "bar3%solo busy9"}, groups={"solo": (2,)}).run()
    for rank in (0, 1, 3):
        seen.calls[rank][-1] = replace(seen.calls[rank][-1], issued_s=seen.now_s - 5.0)
    assert found(seen.evidence(0.1)) == []
    assert found(seen.evidence(1.0)) == [("LK010", (2,))]


def test_a_send_that_has_just_begun_is_not_stuck() -> None:
    assert found(world("", {0: "send1^1"}, 2).run().evidence(0.1)) == []
    assert found(world("", {0: "recv1^1", 1: "recv1^0"}, 2).run().evidence(0.1)) == []


def test_a_recv_from_anyone_waits_for_whoever_can_still_send() -> None:
    seen = world("", {0: "recv1^1", 1: "", 2: "busy3"}, 3).run()
    seen.calls[0][-1] = replace(seen.calls[0][-1], root=-1)
    assert found(seen.evidence()) == []
    seen.programs[2] = []
    (verdict,) = judge(seen.evidence())
    assert verdict.code == "LK013"
    assert verdict.sentence == (
        "rank 0 waits in recv from any rank (cell 7, line 1), and nobody sends to it: ranks 1 and 2 have finished cell 7."
    )


def test_of_many_in_one_call_the_one_at_another_line_came_too_early() -> None:
    """Rank 2 makes an extra world call and rank 3 waits for it in their subgroup."""
    programs = {0: "ar5", 1: "ar5", 2: "ar1 ar4%tp ar5", 3: "ar4%tp ar5"}
    (verdict,) = judge(world("", programs, groups={"tp": (2, 3)}).run().evidence())
    assert (verdict.code, verdict.culprits) == ("LK004", (2,))
    assert verdict.sentence.endswith("a deadlock, each waits for the other. Rank 2 came too early.")


def test_a_line_of_its_own_is_no_reason_where_a_root_has_a_branch() -> None:
    seen = world("bc1", {0: "bc9"}).run()
    for rank in range(4):
        seen.calls[rank][-1] = replace(seen.calls[rank][-1], state="refused")
        seen.but(rank, error=CodeError("ContractError", "x"))
    assert found(seen.evidence()) == [("LK014", ())]


def test_two_ranks_and_a_call_under_a_branch_name_both() -> None:
    source = "dist.all_reduce(x)\nif flag:\n    dist.all_reduce(y)\ndist.all_reduce(z)"
    (verdict,) = judge(world("ar1 ar3 ar4", {1: "ar1 ar4"}, 2, source=source).run().evidence())
    assert (verdict.code, verdict.culprits) == ("LK009", (0, 1))
    assert "(or rank 0 made one call too many)" in verdict.sentence


def test_an_idle_rank_holds_no_lock() -> None:
    (verdict,) = judge(world("ar1", {2: "busy3"}).run().but(2, answers=False).cut().evidence())
    assert "rank 2 was busy in Python at cell 7, line 3" in verdict.sentence


def test_uneven_lists_that_hang_on_nccl_are_named_when_all_have_come() -> None:
    seen = world("ar1", {2: "ar1:4"}).run()
    for rank in range(4):
        seen.calls[rank] = [replace(call, op="all_gather") for call in seen.calls[rank]]
    assert found(seen.evidence(0.1, backend="nccl")) == []
    assert found(seen.evidence(2.0, backend="nccl")) == [("LK005", (2,))]
    assert found(seen.evidence(0.1)) == [("LK005", (2,))]


def test_a_rank_that_died_before_its_first_call_of_the_cell_is_not_told_at_an_older_cells_line() -> None:
    seen = world("ar1 ar2", {1: "ar1 die"}).run().evidence()
    old = [
        replace(view, calls=tuple(replace(each, cell=6) for each in view.calls)) if view.rank == 1 else view
        for view in seen.ranks
    ]
    (verdict,) = judge(replace(seen, ranks=tuple(old)))
    assert verdict.code == "LK001"
    assert [side.site for side in verdict.sides if side.ranks == (1,)] == [None]


def test_ranks_that_receive_from_different_peers_are_not_told_as_one_call() -> None:
    seen = world("", {0: "recv1^3", 1: "recv1^2", 3: "recv1^2", 2: "die"}).run()
    (verdict,) = judge(seen.evidence())
    assert verdict.code == "LK001"
    assert "ranks 1 and 3 wait in recv from rank 2" in verdict.sentence
