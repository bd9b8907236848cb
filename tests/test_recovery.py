"""The recovery ladder as a table, and as laws that hold for any sequence of events."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.recovered import Restored
from labkit.recovery import (
    RUNGS,
    Assessed,
    Continue,
    CutWaits,
    Finish,
    Form,
    FormEnded,
    GiveUp,
    Ladder,
    RankState,
    Release,
    ReleaseEnded,
    Replace,
    ReplaceEnded,
    Restart,
    Restore,
    RestoreEnded,
    Settle,
)
from labkit.timings import CUT_S, RELEASE_TIMES, RELEASE_WAIT_S

IDLE, BUSY = RankState, (lambda r: RankState(r, busy=True))
DEAD, STOPPED = (lambda r: RankState(r, "dead", busy=True)), (lambda r: RankState(r, "stopped", busy=True, answers=False))
MUTE = lambda r: RankState(r, busy=True, answers=False)  # noqa: E731 - one of a row of makers
REST = (BUSY, BUSY, BUSY)


def states(*makers: Callable[[int], RankState]) -> tuple[RankState, ...]:
    return tuple(make(rank) for rank, make in enumerate(makers))


def release(*ranks: int) -> Release:
    return Release(ranks, RELEASE_WAIT_S)


SITUATIONS = {
    "healthy": (states(IDLE, IDLE), {}, [(Finish("none"),)]),
    "healthy, but asked to": (states(IDLE, IDLE), {"forced": True}, [(Form(),), (Finish("soft"),)]),
    "groups broken, nobody busy": (states(IDLE, IDLE), {"broken": True}, [(Form(),), (Finish("soft"),)]),
    "all wait": (states(*REST), {}, [(release(0, 1, 2),), (Form(),), (Finish("soft"),)]),
    "one has left": (states(IDLE, BUSY, BUSY), {}, [(release(1, 2),), (Form(),), (Finish("soft"),)]),
    "one died idle": (states(DEAD, IDLE, IDLE), {}, [(Replace((0,)),), (Form(),), (Restore((0,)),), (Finish("ranks"),)]),
    "one died, others wait": (
        states(BUSY, DEAD, BUSY), {}, [(release(0, 2),), (Replace((1,)),), (Form(),), (Restore((1,)),), (Finish("ranks"),)],
    ),
    "one is stopped": (
        states(STOPPED, BUSY), {},
        [(CutWaits((1,), CUT_S), Continue((0,)), release(0, 1)), (Form(),), (Finish("soft"),)],
    ),
    "one holds the lock": (
        states(BUSY, MUTE), {}, [(release(0),), (Replace((1,)),), (Form(),), (Restore((1,)),), (Finish("ranks"),)],
    ),
    "one holds the lock, nobody else busy": (
        states(IDLE, MUTE), {}, [(Replace((1,)),), (Form(),), (Restore((1,)),), (Finish("ranks"),)],
    ),
    "all died": (states(DEAD, DEAD), {}, [(Replace((0, 1)),), (Form(),), (Restore((0, 1)),), (Finish("world"),)]),
    "the controller is gone": (
        states(IDLE, BUSY), {"cluster_lost": True},
        [(Restart(), Form()), (Restore((0, 1)),), (Finish("cluster"),)],
    ),
    "messages may still flow": (
        states(BUSY, BUSY), {"moving": True}, [(Settle((0, 1), 1.0), release(0, 1)), (Form(),), (Finish("soft"),)],
    ),
    "died, stopped, mute": (
        states(DEAD, STOPPED, MUTE, IDLE), {},
        [(Continue((1,)), release(1)), (Replace((0, 2)),), (Form(),), (Restore((0, 2)),), (Finish("ranks"),)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SITUATIONS)
def test_when_everything_works(name: str) -> None:
    ranks, known, steps = SITUATIONS[name]
    ladder = Ladder(len(ranks))
    got = [ladder.handle(Assessed(ranks, **known))]
    while not isinstance(got[-1][-1], Finish):
        got.append(ladder.handle(success(got[-1][-1])))
    assert got == steps


def success(instruction: object) -> object:
    if isinstance(instruction, Release):
        return ReleaseEnded(instruction.ranks)
    if isinstance(instruction, Restore):
        return RestoreEnded(tuple(map(Restored, instruction.ranks)))
    return ReplaceEnded(ok=True) if isinstance(instruction, Replace) else FormEnded(ok=True)


def test_who_does_not_come_free_is_replaced() -> None:
    ladder = Ladder(3)
    ladder.handle(Assessed(states(BUSY, BUSY, DEAD)))
    assert ladder.handle(ReleaseEnded(free=(0,), stuck=(1,))) == (Replace((1, 2)),)
    assert (ladder.freed, ladder.replaced) == ({0}, {1, 2})


@pytest.mark.parametrize("failure", [FormEnded(ok=False, reason="no"), ReplaceEnded(ok=False, reason="no")])
def test_every_failure_climbs_one_rung(failure: object) -> None:
    ladder = Ladder(2)
    ladder.handle(Assessed(states(IDLE, DEAD)))
    assert ladder.handle(failure) == (Replace((0, 1)),)
    assert ladder.handle(failure) == (Restart(), Form())
    assert ladder.handle(FormEnded(ok=False, reason="the network is gone")) == (GiveUp("the network is gone"),)


def test_a_failed_soft_form_replaces_all() -> None:
    ladder = Ladder(2)
    ladder.handle(Assessed(states(IDLE, IDLE), broken=True))
    assert ladder.handle(FormEnded(ok=False)) == (Replace((0, 1)),)
    assert ladder.handle(ReplaceEnded(ok=True)) == (Form(),)
    assert ladder.handle(FormEnded(ok=True)) == (Restore((0, 1)),)
    assert ladder.handle(RestoreEnded((Restored(0), Restored(1)))) == (Finish("world"),)


def test_a_rank_that_gets_stuck_while_it_is_restored_starts_with_nothing() -> None:
    ladder = Ladder(3)
    ladder.handle(Assessed(states(DEAD, DEAD, IDLE)))
    ladder.handle(ReplaceEnded(ok=True))
    assert ladder.handle(FormEnded(ok=True)) == (Restore((0, 1)),)
    assert ladder.handle(RestoreEnded((Restored(0, 4, ("x",)),), stuck=(1,))) == (Replace((1,)),)
    assert ladder.handle(ReplaceEnded(ok=True)) == (Form(),)
    assert ladder.handle(FormEnded(ok=True)) == (Finish("ranks"),)
    report = ladder.report({0: ("x",), 1: ("x",), 2: ("x",)}, 2, 0.1)
    assert (report.kept, report.lost) == ({"2": ("x",)}, {"0": (), "1": ("x",)})
    assert [(each.rank, each.names, bool(each.why)) for each in report.restored] == [(0, ("x",), False), (1, (), True)]


def test_what_a_new_rank_was_given_is_not_lost() -> None:
    ladder = Ladder(2)
    ladder.handle(Assessed(states(IDLE, DEAD)))
    ladder.handle(ReplaceEnded(ok=True))
    ladder.handle(FormEnded(ok=True, generation=2, value=3.0))
    given = Restored(1, 6, names=("x",), made=("nn",), lost={"f": "an open file"})
    assert ladder.handle(RestoreEnded((given,))) == (Finish("ranks"),)
    report = ladder.report({0: ("x",), 1: ("nn", "x", "f")}, 2, 0.1)
    assert (report.lost, report.restored) == ({"1": ("f",)}, (given,))
    assert "restored 2 variables of rank 1" in report.steps


def test_what_is_no_event_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError):
        Ladder(1).handle("boo")


def test_on_a_busy_machine_every_wait_is_longer() -> None:
    slow = Assessed(states(STOPPED, BUSY), moving=True, pace_s=0.5)
    waits = [getattr(step, "wait_s", 0.0) or getattr(step, "most_s", 0.0) for step in Ladder(2).handle(slow)]
    assert waits == [RELEASE_TIMES * 0.5, 0.0, RELEASE_TIMES * 0.5, RELEASE_TIMES * 0.5]


def test_the_report_is_the_ladders_own() -> None:
    ladder = Ladder(3)
    ladder.handle(Assessed(states(STOPPED, BUSY, DEAD)))
    ladder.handle(ReleaseEnded(free=(0, 1), errors=("rank 1: OSError: no",)))
    ladder.handle(ReplaceEnded(ok=True))
    ladder.handle(FormEnded(ok=True, generation=2, value=6.0))
    report = ladder.report({0: ("x",), 2: ("y",)}, 2, 1.5)
    assert (report.rung, report.freed, report.replaced, report.elapsed_s) == ("ranks", (0, 1), (2,), 1.5)
    assert (report.kept, report.lost) == ({"0": ("x",), "1": ()}, {"2": ("y",)})
    assert [step.split(":")[0] for step in report.steps] == [
        "let rank 0 go on (SIGCONT)", "a wait could not be cut", "freed ranks 0 and 1", "replaced rank 2 by a new process",
        "formed generation 2",
    ]  # fmt: skip
    assert report.check == "all-reduce of rank + 1 gives 6 on all 3 ranks"


# ---- laws
RANK = st.builds(
    RankState, rank=st.just(0), process=st.sampled_from(["running", "stopped", "dead", "unknown"]),
    busy=st.booleans(), answers=st.booleans(),
)  # fmt: skip


@st.composite
def situations(draw: st.DrawFn) -> Assessed:
    drawn = draw(st.lists(RANK, min_size=1, max_size=6))
    ranks = tuple(RankState(rank, s.process, s.busy, s.answers) for rank, s in enumerate(drawn))
    return Assessed(ranks, draw(st.booleans()), draw(st.booleans()))


def outcome(data: st.DataObject, instruction: object) -> object | None:
    """What may become of an instruction; None for one that nothing is heard of."""
    if isinstance(instruction, Release):
        stuck = tuple(rank for rank in instruction.ranks if data.draw(st.booleans()))
        return ReleaseEnded(tuple(rank for rank in instruction.ranks if rank not in stuck), stuck)
    if isinstance(instruction, Replace):
        return ReplaceEnded(data.draw(st.booleans()), "r")
    if isinstance(instruction, Restore):
        stuck = tuple(rank for rank in instruction.ranks if data.draw(st.booleans()))
        return RestoreEnded(tuple(Restored(rank) for rank in instruction.ranks if rank not in stuck), stuck)
    return FormEnded(data.draw(st.booleans()), "f") if isinstance(instruction, Form) else None


@given(situations(), st.data())
def test_any_run_ends_and_never_climbs_down(event: Assessed, data: st.DataObject) -> None:
    ladder = Ladder(len(event.ranks))
    everyone = set(range(len(event.ranks)))
    hopeless = {s.rank for s in event.ranks if s.process == "dead" or (s.process == "running" and not s.answers)}
    # a rank that is mute and has nothing to do may only be short of time: alone it is no reason to lose variables
    trouble = event.broken or event.forced or any(s.busy or s.process in ("stopped", "dead") for s in event.ranks)
    todo: list[object] = list(ladder.handle(event))
    rungs, done, stuck, unreadable, escalated = [ladder.rung], [], set(), set(), False
    while not isinstance(todo[0], (Finish, GiveUp)):
        instruction = todo.pop(0)
        done.append(instruction)
        if isinstance(instruction, Replace):
            assert escalated or set(instruction.ranks) <= hopeless | stuck, "a free rank that lives was replaced"
            assert escalated or set(instruction.ranks) >= hopeless
        answer = outcome(data, instruction)
        if answer is not None:
            stuck |= set(getattr(answer, "stuck", ()))
            if isinstance(answer, RestoreEnded):
                assert not set(answer.stuck) & unreadable, "what could not be read once is not read again"
                unreadable |= set(answer.stuck)
                escalated = escalated or bool(answer.stuck)
            escalated = escalated or getattr(answer, "ok", True) is False
            todo = list(ladder.handle(answer))
            rungs.append(ladder.rung)
        assert len(done) < 12 + 3 * len(event.ranks)
    assert [RUNGS.index(rung) for rung in rungs] == sorted(RUNGS.index(rung) for rung in rungs)
    if isinstance(todo[0], GiveUp):
        assert ladder.rung == "cluster"
        return
    assert todo[0].rung == ladder.rung
    assert bool(done) == bool(trouble)
    if not trouble:
        return
    replaced = {rank for step in done if isinstance(step, Replace) for rank in step.ranks}
    assert hopeless <= replaced | (everyone if Restart() in done else set())
    assert replaced == ladder.replaced or Restart() in done
    assert isinstance(done[-1], Form | Restore), "nothing is finished before an all-reduce was right"
    assert ladder.replaced == set(ladder.restored), "a new rank is restored, or it is said why not"
