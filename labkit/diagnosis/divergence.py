"""Where the ranks' calls first differ: at one number (`Disagreement`), or as a sequence (`SequenceError`).

And, before anything has stalled, whether two calls that are open now can never complete (`Contradiction`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ..backends import find
from ..calls import Aspect, Key, by_majority, parties, shift, site_key
from ..vocabulary import CallState, ProcessState, Standing
from ..wire import Call, Evidence
from .alignment import Alignment, Disagreement, SequenceError, Track
from .standing import current_calls


@dataclass(frozen=True)
class Contradiction:
    """Ranks that are at one number of one group in different ops, or with different sizes: these calls can't complete.

    `missing` are the group's ranks that have not come to that number. What is wrong is certain without them; with them it is
    clearer who is wrong, since a majority can be told only among those that have come.
    """

    group: str
    seq: int
    ranks: tuple[int, ...]
    missing: tuple[int, ...]


def contradiction(evidence: Evidence) -> Contradiction | None:
    """The first contradiction among the calls that are open at this moment; None where there is none.

    It needs no stall, only the beacons: evidence that was taken without asking any rank will do. A call that
    is done is left out, so a mismatch that gloo lets by is none: it is silent, and does not block anybody.

    >>> from labkit.wire import RankView
    >>> a, b = Call(1, 1, "all_reduce", shape=(8,)), Call(1, 1, "all_reduce", shape=(4,))
    >>> contradiction(Evidence(3, ranks=(RankView(0, calls=(a,)), RankView(1, calls=(b,)))))
    Contradiction(group='world', seq=1, ranks=(0, 1), missing=(2,))
    """
    columns: dict[tuple[str, int, tuple[int, ...]], dict[int, Call]] = {}
    for view in evidence.ranks:
        if view.process != ProcessState.DEAD and any(call.state == CallState.ISSUED for call in view.calls):
            for call in current_calls(view, evidence.generation):
                if call.state == CallState.ISSUED and not call.p2p:
                    columns.setdefault((call.group, call.seq, call.group_ranks), {})[view.rank] = call
    found: list[tuple[float, Contradiction]] = []
    for (group, seq, members), column in columns.items():
        aspect = parties(column)[0]
        if aspect is Aspect.OP or (aspect is Aspect.SIZE and not _may_be_uneven(evidence, column)):
            missing = tuple(rank for rank in members or range(evidence.world_size) if rank not in column)
            first_s = min(call.issued_s for call in column.values())
            found.append((first_s, Contradiction(group, seq, tuple(sorted(column)), missing)))
    return min(found, key=lambda one: one[0])[1] if found else None


def _may_be_uneven(evidence: Evidence, column: Mapping[int, Call]) -> bool:
    """The sizes may be meant to differ: whether every rank lists the others' sizes is not seen from outside."""
    return find(evidence.backend).uneven_lists and all(call.op in ("all_gather", "reduce_scatter") for call in column.values())


def first_difference(world: Alignment) -> tuple[Disagreement | None, SequenceError | None]:
    """The first place where calls differ, told in one of two ways: a slip explains all that differs after it.

    A slip alone is not believed while the ranks still make calls: their sequences may yet grow into each other.
    """
    disagreement, error = _first_disagreement(world), _first_sequence_error(world)
    if error is None:
        return disagreement, None
    if disagreement is not None:
        first = error.track.group == disagreement.track.group and error.seq <= disagreement.seq
        return (None, error) if first else (disagreement, None)
    return None, error if _settled(world) else None


def _settled(world: Alignment) -> bool:
    """No rank that matters is still on the way."""
    left_behind = any(world.standing(rank) == Standing.FINISHED for wait in world.waits.values() for rank in wait.absent)
    return world.over or left_behind or world.stalled(tuple(world.waits))


def _first_disagreement(world: Alignment) -> Disagreement | None:
    found: list[tuple[float, Disagreement]] = []
    for track in world.tracks.values():
        for seq, column in track.columns.items():
            aspect, sides = parties(column)
            refused = any(call.state == CallState.REFUSED for call in column.values())
            if aspect is Aspect.SHAPE and not refused and not world.over:
                continue  # the messages fit, so no rank waits because of it
            stuck = len(column) == len(track.members) and world.stalled(tuple(column))
            if aspect is Aspect.SIZE and not stuck and _may_be_uneven(world.evidence, column):
                continue
            if aspect:
                first_s = min(call.issued_s for call in column.values())
                found.append((first_s, Disagreement(aspect, track, seq, tuple(sides))))
                break
    return min(found, key=lambda one: one[0])[1] if found else None


def _first_sequence_error(world: Alignment) -> SequenceError | None:
    gone = {
        r
        for wait in world.waits.values()
        for r in wait.absent
        if world.standing(r) in (Standing.DEAD, Standing.STOPPED, Standing.RAISED)
    }
    if gone:
        return None
    found = [one for track in world.tracks.values() if (one := _sequence_error(world, track)) is not None]
    return min(found, key=lambda one: one.call(one.ranks[0]).issued_s) if found else None


def _sequence_error(world: Alignment, track: Track) -> SequenceError | None:
    lines = {rank: track.line(rank) for rank in track.members if rank in world.calls}
    first = min(track.columns, default=0)
    if any([call.seq for call in line] != list(range(first, first + len(line))) for line in lines.values()):
        return None  # a line begins later or has a gap (a damaged beacon): they can't be laid side by side
    keys = {rank: [site_key(call) for call in line] for rank, line in lines.items()}
    if any(key is None for line in keys.values() for key in line):
        return None
    known = {rank: [key for key in line if key is not None] for rank, line in keys.items()}
    sides: list[list[int]] = []
    for rank in sorted(known, key=lambda r: (-len(known[r]), r)):
        mates = next((side for side in sides if known[side[0]][: len(known[rank])] == known[rank]), None)
        if mates is None:
            sides.append([rank])
        else:
            mates.append(rank)
    return _slip_between(world, track, known, by_majority(sides))


def _slip_between(
    world: Alignment, track: Track, keys: dict[int, list[Key]], sides: list[tuple[int, ...]]
) -> SequenceError | None:
    heads = [max(side, key=lambda r: (len(keys[r]), -r)) for side in sides]
    over = {rank: all(world.standing(r) == Standing.FINISHED for r in side) for rank, side in zip(heads, sides, strict=True)}
    first = min(track.columns, default=0)
    for i, other in enumerate(heads):
        for j in range(i + 1, len(heads)):
            rank = heads[j]
            if Counter(keys[rank]) == Counter(keys[other]) and not world.over:
                continue  # the same calls in another order: nothing was left out (nccl shows the whole line at once)
            slip = shift(keys[rank], keys[other], line_over=over[rank], reference_over=over[other])
            if slip is not None and (slip.kind != "swap" or world.over):
                tie = len(sides[i]) == len(sides[j])
                return SequenceError(slip, track, first + slip.at, _headed(rank, sides[j]), _headed(other, sides[i]), tie)
    return None


def _headed(head: int, side: tuple[int, ...]) -> tuple[int, ...]:
    """The side with the rank first that has all of its calls."""
    return (head, *(rank for rank in side if rank != head))
