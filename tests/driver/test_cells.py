"""When a running cell is ended: at a deadline, or at a verdict that time can't mend, seen twice."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field

import pytest

from labkit.driver.cells import MAY_RESOLVE, Clock, Watch, outcomes, run
from labkit.driver.transport import Pending, Reply
from labkit.errors import RankError
from labkit.timings import ARRIVAL_S, LOOK_EVERY_S, POLL_S, STALL_S
from labkit.wire import Call, Diagnosis, Evidence, Outcome, RankView, Stream, Verdict


def said(code: str) -> Diagnosis:
    return Diagnosis((Verdict(code, "rule", "title", "sentence"),), Evidence(2))


HEALTHY = Diagnosis((), Evidence(2))


@dataclass
class Ranks(Clock):
    """Beats and verdicts from a script, on a clock that only `pause` moves."""

    verdicts: list[str] = field(default_factory=list)
    now: float = 50.0
    beat: float = 50.0
    looks: list[float] = field(default_factory=list)
    moves: dict[int, float] = field(default_factory=dict)
    polls: int = 0

    @property
    def clock(self) -> Clock:
        return self

    def __call__(self) -> tuple[float, ...]:
        return (self.beat, 1.0)

    def now_s(self) -> float:
        return self.now

    def pause(self, futures: object) -> None:
        self.now += POLL_S
        self.polls += 1
        self.beat = self.moves.get(self.polls, self.beat)

    def look(self) -> Diagnosis:
        self.looks.append(round(self.now - 50.0, 3))
        code = self.verdicts.pop(0) if len(self.verdicts) > 1 else self.verdicts[0]
        return said(code) if code else HEALTHY


def watched(*verdicts: str, deadline_s: float = 5.0, **known: object) -> tuple[Ranks, Diagnosis | None]:
    ranks = Ranks(verdicts=list(verdicts), **known)
    return ranks, run([Pending(0, "cell"), Pending(1, "cell")], Watch(ranks, ranks.look, deadline_s))


def test_a_certain_verdict_ends_the_cell_when_it_is_seen_twice() -> None:
    ranks, diagnosis = watched("LK004")
    assert diagnosis.verdict.code == "LK004"
    first, second = ranks.looks
    assert STALL_S < first < STALL_S + 3 * POLL_S
    assert second - first == pytest.approx(POLL_S)


def test_a_verdict_seen_once_may_be_a_snapshot_between_two_events() -> None:
    ranks, diagnosis = watched("LK004", "LK007", "LK009", "LK009")
    assert diagnosis.verdict.code == "LK009"
    assert len(ranks.looks) == 4


@pytest.mark.parametrize("code", [*sorted(MAY_RESOLVE), ""])
def test_what_may_resolve_waits_for_the_deadline(code: str) -> None:
    ranks, diagnosis = watched(code)
    assert diagnosis == (said(code) if code else HEALTHY)
    assert ranks.now - 50.0 == pytest.approx(5.0, abs=POLL_S)
    gaps = [later - sooner for sooner, later in zip(ranks.looks, ranks.looks[1:-1], strict=False)]
    assert min(gaps) >= LOOK_EVERY_S - 1e-6, "looking costs the ranks time"


def test_progress_begins_the_stall_anew() -> None:
    moves = {poll: 50.0 + poll for poll in range(1, 40, 3)}  # a beat every 0.15 s, for two seconds
    ranks, diagnosis = watched("LK004", moves=moves)
    assert diagnosis.verdict.code == "LK004"
    assert ranks.looks[0] > 39 * POLL_S
    assert len(ranks.looks) == 2


def test_progress_between_the_two_looks_takes_the_first_back() -> None:
    alone, _ = watched("LK004")
    poll_of_first = round(alone.looks[0] / POLL_S)
    ranks, _ = watched("LK004", moves={poll_of_first + 1: 60.0})
    assert len(ranks.looks) == 3


def test_a_rank_that_answers_is_progress() -> None:
    ranks = Ranks(verdicts=["LK004"])
    watch = Watch(ranks, ranks.look, 5.0)
    assert watch.check(50.1, 0) is None
    assert watch.check(50.6, 1) is None, "one rank has answered since"
    assert watch.check(50.9, 1) is None
    assert ranks.looks == []
    assert watch.check(50.96, 1) is None, "the first look"
    assert watch.check(51.0, 1).verdict.code == "LK004"


def test_the_deadline_is_a_verdict_even_of_a_healthy_world() -> None:
    _, diagnosis = watched("", deadline_s=0.2)
    assert diagnosis == HEALTHY


def test_it_ends_when_every_rank_has_answered() -> None:
    class Answering(Ranks):
        def pause(self, futures: list[Future[Reply]]) -> None:
            super().pause(futures)
            pendings[self.polls - 1].resolve(Reply(Outcome(self.polls - 1)))

    ranks = Answering(verdicts=["LK004"])
    pendings = [Pending(0, "cell"), Pending(1, "cell")]
    assert run(pendings, Watch(ranks, ranks.look, 5.0)) is None
    assert (ranks.polls, ranks.looks) == (2, [])
    assert run(pendings, Watch(ranks, ranks.look, 5.0)) is None, "at once, when nothing is open"
    assert ranks.polls == 2


def test_the_machine_has_a_clock_too() -> None:
    pending = Pending(0, "cell")
    watch = Watch(lambda: (1.0,), lambda: HEALTHY, 0.1)
    assert run([pending], watch) == HEALTHY
    pending.resolve(Reply(Outcome(0)))
    assert run([pending], Watch(lambda: (1.0,), lambda: HEALTHY, 60.0)) is None


def test_outcomes_of_who_has_answered_and_who_has_not() -> None:
    pendings = [Pending(0, "cell"), Pending(1, "cell"), Pending(2, "cell")]
    pendings[0].resolve(Reply(Outcome(0, value=3)))
    pendings[1].add_output("stdout", "so far")
    pendings[2].fail("dead")
    found = outcomes(pendings)
    assert [(o.rank, o.status) for o in found] == [(0, "ok"), (1, "late"), (2, "dead")]
    assert found[1].output == (Stream("stdout", "so far"),)
    assert outcomes(pendings, "interrupted")[1].status == "interrupted"
    pendings[2].resolve(Reply(Outcome(2, "ok")))
    assert outcomes(pendings)[2].status == "dead", "a late reply of a rank that was given up is dropped"


# ---- calls that contradict each other, seen without a stall
def waiting(*shapes: tuple[int, ...]) -> Evidence:
    calls = [Call(1, 1, "all_reduce", shape=shape, group_ranks=(0, 1, 2)) for shape in shapes]
    return Evidence(3, ranks=tuple(RankView(rank, calls=(call,)) for rank, call in enumerate(calls)))


@dataclass
class Glanced(Ranks):
    """Beats of three ranks, and what a glance at their beacons shows, by poll."""

    shown: dict[int, Evidence] = field(default_factory=dict)
    glances: int = 0

    def __call__(self) -> tuple[float, ...]:
        return (self.beat, 1.0, 2.0)

    def glance(self) -> Evidence:
        self.glances += 1
        return self.shown[max(poll for poll in self.shown if poll <= self.polls)]

    def look(self) -> Diagnosis:
        super().look()
        return Diagnosis(said("LK005").verdicts, self.glance())


def glanced(shown: dict[int, Evidence], **known: object) -> tuple[Glanced, Diagnosis | None]:
    ranks = Glanced(verdicts=[""], shown=shown, **known)
    watch = Watch(ranks, ranks.look, 2.0, glance=ranks.glance)
    return ranks, run([Pending(rank, "cell") for rank in range(3)], watch)


def test_a_contradiction_is_told_without_a_stall() -> None:
    ranks, diagnosis = glanced({0: waiting((8,), (4,), (8,))})
    assert diagnosis.verdict.code == "LK005"
    assert ranks.looks == [pytest.approx(3 * POLL_S)], "a poll to see that they wait, one glance, and one more"


def test_who_is_on_the_way_gets_a_moment() -> None:
    ranks, _ = glanced({0: waiting((8,), (4,))})
    assert ranks.looks[0] == pytest.approx(2 * POLL_S + ARRIVAL_S, abs=POLL_S)
    ranks, _ = glanced({0: waiting((8,), (4,)), 3: waiting((8,), (4,), (8,))})
    assert ranks.looks[0] == pytest.approx(3 * POLL_S)


def test_what_was_seen_once_and_is_gone_ends_nothing() -> None:
    ranks, _ = glanced({0: waiting((8,), (4,), (8,)), 3: waiting((8,), (8,), (8,))})
    assert ranks.looks[0] > STALL_S


def test_ranks_that_move_are_not_looked_at() -> None:
    class Moving(Glanced):
        def __call__(self) -> tuple[float, ...]:
            return (self.now, self.now, self.now)

    ranks = Moving(verdicts=[""], shown={0: waiting((8,), (4,), (8,))})
    run([Pending(0, "cell")], Watch(ranks, ranks.look, 1.0, glance=ranks.glance))
    assert ranks.glances == 1, "the one of the last look, at the deadline"


def test_ranks_that_wait_alike_are_looked_at_once() -> None:
    ranks = Glanced(verdicts=[""], shown={0: waiting((8,), (8,), (8,))})
    watch = Watch(ranks, lambda: HEALTHY, 0.2, glance=ranks.glance)
    run([Pending(0, "cell")], watch)
    assert ranks.glances == 1


def test_a_glance_that_takes_long_is_taken_seldom() -> None:
    class Slow(Glanced):
        def __call__(self) -> tuple[float, ...]:
            return (1.0, 2.0, float(self.polls))  # one rank moves all the time, so there is always something new

        def glance(self) -> Evidence:
            self.now += 0.01
            return super().glance()

    ranks = Slow(verdicts=[""], shown={0: waiting((8,), (8,), (8,))})
    run([Pending(0, "cell")], Watch(ranks, lambda: HEALTHY, 2.0, glance=ranks.glance))
    assert ranks.glances == 1, "the two that wait have been seen"
    ranks = Slow(verdicts=[""], shown={0: waiting((8,), (4,), (8,))})
    run([Pending(0, "cell")], Watch(ranks, lambda: HEALTHY, 1.0, glance=ranks.glance))
    assert ranks.glances * 0.01 < 0.12, "a tenth of the time at most"


def test_a_controller_that_is_stopped_ends_the_wait() -> None:
    ranks = Ranks(verdicts=[""])

    def reachable() -> None:
        if ranks.now > 50.5:
            raise RankError("the controller (process 7) is stopped", hint="world.recover() lets it go on", ranks=[])

    with pytest.raises(RankError, match=r"controller .* is stopped; world\.recover"):
        run([Pending(0, "cell")], Watch(ranks, ranks.look, 5.0, reachable=reachable))
    assert ranks.now - 50.5 < 0.5
