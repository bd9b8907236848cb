"""The recovery ladder as a state machine: an event in, instructions out; it performs nothing itself.

All that a recovery decides and all that its report says is kept here.

rung     when                                              what is kept
soft     every rank's main thread came free                every process and variable
ranks    some are dead, stopped for good, or hold on       the others' processes and variables
world    a soft or partial re-forming failed               no rank's process
cluster  even fresh ranks can't meet                       no process; engines, controller and store start anew

What a replaced rank knew is restored from its twin (rank/twin.py), on every rung, once the ranks have formed their groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .errors import join_ranks
from .recovered import RecoveryReport, Restored
from .timings import CUT_S, RELEASE_TIMES, RELEASE_WAIT_S, SETTLE_MOST_S

RUNGS = ("none", "soft", "ranks", "world", "cluster")


@dataclass(frozen=True)
class RankState:
    """One rank before recovery: `process` as in RankView, `busy` with a cell, `answers` on its control thread."""

    rank: int
    process: str = "running"
    busy: bool = False
    answers: bool = True


# ---- events
@dataclass(frozen=True)
class Assessed:
    """The first event: how every rank is, whether the groups are broken, whether the controller is gone.

    `pace_s` is how long the slowest rank took to answer; on a busy machine every wait is made longer by it. `moving`:
    the ranks may still exchange messages. `resumed`: the controller was stopped, and goes on now.
    """

    ranks: tuple[RankState, ...]
    broken: bool = False
    forced: bool = False
    cluster_lost: bool = False
    moving: bool = False
    pace_s: float = 0.0
    resumed: bool = False


@dataclass(frozen=True)
class ReleaseEnded:
    """After `Release`: who came free, who did not, and the errors of ranks that could not cut their waits."""

    free: tuple[int, ...]
    stuck: tuple[int, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReplaceEnded:
    """After `Replace`: whether every new rank came up."""

    ok: bool
    reason: str = ""


@dataclass(frozen=True)
class FormEnded:
    """After `Form`: whether every rank joined, and what the check all-reduce of rank + 1 gave."""

    ok: bool
    reason: str = ""
    generation: int = 0
    value: float = 0.0


@dataclass(frozen=True)
class RestoreEnded:
    """After `Restore`: what each new rank has now, and those that did not come to an end with it."""

    found: tuple[Restored, ...] = ()
    stuck: tuple[int, ...] = ()


Event = Assessed | ReleaseEnded | ReplaceEnded | FormEnded | RestoreEnded


# ---- instructions
@dataclass(frozen=True)
class CutWaits:
    """End the waits of these ranks, and give them `wait_s` to come free.

    It comes before a stopped rank goes on: messages flow again as soon as it does, and gloo can lose a wait whose
    connection is cut at that very moment.
    """

    ranks: tuple[int, ...]
    wait_s: float


@dataclass(frozen=True)
class Continue:
    """Let stopped ranks go on (SIGCONT)."""

    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Settle:
    """Interrupt ranks that still work and wait up to `most_s` until no messages flow between them.

    A wait whose connection is cut while its messages flow can be lost, and its rank with it.
    """

    ranks: tuple[int, ...]
    most_s: float


@dataclass(frozen=True)
class Release:
    """Cut waits and interrupt; report who came free within `wait_s`."""

    ranks: tuple[int, ...]
    wait_s: float


@dataclass(frozen=True)
class Replace:
    """End these ranks by pid and put new ones in their place."""

    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Form:
    """Form the next generation on all ranks and check it."""


@dataclass(frozen=True)
class Restore:
    """Give new ranks what those before them knew."""

    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Restart:
    """New controller, store and ranks."""


@dataclass(frozen=True)
class Finish:
    """The world is healthy; `rung` says what it took."""

    rung: str


@dataclass(frozen=True)
class GiveUp:
    """Nothing helped."""

    reason: str


Instruction = CutWaits | Continue | Settle | Release | Replace | Form | Restore | Restart | Finish | GiveUp


@dataclass
class Ladder:
    """Climbs from the softest rung that can work; never down again.

    >>> ladder = Ladder(world_size=2)
    >>> ladder.handle(Assessed((RankState(0, busy=True), RankState(1)), broken=True))
    (Release(ranks=(0,), wait_s=0.5),)
    >>> ladder.handle(ReleaseEnded(free=(0,)))
    (Form(),)
    >>> ladder.handle(FormEnded(ok=True))
    (Finish(rung='soft'),)
    """

    world_size: int
    rung: str = "none"
    release_wait_s: float = RELEASE_WAIT_S
    replaced: set[int] = field(default_factory=set)
    freed: set[int] = field(default_factory=set)
    steps: list[str] = field(default_factory=list)
    check: str = ""
    restored: dict[int, Restored] = field(default_factory=dict)
    _unreadable: dict[int, Restored] = field(default_factory=dict)
    _hopeless: set[int] = field(default_factory=set)
    _replacing: tuple[int, ...] = ()

    def handle(self, event: Event) -> tuple[Instruction, ...]:
        """What to do next."""
        match event:
            case Assessed():
                return self._assessed(event)
            case ReleaseEnded():
                return self._released(event)
            case ReplaceEnded(ok=True):
                ranks = self._replacing
                self.steps.append(f"replaced {join_ranks(ranks)} by a new process{'' if len(ranks) == 1 else ' each'}")
                return (Form(),)
            case FormEnded(ok=True):
                self.steps.append(f"formed generation {event.generation}")
                self.check = f"all-reduce of rank + 1 gives {event.value:g} on all {self.world_size} ranks"
                return self._restore_or_finish()
            case RestoreEnded():
                return self._restored(event)
            case ReplaceEnded() | FormEnded():
                self.steps.append(f"that failed: {event.reason}")
                return self._escalate(event.reason)
        raise AssertionError(event)

    def report(self, names: Mapping[int, tuple[str, ...]], generation: int, elapsed_s: float) -> RecoveryReport:
        """What was done, kept and lost; `names` are the variables that each rank had."""
        replaced = tuple(sorted(self.replaced))
        restored = tuple(self.restored[rank] for rank in sorted(self.restored))
        there = {each.rank: set(each.there) for each in restored}
        missing = {rank: tuple(name for name in names.get(rank, ()) if name not in there.get(rank, ())) for rank in replaced}
        return RecoveryReport(
            rung=self.rung, generation=generation, freed=tuple(sorted(self.freed)), replaced=replaced,
            kept={str(rank): names.get(rank, ()) for rank in range(self.world_size) if rank not in self.replaced},
            lost={str(rank): missing[rank] for rank in replaced},
            steps=tuple(self.steps), check=self.check, restored=restored, elapsed_s=elapsed_s,
        )  # fmt: skip

    def _assessed(self, event: Assessed) -> tuple[Instruction, ...]:
        if event.cluster_lost:
            self.rung, self.replaced = "cluster", set(range(self.world_size))
            return self._restart()
        if event.resumed:
            self.steps.append("let the controller go on (SIGCONT)")
        dead = {state.rank for state in event.ranks if state.process == "dead"}
        stopped = tuple(state.rank for state in event.ranks if state.process == "stopped")
        busy = {state.rank for state in event.ranks if state.busy and state.process != "dead"}
        if not (dead or stopped or busy or event.broken or event.forced or event.resumed):
            return (Finish("none"),)
        self.rung = "soft"
        # a rank that is stopped could not answer; everyone else who did not holds the interpreter lock
        silent = {s.rank for s in event.ranks if not s.answers and s.process == "running"}
        self._hopeless = dead | silent
        slow_s = RELEASE_TIMES * event.pace_s
        todo: list[Instruction] = []
        if stopped:
            if waiting := tuple(sorted(busy - set(stopped) - self._hopeless)):
                todo.append(CutWaits(waiting, max(CUT_S, slow_s)))
            todo.append(Continue(stopped))
            self.steps.append(f"let {join_ranks(stopped)} go on (SIGCONT)")
        to_free = tuple(sorted((busy | set(stopped)) - self._hopeless))
        if not to_free:
            return (*todo, *self._replace_or_form(self._hopeless))
        if event.moving:
            todo.append(Settle(to_free, max(SETTLE_MOST_S, slow_s)))
        return (*todo, Release(to_free, max(self.release_wait_s, slow_s)))

    def _released(self, event: ReleaseEnded) -> tuple[Instruction, ...]:
        self.freed |= set(event.free)
        self.steps += [f"a wait could not be cut: {error}" for error in event.errors]
        if event.free:
            kept = "variables kept (a tensor inside a collective may be half reduced)"
            self.steps.append(f"freed {join_ranks(event.free)}: waits cut, code interrupted, {kept}")
        return self._replace_or_form(set(event.stuck) | self._hopeless)

    def _restore_or_finish(self) -> tuple[Instruction, ...]:
        todo = tuple(sorted(self.replaced - set(self.restored)))
        return (Restore(todo),) if todo else (Finish(self.rung),)

    def _restored(self, event: RestoreEnded) -> tuple[Instruction, ...]:
        self.restored |= {each.rank: each for each in event.found}
        for each in event.found:
            if each.there:
                self.steps.append(f"restored {len(each.there)} variables of rank {each.rank}")
        if not event.stuck:
            return (Finish(self.rung),)
        why = "the new process got stuck when it read them"
        self.steps.append(f"{join_ranks(event.stuck)} could not be restored: {why}")
        self._unreadable |= {rank: Restored(rank, why=why) for rank in event.stuck}  # these start with nothing
        return self._replace(set(event.stuck))

    def _replace_or_form(self, ranks: set[int]) -> tuple[Instruction, ...]:
        if not ranks:
            return (Form(),)
        self.rung = "world" if len(ranks) == self.world_size else "ranks"
        return self._replace(ranks)

    def _replace(self, ranks: set[int]) -> tuple[Instruction, ...]:
        self.replaced |= ranks
        self.restored = {rank: each for rank, each in self.restored.items() if rank not in ranks} | self._unreadable
        self._replacing = tuple(sorted(ranks))
        return (Replace(self._replacing),)

    def _restart(self) -> tuple[Instruction, ...]:
        self.steps.append("started controller, store and all ranks anew")
        self.restored = dict(self._unreadable)
        return (Restart(), Form())

    def _escalate(self, reason: str) -> tuple[Instruction, ...]:
        if RUNGS.index(self.rung) < RUNGS.index("world"):
            self.rung = "world"
            return self._replace(set(range(self.world_size)))
        if self.rung == "world":
            self.rung = "cluster"
            return self._restart()
        return (GiveUp(reason),)
