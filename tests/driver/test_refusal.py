"""What the kernel does in safe mode when a cell has to end, over ranks that answer what a test says."""

from __future__ import annotations

from labkit.diagnosis import still_waiting
from labkit.diagnosis.standing import current_calls
from labkit.testing import Script, call, late
from labkit.wire import Call, Evidence, RankView

SUM = call("all_reduce")
CODE = "x = torch.ones(1)\nif rank != 2:\n    dist.all_reduce(x)"


def test_a_rank_at_work_is_late_and_its_place_is_said() -> None:
    script = Script(3)
    with script.world(mode="safe") as world:
        script.on("cell", {0: late(SUM), 1: late(SUM), 2: late(stack=((5, "load"),))})
        result = world.run_cell(CODE, deadline_s=1.0)
        assert [str(outcome.status) for outcome in result.outcomes] == ["error", "error", "late"]
        assert result.diagnosis.verdict.code == "LK010"
        assert "rank 2 is still in load (cell 1, line 5)" in result.diagnosis.verdict.next_step
        assert "healthy" not in result.diagnosis.verdict.next_step


def test_everybody_who_has_not_answered_is_told_and_only_who_waits_is_cut() -> None:
    script = Script(3)
    with script.world(mode="safe") as world:
        script.on("cell", {0: late(SUM), 1: late(SUM)})
        world.run_cell(CODE)
        assert not world.broken, "a wait that ends by itself breaks nothing"
        assert world.run_cell("1").ok


def refused(index: int, op: str, seq: int, **more: object) -> Call:
    return Call(index, seq, op, cell=3, state="refused", group_ranks=(0, 1), **more)  # type: ignore[arg-type]


def test_calls_made_after_a_refusal_in_the_same_cell_do_not_count() -> None:
    done = Call(1, 1, "all_reduce", cell=2, state="done")
    first, second = refused(2, "all_reduce", 2), refused(3, "broadcast", 2)
    later = Call(4, 2, "all_reduce", cell=4, state="done")
    assert current_calls(RankView(0, calls=(done, first, second, later)), 1) == (done, first, later)


def test_a_rank_that_went_on_after_a_refusal_is_still_seen_to_wait() -> None:
    waits = Call(3, 2, "barrier", cell=3, group_ranks=(0, 1))
    view = RankView(0, activity="call", cell=3, calls=(refused(2, "all_reduce", 2), waits))
    assert still_waiting(Evidence(2, mode="safe", cell=3, ranks=(view, RankView(1)))) == {0: waits}
