"""The records of an alignment: what a rule may look at, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..wire import Call, Evidence, RankView
from .compare import Shift, is_tie
from .standing import Place, Standing

STALL_S = 0.3  # who has not come for less is on the way

Cause = Literal[
    "", "raised", "unasked", "left", "extra", "p2p", "python", "crossing", "twins", "refused", "slow", "slip", "ops", "sizes"
]


@dataclass(frozen=True)
class Wait:
    """A rank inside a call, and the ranks that have not come to it."""

    rank: int
    call: Call
    absent: tuple[int, ...]
    live: bool


@dataclass(frozen=True)
class Track:
    """One group's calls: by number, then by rank; from the first number that every rank's beacon still has."""

    group: str
    members: tuple[int, ...]
    columns: Mapping[int, Mapping[int, Call]]

    def line(self, rank: int) -> list[Call]:
        """A rank's calls in order."""
        return [column[rank] for column in self.columns.values() if rank in column]


@dataclass(frozen=True)
class Disagreement:
    """The first number at which calls differ, in `aspect` "op", "size" or "root"; most ranks first in `sides`."""

    aspect: str
    track: Track
    seq: int
    sides: tuple[tuple[int, ...], ...]

    @property
    def column(self) -> Mapping[int, Call]:
        return self.track.columns[self.seq]

    @property
    def tie(self) -> bool:
        return is_tie(self.sides)


@dataclass(frozen=True)
class Misstep:
    """A line of calls (of `ranks`) that is the line of `others` with one slip; `tie` if neither side is the larger."""

    slip: Shift
    track: Track
    seq: int
    ranks: tuple[int, ...]
    others: tuple[int, ...]
    tie: bool

    def call(self, rank: int, ahead: int = 0) -> Call:
        """A rank's call at the slip, or `ahead` calls later."""
        return self.track.columns[self.seq + ahead][rank]


@dataclass(frozen=True)
class Alignment:
    """All a rule may look at."""

    evidence: Evidence
    focus: int
    views: Mapping[int, RankView]
    calls: Mapping[int, tuple[Call, ...]]
    places: Mapping[int, Place]
    tracks: Mapping[str, Track]
    waits: Mapping[int, Wait] = field(default_factory=dict)
    disagreement: Disagreement | None = None
    misstep: Misstep | None = None
    cause: Cause = ""
    ranks: tuple[int, ...] = ()  # those the cause is about
    knot: tuple[int, ...] = ()  # those that wait because of it
    algorithm: str = ""  # of the schedule that is run; `calls` are then its moves

    def standing(self, rank: int) -> Standing:
        return self.places[rank].standing

    def stand(self, *standings: Standing) -> tuple[int, ...]:
        """The ranks of a standing."""
        return tuple(rank for rank, at in self.places.items() if at.standing in standings)

    def waited_s(self, ranks: tuple[int, ...]) -> float:
        """How long these ranks have waited together, since the last of them came."""
        calls = [self.waits[rank].call for rank in ranks if rank in self.waits]
        return min((_waited_s(call, self.evidence.taken_s) for call in calls), default=0.0)

    def stalled(self, ranks: tuple[int, ...]) -> bool:
        """Long enough to say that nobody is just on the way, or ended from outside."""
        mine = [self.waits[rank] for rank in ranks if rank in self.waits]
        return bool(mine) and (any(not wait.live for wait in mine) or self.waited_s(ranks) >= STALL_S)

    @property
    def over(self) -> bool:
        """Everybody who was asked has run the cell to its end, and nobody waits."""
        return not self.waits and not self.stand("dead", "stopped", "raised", "python", "unbegun")


def _waited_s(call: Call, taken_s: float) -> float:
    return (call.returned_s or taken_s) - call.issued_s
