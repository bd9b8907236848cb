"""Process groups that the ranks do not make alike: found by laying the makings side by side, by torch's own numbers.

torch compares nothing. A rank that makes one group more than the others looks for all later groups under other numbers, so the
first number at which the ranks differ is what counts, and not where somebody waits.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..calls import sides_by
from ..makings import ENDED, OF_ALL, OF_MEMBERS, OWN, makes_group, takes_part
from ..vocabulary import CallState
from ..wire import Call

if TYPE_CHECKING:
    from .alignment import Alignment

Column = Mapping[int, Call]


@dataclass(frozen=True)
class Uneven:
    """The first number at which the ranks do not make the same group.

    `kind`: "lists" (one line, other members), "order" (one line, the same members in another order), "own" (each rank made
    only the group that it is in), "extra" (`ranks` made a group that the others did not make) or "others" (different lines).
    `ranks` differ from `others`; a rank of `others` may have made no group of this number (`call` gives None).
    """

    kind: str
    number: int
    ranks: tuple[int, ...]
    others: tuple[int, ...]
    column: Column

    @property
    def differ(self) -> bool:
        """Two ranks made different groups of this number; else some have made none so far."""
        return len({_key(call) for call in self.column.values()}) > 1

    @property
    def plain(self) -> bool:
        """Groups that every rank of the world has to make."""
        return all(call.group == OF_ALL for call in self.column.values())

    @property
    def done(self) -> bool:
        """A group was really made: the ranks count differently from here on."""
        return any(call.state == CallState.DONE for call in self.column.values())

    def call(self, rank: int) -> Call | None:
        return self.column.get(rank)


def of_rank(world: Alignment, rank: int) -> list[Call]:
    """The groups that a rank has made or makes, in order."""
    return [call for call in world.calls[rank] if makes_group(call)]


def not_come(world: Alignment, call: Call) -> tuple[int, ...]:
    """The ranks that a making waits for and that do not make the same: in safe mode all that take part, else its members."""
    compared = world.evidence.mode == "safe" or call.state == CallState.REFUSED
    needed = takes_part(call, world.evidence.world_size) if compared else call.group_ranks
    return tuple(rank for rank in needed if rank in world.views and not any(_same(call, one) for one in of_rank(world, rank)))


def uneven(world: Alignment) -> Uneven | None:
    """The first number at which the groups made differ, or that not all who must have made; None if there is none.

    A rank that has made none of this number may still come, or be kept from it by something else: that is for the rule to say.
    """
    lines = {rank: of_rank(world, rank) for rank in world.calls}
    numbers = sorted({call.seq for line in lines.values() for call in line})
    for number in numbers:
        column = {rank: call for rank, line in lines.items() for call in line if call.seq == number}
        if _conflict(column, world.evidence.world_size) or _missing(column, world):
            return _described(number, column, lines, tuple(world.calls))
    return None


def ended(calls: Iterable[Call]) -> Call | None:
    """The call by which a rank has ended all of its groups, if it has not begun anew since."""
    last = next((call for call in reversed(tuple(calls)) if call.group == OWN), None)
    return last if last is not None and last.op == ENDED else None


def unusable(world: Alignment) -> bool:
    """The next collective or the next group can't work, though nobody may wait now: a rank has ended its groups, or the ranks
    have really made different ones.
    """
    if any(ended(calls) for calls in world.calls.values()):
        return True
    found = uneven(world)
    return found is not None and found.done and (found.differ or (world.over and found.plain))


def _key(call: Call) -> Hashable:
    """What the ranks that take part must have alike; a group of one rank meets nobody."""
    return (call.op, call.group, call.group_ranks if len(call.group_ranks) > 1 else ())


def _same(one: Call, two: Call) -> bool:
    return _key(one) == _key(two) and one.seq == two.seq


def _conflict(column: Column, world_size: int) -> bool:
    return any(
        not _same(call, column[other]) for call in column.values() for other in takes_part(call, world_size) if other in column
    )


def _missing(column: Column, world: Alignment) -> bool:
    needed = {rank for call in column.values() for rank in takes_part(call, world.evidence.world_size)}
    return bool(needed - set(column) & set(world.calls))


def _described(number: int, column: Column, lines: Mapping[int, list[Call]], everyone: tuple[int, ...]) -> Uneven:
    sides = sides_by(column, _key)
    calls = [column[side[0]] for side in sides]
    own = len(sides) > 1 and all(set(call.group_ranks) == set(side) for call, side in zip(calls, sides, strict=True))
    extra = _extra(column, sides, lines, everyone) or (() if own else _lone(column, sides))
    ranks = extra or tuple(sorted(rank for side in sides[1:] for rank in side))
    others = tuple(rank for rank in everyone if rank not in ranks)
    if extra:
        kind = "extra"
    elif own and all(call.group == OF_ALL for call in calls):
        kind = "own"
    elif len({(call.op, tuple(sorted(call.group_ranks))) for call in calls}) == 1:
        kind = "order"
    else:
        kind = "lists" if len({call.path for call in column.values()}) == 1 else "others"
    return Uneven(kind, number, ranks, others, column)


def _extra(
    column: Column, sides: list[tuple[int, ...]], lines: Mapping[int, list[Call]], everyone: tuple[int, ...]
) -> tuple[int, ...]:
    """The ranks that made a group which the others left out; () if that can't be told."""
    if len(sides) == 1:
        return sides[0]
    for side in sides:
        call = column[side[0]]
        rest = [column[other[0]] for other in sides if other != side]
        later = {(_key(one), one.path) for one in lines[side[0]] if one.seq > call.seq}
        alone = call.group == OF_MEMBERS and all(other.group == OF_ALL for other in rest)
        if alone or any((_key(other), other.path) in later for other in rest):
            return side
    return ()


def _lone(column: Column, sides: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The ranks that made a group of just themselves at a line of their own."""
    for side in sides:
        call = column[side[0]]
        if set(call.group_ranks) == set(side) and all(column[other[0]].path != call.path for other in sides if other != side):
            return side
    return ()
