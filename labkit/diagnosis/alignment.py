"""What a rule may look at: the ranks' calls side by side, and the facts that follow from them.

A schedule's moves are compared by themselves. A move has no number that ranks count together, so moves cannot be compared
like collectives. But every move knows its place in its program. A run of a schedule is judged by its own moves alone, not
by what came before it on the same ranks.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..calls import Aspect, is_tie
from ..timings import STALL_S
from ..vocabulary import CallState, Standing
from ..wire import Call, Evidence, RankView
from .pairs import OddMessage, Partners
from .shifts import Shift
from .standing import Place

Lines = Mapping[int, tuple[Call, ...]]
"""Each rank's moves of one run, in their order."""


def newest_run(evidence: Evidence, calls: Lines) -> tuple[str, dict[int, tuple[Call, ...]]]:
    """The algorithm that the ranks ran last and their moves of that run; "" and nothing if they did something else since."""
    newest = max((call for line in calls.values() for call in line), key=lambda call: call.issued_s, default=None)
    if newest is None or not newest.request_id or newest.cell != evidence.cell:
        return "", {}
    return newest.algorithm, {rank: tuple(c for c in line if c.request_id == newest.request_id) for rank, line in calls.items()}


@dataclass(frozen=True)
class Slip:
    """A rank left a move out ("skip") or made it twice ("twice")."""

    rank: int
    kind: str
    call: Call


def slip(lines: Lines) -> Slip | None:
    """The first move that a rank began and never issued though it went on, or that it issued again."""
    found = []
    for rank, line in lines.items():
        for one, two in itertools.pairwise(line):
            if (one.move, one.op) == (two.move, two.op):  # overlapped, the halves of a move have lines of their own
                found.append(Slip(rank, "twice", two))
            elif one.state == CallState.BEGUN:
                found.append(Slip(rank, "skip", one))
    return min(found, key=lambda each: each.call.issued_s, default=None)


@dataclass(frozen=True)
class Altered:
    """A move that was not issued as its program has it: in "size" (elements or dtype), or in its reduce "op" alone.

    The rank's own line says both, so nothing has to be told from what other moves look like.
    """

    rank: int
    kind: str
    call: Call
    planned: Call

    @property
    def peer(self) -> int:
        """Who is at the other end."""
        return self.call.root


def altered(lines: Lines) -> Altered | None:
    """The first move of the run that differs from its program."""
    found = [(rank, call) for rank, line in lines.items() for call in line if call.planned]
    if not found:
        return None
    rank, call = min(found, key=lambda each: each[1].issued_s)
    size, dtype, op = (*call.planned.split(" "), "")[:3]
    planned = replace(call, shape=(int(size),), dtype=dtype, reduce_op=op, planned="")
    return Altered(rank, "op" if (planned.shape, dtype) == (call.shape, call.dtype) else "size", call, planned)


@dataclass(frozen=True)
class Wait:
    """A rank inside a call, and the ranks that have not come to it; `live` unless the wait was ended from outside."""

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
    """The first number at which calls differ, in `aspect`; the side with most ranks comes first.

    `apart`: the sides' calls are of different places, and not of two arms of one `if`: they are two calls, not one that differs.
    """

    aspect: Aspect
    track: Track
    seq: int
    sides: tuple[tuple[int, ...], ...]
    apart: bool = False

    @property
    def column(self) -> Mapping[int, Call]:
        return self.track.columns[self.seq]

    @property
    def tie(self) -> bool:
        return is_tie(self.sides)

    def call(self, side: tuple[int, ...]) -> Call:
        """The call that stands for a side."""
        return self.column[side[0]]


@dataclass(frozen=True)
class SequenceError:
    """`ranks` made the calls of `others` with a slip: left some out, put some in, or swapped two.

    Both sides begin with a rank that has all calls of its side; `tie` if neither side is the larger. `open`: nothing is known
    of what follows, since the ranks stand at the call where they part.
    """

    slip: Shift
    track: Track
    seq: int
    ranks: tuple[int, ...]
    others: tuple[int, ...]
    tie: bool
    open: bool = False

    def call(self, rank: int, ahead: int = 0) -> Call:
        """A rank's call at the slip, or `ahead` calls later."""
        return self.track.columns[self.seq + ahead][rank]


@dataclass(frozen=True)
class Absence:
    """The ranks that others wait for, where all calls agree: those of one standing, the surest that was found.

    From the surest: "dead" or "stopped", "raised", "unasked", "finished", "python" (busy, or not begun), and "waiting":
    nobody is anywhere else, so the ranks wait for each other.
    """

    standing: Standing
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Alignment:
    """The evidence side by side. Every fact is computed once, in `align`; what it means is for the rules to say.

    While a schedule runs (`algorithm`) `calls` are its moves, and `slip` and `altered` those that are not as their program has
    them. At most one of `disagreement` and `sequence_error` is set: the first place where calls differ.
    """

    evidence: Evidence
    focus: int  # the cell in question
    views: Mapping[int, RankView]
    calls: Mapping[int, tuple[Call, ...]]
    places: Mapping[int, Place]
    tracks: Mapping[str, Track]
    algorithm: str = ""
    waits: Mapping[int, Wait] = field(default_factory=dict)
    disagreement: Disagreement | None = None
    sequence_error: SequenceError | None = None
    absence: Absence | None = None
    slip: Slip | None = None
    altered: Altered | None = None
    partners: Partners = field(default_factory=dict)  # of the sends and receives
    odd_message: OddMessage | None = None
    odd_splits: Disagreement | None = None  # an all-to-all in which some ranks give what others do not take

    def standing(self, rank: int) -> Standing:
        return self.places[rank].standing

    def ranks_in(self, *standings: Standing) -> tuple[int, ...]:
        """The ranks of a standing."""
        return tuple(rank for rank, at in self.places.items() if at.standing in standings)

    def absent(self, *standings: Standing) -> tuple[int, ...]:
        """The ranks that others wait for, if they are of such a standing."""
        return self.absence.ranks if self.absence is not None and self.absence.standing in standings else ()

    def waiting_for(self, ranks: tuple[int, ...]) -> tuple[int, ...]:
        """The ranks that wait for one of these."""
        return tuple(rank for rank, wait in self.waits.items() if set(wait.absent) & set(ranks))

    def waited_s(self, ranks: tuple[int, ...]) -> float:
        """How long these ranks have waited together, since the last of them came."""
        calls = [self.waits[rank].call for rank in ranks if rank in self.waits]
        return min(((call.returned_s or self.evidence.taken_s) - call.issued_s for call in calls), default=0.0)

    def stalled(self, ranks: tuple[int, ...]) -> bool:
        """These ranks have waited long enough that nobody is just on the way, or their wait was ended from outside."""
        mine = [self.waits[rank] for rank in ranks if rank in self.waits]
        return bool(mine) and (any(not wait.live for wait in mine) or self.waited_s(ranks) >= STALL_S)

    @property
    def agree(self) -> bool:
        """No calls of one number differ, and no rank's calls are the others' with a slip."""
        return self.disagreement is None and self.sequence_error is None

    @property
    def over(self) -> bool:
        """Everybody who was asked has run the cell to its end, and nobody waits."""
        return not self.waits and not self.ranks_in(
            Standing.DEAD, Standing.STOPPED, Standing.RAISED, Standing.PYTHON, Standing.UNBEGUN
        )
