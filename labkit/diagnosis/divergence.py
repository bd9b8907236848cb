"""Where the ranks' calls first differ: at one number (`Disagreement`), or as a sequence (`SequenceError`).

And, before anything has stalled, whether two calls that are open now can never complete (`Contradiction`).
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..backends import find
from ..calls import Aspect, Key, by_majority, is_tie, parties, parting, sides_by, site_key
from ..vocabulary import CallState, ProcessState, Standing
from ..wire import Call, Evidence
from .alignment import Alignment, Disagreement, SequenceError, Track
from .parting import branches, part, unlike
from .shifts import Shift, is_plain, shift
from .source import is_after_loop, must_differ, passable, text_of
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
    disagreement, error = _first_disagreement(world), _out_of_loop(world, _first_sequence_error(world))
    if error is not None and disagreement is None:
        return None, error if _settled(world) else None
    if error is not None and disagreement is not None and _is_first(world, error, disagreement):
        return None, error
    parted = _parted(world, disagreement.track, disagreement.seq) if disagreement is not None else _refused_lines(world)
    if parted is not None or disagreement is None:
        return None, parted
    return replace(disagreement, apart=_apart(world, disagreement)), None


def _out_of_loop(world: Alignment, error: SequenceError | None) -> SequenceError | None:
    """A call that every rank makes after a loop is no extra one on the rank that left the loop early: it skipped a pass."""
    if error is None or error.slip.kind != "extra" or error.tie:
        return error
    frames = parting([error.call(side[0]).path for side in (error.ranks, error.others)])
    if not frames or not is_after_loop(text_of(world.evidence, frames[0]), frames[0].line, frames[1].line):
        return error
    return replace(error, slip=Shift("skip", error.slip.at, 1))


def _apart(world: Alignment, found: Disagreement) -> bool:
    """The first two sides are at different places that no `if` chooses between."""
    one, two = (found.call(side) for side in found.sides[:2])
    frames = parting((one.path, two.path))
    return site_key(one) != site_key(replace(two, op=one.op)) and not (frames and branches(world.evidence, *frames))


def _is_first(world: Alignment, error: SequenceError, disagreement: Disagreement) -> bool:
    """The slip came before the calls that differ in more than their place."""
    if error.track.group == disagreement.track.group:
        return error.seq < disagreement.seq or (error.seq == disagreement.seq and not _weak(world, error))
    return error.call(error.others[0]).issued_s < min(call.issued_s for call in disagreement.column.values())


def _weak(world: Alignment, error: SequenceError) -> bool:
    """Only one call is seen after the gap, and the source tells nothing: the missing one may still come, in another order."""
    if parting((error.call(error.ranks[0]).path, error.call(error.others[0]).path)):
        return False
    short = (error.ranks if error.slip.kind == "skip" else error.others)[0]
    after = [call for call in error.track.line(short) if call.seq >= error.seq]
    return len(after) < 2 and world.standing(short) != Standing.FINISHED


def _parted(world: Alignment, track: Track, seq: int) -> SequenceError | None:
    """A slip that is told by the number at which the ranks stand: some have gone ahead of the others."""
    column = track.columns[seq]
    sides = sides_by(column, site_key)
    if len(sides) < 2:
        return None
    others, ranks = sides[0], sides[1]
    before = [call for call in track.line(others[0]) if call.seq < seq]
    found = part(world.evidence, column[ranks[0]], column[others[0]], before)
    if found is None or not found.sure:
        return None
    kind = "skip" if found.ahead is column[ranks[0]] else "extra"
    slip = Shift(kind, seq - min(track.columns), found.count)
    return SequenceError(slip, track, seq, ranks, others, is_tie(sides), open=True)


def _refused_lines(world: Alignment) -> SequenceError | None:
    """Safe mode has stopped calls that differ in their place alone."""
    for track in world.tracks.values():
        for seq, column in track.columns.items():
            if any(call.state == CallState.REFUSED for call in column.values()):
                return _parted(world, track, seq)
    return None


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
    found = [one for track in world.tracks.values() if (one := _sequence_error(world, track)) is not None]
    elsewhere = {
        rank
        for wait in world.waits.values()
        for rank in wait.absent
        if world.standing(rank) not in (Standing.FINISHED, Standing.WAITING) and world.views[rank].exit_code != -signal.SIGABRT
    }
    if elsewhere:  # a reason of its own why others wait: only lines that every rank must pass prove a slip before it
        found = [one for one in found if _certain(world, one)]
    return min(found, key=lambda one: one.call(one.ranks[0]).issued_s) if found else None


def _sequence_error(world: Alignment, track: Track) -> SequenceError | None:
    lines = {rank: track.line(rank) for rank in track.members if rank in world.calls}
    first = min(track.columns, default=0)
    if any([call.seq for call in line] != list(range(first, first + len(line))) for line in lines.values()):
        return None  # a line begins later or has a gap (a damaged beacon): they can't be laid side by side
    sites: dict[Key, Call] = {}
    known = _keys(lines, sites)
    if known is None:
        return None
    sides: list[list[int]] = []
    for rank in sorted(known, key=lambda r: (-len(known[r]), r)):
        mates = next((side for side in sides if known[side[0]][: len(known[rank])] == known[rank]), None)
        if mates is None:
            sides.append([rank])
        else:
            mates.append(rank)
    return _slip_between(world, track, known, by_majority(sides), sites) if len(sides) > 1 else None


def _keys(lines: dict[int, list[Call]], sites: dict[Key, Call]) -> dict[int, list[Key]] | None:
    """The places that each rank's calls come from, and in `sites` a call for each; None if one has none.

    Equal keys are one object, which makes the comparison of many long lines quick.
    """
    of_chain: dict[tuple[int, int, str], Key] = {}  # calls of one way share their chain
    one_of: dict[Key, Key] = {}
    known: dict[int, list[Key]] = {}
    for rank, line in lines.items():
        mine = known[rank] = []
        for call in line:
            ident = (id(call.chain or call), 0 if call.chain else call.index, call.op)
            key = of_chain.get(ident)
            if key is None:
                found = site_key(call)
                if found is None:
                    return None
                key = of_chain[ident] = one_of.setdefault(found, found)
                sites.setdefault(key, call)
            mine.append(key)
    return known


_MOST_REFERENCES = 3  # sides that others are compared with
_MOST_COMPARED = 12  # sides that are compared; where more ranks go ways of their own, the first ones tell


def _slip_between(
    world: Alignment, track: Track, keys: dict[int, list[Key]], sides: list[tuple[int, ...]], sites: dict[Key, Call]
) -> SequenceError | None:
    """The first slip between the largest side and another, with all sides that made it; else between smaller sides."""
    heads = [max(side, key=lambda r: (len(keys[r]), -r)) for side in sides][:_MOST_COMPARED]
    over = {rank: all(world.standing(r) == Standing.FINISHED for r in side) for rank, side in zip(heads, sides, strict=False)}
    first, compare = min(track.columns, default=0), unlike(world.evidence, sites)
    for i, other in enumerate(heads[:_MOST_REFERENCES]):
        found: list[tuple[Shift, int]] = []
        for j in range(i + 1, len(heads)):
            rank = heads[j]
            slip = shift(keys[rank], keys[other], line_over=over[rank], reference_over=over[other], unlike=compare)
            reordered = not world.over and Counter(keys[rank]) == Counter(keys[other])
            if slip is not None and reordered and not is_plain(slip, keys[rank], keys[other]):
                continue  # the same calls in another order: nothing was left out (nccl shows the whole line at once)
            if slip is not None and (slip.kind != "swap" or (world.over and _order_matters(world, track, first, slip, rank))):
                found.append((slip, j))
        if found:
            slip = min((one for one, _ in found), key=lambda one: one.at)
            made = [j for one, j in found if one == slip]
            later = [j for one, j in found if one.at > slip.at]
            ranks = _headed(heads[made[0]], tuple(sorted(r for j in made for r in sides[j])))
            others = _headed(other, tuple(sorted((*sides[i], *(r for j in later for r in sides[j])))))
            return SequenceError(slip, track, first + slip.at, ranks, others, len(ranks) == len(others))
    return None


def _certain(world: Alignment, found: SequenceError) -> bool:
    """The source shows that the two calls at the slip can't belong together."""
    frames = parting((found.call(found.ranks[0]).path, found.call(found.others[0]).path))
    return bool(frames) and must_differ(text_of(world.evidence, frames[0]), frames[0].line, frames[1].line)


def _order_matters(world: Alignment, track: Track, first: int, slip: Shift, rank: int) -> bool:
    """Not so where both calls are under conditions of their own: each rank may take another branch in each pass."""
    one, two = (track.columns[first + slip.at + ahead][rank] for ahead in (0, slip.count))
    frames = parting((one.path, two.path))
    return len(frames) < 2 or not all(passable(world.evidence, frame) for frame in frames)


def _headed(head: int, side: tuple[int, ...]) -> tuple[int, ...]:
    """The side with the rank first that has all of its calls."""
    return (head, *(rank for rank in side if rank != head))
