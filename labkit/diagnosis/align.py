"""Evidence side by side, once per judgement: who issued which call, who waits for whom, and where calls first differ.

All rules see the same facts, and only facts: none of them names a cause. What a fact means is decided in the rule that claims it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..backends import find
from ..calls import Aspect
from ..makings import is_about_groups
from ..ring import SLOTS
from ..splits import misfits, suspects
from ..vocabulary import Activity, CallState, ProcessState, Standing
from ..wire import Call, Evidence, RankView
from . import makings, pairs
from .alignment import Absence, Alignment, Disagreement, Track, Wait, altered, newest_run, slip
from .divergence import first_difference
from .standing import Place, current_calls, live_wait, place


def align(evidence: Evidence) -> Alignment:
    """Lay the ranks' calls side by side, and find where they differ and who is missing."""
    views = {view.rank: view for view in evidence.ranks}
    calls = {rank: current_calls(view, evidence.generation) for rank, view in views.items()}
    algorithm, moves = newest_run(evidence, calls)
    calls = moves or calls
    focus = _focus(evidence, views, calls)
    places = _late_is_not_waiting({rank: place(view, calls[rank], evidence, focus) for rank, view in views.items()})
    world = Alignment(evidence, focus, views, calls, places, _tracks(evidence, calls, focus), algorithm=algorithm)
    made = pairs.partners(calls, focus)
    world = replace(world, places=_without_partner(world, made), partners=made, odd_message=pairs.odd_message(calls, made, focus))
    world = replace(world, waits=_waits(world))
    disagreement, sequence_error = first_difference(world)
    world = replace(world, disagreement=disagreement, sequence_error=sequence_error, odd_splits=_odd_splits(world))
    if algorithm and (not world.waits or world.stalled(tuple(world.waits))):
        world = replace(world, slip=slip(calls), altered=altered(calls))
    return replace(world, absence=_absence(world)) if world.agree else world


def _focus(evidence: Evidence, views: Mapping[int, RankView], calls: Mapping[int, tuple[Call, ...]]) -> int:
    """The cell in question: the newest, or the older one in which a rank still waits."""
    found = [evidence.cell]
    for rank, view in views.items():
        if view.process not in (ProcessState.DEAD, ProcessState.STOPPED) and view.activity != Activity.IDLE:
            call = live_wait(view, calls[rank], evidence)
            found += [call.cell] if call else []
    return min(found)


def _late_is_not_waiting(places: dict[int, Place]) -> dict[int, Place]:
    """A rank that came when the others had already stopped waiting was busy, though its call failed too."""
    cut = {rank: at.call for rank, at in places.items() if at.call and not at.live and at.call.state == CallState.FAILED}
    for rank, call in cut.items():
        mates = [o for other, o in cut.items() if other != rank and (o.group, o.seq) == (call.group, call.seq) and o.seq]
        if any(0 < mate.returned_s <= call.issued_s for mate in mates):
            places[rank] = Place(Standing.PYTHON)
    return places


def _without_partner(world: Alignment, made: pairs.Partners) -> dict[int, Place]:
    """Of several asynchronous messages a rank waits for one that has no other end, whichever is the oldest."""
    places = dict(world.places)
    for rank, at in places.items():
        if at.call is None or not (at.call.p2p and at.call.async_op) or (rank, at.call.index) not in made:
            continue
        alone = [
            c for c in world.calls[rank] if c.p2p and c.async_op and c.state == at.call.state and (rank, c.index) not in made
        ]
        if alone:
            places[rank] = replace(at, call=alone[0])
    return places


def _tracks(evidence: Evidence, calls: Mapping[int, tuple[Call, ...]], focus: int) -> dict[str, Track]:
    columns: dict[str, dict[int, dict[int, Call]]] = {}
    members: dict[str, tuple[int, ...]] = {}
    floors: dict[str, int] = {}
    for rank, line in calls.items():
        first: dict[str, int] = {}
        for call in line:
            if call.p2p or is_about_groups(call):
                continue
            first.setdefault(call.group, call.seq)
            columns.setdefault(call.group, {})
            members[call.group] = call.group_ranks or members.get(call.group, ())
            if call.cell >= focus:
                columns[call.group].setdefault(call.seq, {})[rank] = call
        if len(line) >= SLOTS:
            for group, seq in first.items():
                floors[group] = max(floors.get(group, 0), seq)
    tracks = {}
    for group, by_seq in columns.items():
        seen = {seq: by_seq[seq] for seq in sorted(by_seq) if seq >= floors.get(group, 0)}
        everyone = tuple(range(evidence.world_size)) if group == "world" else tuple(sorted(set().union(*by_seq.values())))
        tracks[group] = Track(group, members[group] or everyone, seen)
    return tracks


def _odd_splits(world: Alignment) -> Disagreement | None:
    """The first all-to-all in which a rank gives another what that one does not take."""
    found = []
    for track in world.tracks.values():
        for seq, column in track.columns.items():
            pairs = misfits(column)
            if pairs:
                ranks = suspects(pairs)
                sides = (tuple(rank for rank in column if rank not in ranks), ranks)
                found.append(Disagreement(Aspect.SIZE, track, seq, sides))
                break
    return min(found, key=lambda one: min(call.issued_s for call in one.column.values()), default=None)


def _waits(world: Alignment) -> dict[int, Wait]:
    found = {}
    for rank, at in world.places.items():
        if at.call is not None and at.standing == Standing.WAITING:
            missing = _no_partner if at.call.p2p else _not_made if is_about_groups(at.call) else _not_come
            absent = missing(world, rank, at.call)
            found[rank] = Wait(rank, at.call, absent, at.live)
    return found


def _not_made(world: Alignment, rank: int, call: Call) -> tuple[int, ...]:
    return makings.not_come(world, call)


def _not_come(world: Alignment, rank: int, call: Call) -> tuple[int, ...]:
    track = world.tracks[call.group]
    column = track.columns.get(call.seq, {})
    return tuple(r for r in track.members if r in world.views and not _came(world, r, column.get(r)))


def _came(world: Alignment, rank: int, call: Call | None) -> bool:
    if call is None:
        return len(world.calls[rank]) >= SLOTS and world.standing(rank) == Standing.PYTHON  # it may have passed long ago
    if call.state == CallState.DONE:
        return True
    standing = world.standing(rank)
    if standing in (Standing.DEAD, Standing.STOPPED) or (standing == Standing.RAISED and call.state == CallState.FAILED):
        return False
    return not (standing == Standing.PYTHON and call.state == CallState.FAILED)


def _no_partner(world: Alignment, rank: int, call: Call) -> tuple[int, ...]:
    """The peer of a send or recv if it is not at the other end of it, or has let its end go."""
    found = world.partners.get((rank, call.index))
    if found is not None:
        peer, partner = found
        at = world.places[peer]
        held = at.standing not in _LETS_GO or (at.call is not None and at.call.index == partner.index)
        moves = held or find(world.evidence.backend).returns_at_once or not pairs.dropped(call, partner)
        return () if moves else (peer,)
    others = tuple(r for r in world.views if r != rank)
    peers = (call.root,) if call.root >= 0 else others
    if call.algorithm and any(_answers(world.calls.get(peer, ()), rank, call) for peer in peers):
        return ()
    if call.root < 0 and world.ranks_in(Standing.PYTHON, Standing.UNBEGUN):
        return ()  # a recv from anyone is stuck only when nobody can still send
    return tuple(peer for peer in peers if peer in world.views)


# a rank that is stopped or dead moves nothing, whatever it has handed over, and one in Python may still wait for its handle
_LETS_GO = (Standing.FINISHED, Standing.WAITING, Standing.RAISED)


def _answers(calls: tuple[Call, ...], rank: int, call: Call) -> bool:
    """A move of a schedule has its other end open."""
    return any(
        c.p2p
        and c.state in (CallState.ISSUED, CallState.FAILED)
        and pairs.sends(c) != pairs.sends(call)
        and c.root in (rank, -1)
        and c.group == call.group
        for c in calls
    )


# the surest first: a rank of an earlier standing explains the wait, whatever the others do
_SUREST: tuple[tuple[Standing, ...], ...] = (
    (Standing.DEAD, Standing.STOPPED),
    (Standing.RAISED,),
    (Standing.UNASKED,),
    (Standing.FINISHED,),
    (Standing.PYTHON, Standing.UNBEGUN),
)


def _absence(world: Alignment) -> Absence | None:
    if world.algorithm or any(wait.call.algorithm for wait in world.waits.values()):
        return _absence_in_schedule(world)
    missing = tuple(sorted({rank for wait in world.waits.values() for rank in wait.absent}))
    for standings in _SUREST:
        if ranks := tuple(rank for rank in missing if world.standing(rank) in standings):
            return Absence(standings[0], ranks)
    return Absence(Standing.WAITING, missing) if missing else None


def _absence_in_schedule(world: Alignment) -> Absence | None:
    """Who does not go on in a schedule, which can't block by itself: all others are at the moves that their programs have next.

    A rank that sends and receives at once has a line for the receiving half only, so whom it waits for is not looked at: it
    may be the other half's, or nobody, on a slow link.
    """
    at_work = world.ranks_in(Standing.PYTHON, Standing.UNBEGUN)
    begun = tuple(rank for rank, line in world.calls.items() if line and line[-1].state == CallState.BEGUN)
    found: tuple[tuple[Standing, tuple[int, ...]], ...] = (
        (Standing.DEAD, world.ranks_in(Standing.DEAD, Standing.STOPPED)),
        (Standing.RAISED, world.ranks_in(Standing.RAISED)),
        (Standing.FINISHED, tuple(rank for rank in world.ranks_in(Standing.FINISHED) if rank in begun)),
        (
            Standing.PYTHON,
            tuple(rank for rank in at_work if world.waits or rank in begun),
        ),
    )
    return next((Absence(standing, ranks) for standing, ranks in found if ranks), None)
