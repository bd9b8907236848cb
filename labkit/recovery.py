"""The recovery ladder as a state machine: an event in, instructions out; it performs nothing itself.

rung     when                                              what is kept
soft     every rank's main thread came free                every process and variable
ranks    some are dead, stopped for good, or hold on       the others' variables
world    a soft or partial re-forming failed               nothing on the ranks
cluster  even fresh ranks can't meet                       nothing; engines, controller and store start anew
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
    """The first event: how every rank is, whether the groups are broken, whether the controller is gone."""

    ranks: tuple[RankState, ...]
    broken: bool = False
    forced: bool = False
    cluster_lost: bool = False


@dataclass(frozen=True)
class ReleaseEnded:
    """After `Release`: who came free and who did not."""

    free: tuple[int, ...]
    stuck: tuple[int, ...] = ()


@dataclass(frozen=True)
class ReplaceEnded:
    """After `Replace`: whether every new rank came up."""

    ok: bool
    reason: str = ""


@dataclass(frozen=True)
class FormEnded:
    """After `Form`: whether every rank joined and the check all-reduce was right."""

    ok: bool
    reason: str = ""


Event = Assessed | ReleaseEnded | ReplaceEnded | FormEnded


# ---- instructions
@dataclass(frozen=True)
class Continue:
    """Let stopped ranks go on (SIGCONT)."""

    ranks: tuple[int, ...]


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


Instruction = Continue | Release | Replace | Form | Restart | Finish | GiveUp

RELEASE_WAIT_S = 0.5


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
    _hopeless: set[int] = field(default_factory=set)

    def handle(self, event: Event) -> tuple[Instruction, ...]:
        """What to do next."""
        match event:
            case Assessed():
                return self._assessed(event)
            case ReleaseEnded():
                self.freed |= set(event.free)
                return self._replace_or_form(set(event.stuck) | self._hopeless)
            case ReplaceEnded(ok=True):
                return (Form(),)
            case ReplaceEnded():
                return self._escalate(event.reason)
            case FormEnded(ok=True):
                return (Finish(self.rung),)
            case FormEnded():
                return self._escalate(event.reason)
        raise AssertionError(event)

    def _assessed(self, event: Assessed) -> tuple[Instruction, ...]:
        if event.cluster_lost:
            self.rung, self.replaced = "cluster", set(range(self.world_size))
            return (Restart(), Form())
        dead = {state.rank for state in event.ranks if state.process == "dead"}
        stopped = tuple(state.rank for state in event.ranks if state.process == "stopped")
        busy = {state.rank for state in event.ranks if state.busy and state.process != "dead"}
        if not (dead or stopped or busy or event.broken or event.forced):
            return (Finish("none"),)
        self.rung = "soft"
        # a rank that is stopped could not answer; everyone else who did not holds the interpreter lock
        silent = {s.rank for s in event.ranks if not s.answers and s.process == "running"}
        self._hopeless = dead | silent
        first: tuple[Instruction, ...] = (Continue(stopped),) if stopped else ()
        to_free = tuple(sorted((busy | set(stopped)) - self._hopeless))
        if to_free:
            return (*first, Release(to_free, self.release_wait_s))
        return (*first, *self._replace_or_form(self._hopeless))

    def _replace_or_form(self, ranks: set[int]) -> tuple[Instruction, ...]:
        if not ranks:
            return (Form(),)
        self.rung = "world" if len(ranks) == self.world_size else "ranks"
        self.replaced |= ranks
        return (Replace(tuple(sorted(ranks))),)

    def _escalate(self, reason: str) -> tuple[Instruction, ...]:
        if RUNGS.index(self.rung) < RUNGS.index("world"):
            self.rung = "world"
            self.replaced = set(range(self.world_size))
            return (Replace(tuple(range(self.world_size))),)
        if self.rung == "world":
            self.rung = "cluster"
            return (Restart(), Form())
        return (GiveUp(reason),)
