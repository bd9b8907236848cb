"""Why ranks wait for good when all calls that were made agree: who is missing, and what it does instead."""

from __future__ import annotations

from ..wire import Call
from .compare import SAME_LINE, by_majority, is_tie, site_key
from .layout import STALL_S, Alignment, Cause, Track
from .moves import LATE_S, LATE_TIMES, altered, late, slip
from .reading import in_loop

_Found = tuple[Cause, tuple[int, ...], tuple[int, ...]]
_NOTHING: _Found = ("", (), ())


def find_cause(world: Alignment) -> _Found:
    """Why those who wait will wait for good; all who could be named by one standing, the surest standing first."""
    by_moves = _by_moves(world)
    if by_moves[0]:
        return by_moves
    moving = world.algorithm or any(wait.call.algorithm for wait in world.waits.values())
    return _in_schedule(world) if moving else _in_calls(world)


def _in_calls(world: Alignment) -> _Found:
    waits = world.waits
    everyone = tuple(waits)
    missing = {rank for wait in waits.values() for rank in wait.absent}
    blockers = missing - set(waits)
    if any(world.standing(rank) in ("dead", "stopped") for rank in missing):
        return _NOTHING
    named = {s: tuple(sorted(r for r in blockers if world.standing(r) == s)) for s in ("raised", "unasked", "finished")}
    if named["raised"]:
        return "raised", named["raised"], everyone
    if named["unasked"]:
        return "unasked", named["unasked"], everyone
    if named["finished"]:
        return _left(world, named["finished"])
    busy = tuple(sorted(r for r in blockers if world.standing(r) in ("python", "unbegun")))
    if busy:
        return _busy(world, busy)
    if missing:
        return _circle(world)
    return _refused(world) if waits else _slow(world)


def _in_schedule(world: Alignment) -> _Found:
    """Who does not go on in a schedule that can't block by itself; all others are at the moves that their programs have next.

    A rank that sends and receives at once has a line for the receiving half only, so whom it waits for is not looked at: it
    may be the other half's, or nobody, on a slow link.
    """
    everyone = tuple(world.waits)
    if world.stand("dead", "stopped"):
        return _NOTHING
    if raised := world.stand("raised"):
        return "raised", raised, everyone
    begun = tuple(rank for rank, line in world.calls.items() if line and line[-1].state == "begun")
    if left := tuple(rank for rank in world.stand("finished") if rank in begun):
        return ("left", left, everyone) if not everyone or world.stalled(everyone) else _NOTHING
    busy = tuple(rank for rank in world.stand("python", "unbegun") if everyone or rank in begun)
    if busy:
        return _busy(world, busy)
    return _NOTHING if everyone else _slow(world)


def _by_moves(world: Alignment) -> _Found:
    """A schedule's moves that are not as their program has them: whoever waits or dies does so because of it."""
    everyone = tuple(world.waits)
    if everyone and not world.stalled(everyone):
        return _NOTHING
    if (slipped := slip(world)) is not None:
        return "slip", (slipped.rank,), everyone
    other = altered(world)
    return ("sizes", (other.rank,), everyone) if other is not None and other.kind == "size" else _NOTHING


def _busy(world: Alignment, ranks: tuple[int, ...]) -> _Found:
    knot = tuple(wait.rank for wait in world.waits.values() if wait.call.algorithm or set(wait.absent) & set(ranks))
    after_cut = any(not world.waits[rank].live for rank in knot)
    still = tuple(rank for rank in ranks if after_cut or _quiet_s(world, rank) >= STALL_S)
    return ("python", still, tuple(world.waits)) if still and (not knot or world.stalled(knot)) else _NOTHING


def _quiet_s(world: Alignment, rank: int) -> float:
    """Since a rank's last call."""
    last = world.calls[rank][-1:]
    return world.evidence.taken_s - max((max(call.issued_s, call.returned_s) for call in last), default=0.0)


def _left(world: Alignment, gone: tuple[int, ...]) -> _Found:
    left_by = [wait for wait in world.waits.values() if set(wait.absent) & set(gone)]
    knot = tuple(wait.rank for wait in left_by if not wait.call.p2p)
    if not knot:
        ranks = tuple(wait.rank for wait in left_by)
        return ("p2p", ranks, tuple(world.waits)) if world.stalled(ranks) else _NOTHING
    call = world.waits[knot[0]].call
    lone = len(knot) < len(gone) or (len(knot) == len(gone) and _repeats(world, knot[0], gone[0], call))
    return ("extra", knot, gone) if lone else ("left", gone, tuple(world.waits))


def _repeats(world: Alignment, rank: int, other: int, call: Call) -> bool:
    """The call's line ran more often on `rank` than on `other`, and the source has no loop for it."""
    if call.site is None or in_loop(world.evidence, call.site):
        return False
    counts = [sum(c.site == call.site for c in world.tracks[call.group].line(r)) for r in (rank, other)]
    return counts[0] > 1 and counts[0] > counts[1]


def _circle(world: Alignment) -> _Found:
    """Everybody waits, and for each other."""
    stuck = tuple(rank for rank, wait in world.waits.items() if wait.absent)
    if not world.stalled(stuck):
        return _NOTHING
    p2p = tuple(rank for rank in stuck if world.waits[rank].call.p2p)
    if p2p:
        return "p2p", p2p, tuple(world.waits)
    knots: dict[tuple[str, int], list[int]] = {}
    for rank in stuck:
        call = world.waits[rank].call
        knots.setdefault((call.group, call.seq), []).append(rank)
    sides = by_majority(knots.values())
    inside, outside = sides[0], tuple(sorted(r for r in world.waits[sides[0][0]].absent if r in world.waits))
    return ("crossing", _stray(world, inside, outside) or outside, inside)


def _stray(world: Alignment, inside: tuple[int, ...], outside: tuple[int, ...]) -> tuple[int, ...]:
    """Of those inside the larger call, the few at another line for whom the ranks outside wait: they came too soon."""
    sites: dict[str, list[int]] = {}
    for rank in inside:
        sites.setdefault(str(world.waits[rank].call.site), []).append(rank)
    sides = by_majority(sites.values())
    missed = {rank for other in outside for rank in world.waits[other].absent}
    return sides[1] if len(sides) > 1 and not is_tie(sides) and missed & set(sides[1]) else ()


def _refused(world: Alignment) -> _Found:
    """Safe mode has stopped calls that look alike: by their lines, or for a reason only its message has."""
    refused = {rank: wait.call for rank, wait in world.waits.items() if wait.call.state == "refused"}
    if not refused:
        return _NOTHING
    one = next(iter(refused.values()))
    column = world.tracks[one.group].columns.get(one.seq, {})
    lines: dict[object, list[int]] = {}
    for rank, call in column.items():
        lines.setdefault(site_key(call), []).append(rank)
    sides = by_majority(lines.values())
    if len(sides) < 2 or not one.op.startswith(SAME_LINE):
        return "refused", (), tuple(refused)
    ranks = tuple(column) if is_tie(sides) else tuple(rank for side in sides[1:] for rank in side)
    return "twins", ranks, tuple(rank for rank in refused if rank not in ranks)


def _slow(world: Alignment) -> _Found:
    if world.algorithm:
        if (other := altered(world)) is not None:
            return "ops", (other.rank,), ()
        waited_for = late(world) if world.over else None
        return ("slow", (waited_for.rank,), ()) if waited_for is not None else _NOTHING
    late_one = lateness(world) if world.over else None
    return ("slow", (late_one[0],), ()) if late_one else _NOTHING


def lateness(world: Alignment) -> tuple[int, Track, int] | None:
    """The rank that came much later than all others to a call, and where that call is: (rank, track, seq)."""
    worst, found = 0.0, None
    for track in world.tracks.values():
        for seq, column in track.columns.items():
            if len(column) < max(2, len(track.members)) or any(call.state != "done" for call in column.values()):
                continue
            came = sorted((call.issued_s, rank) for rank, call in column.items())
            late_s, second_s = came[-1][0] - came[0][0], came[-2][0] - came[0][0]
            if late_s >= max(LATE_S, LATE_TIMES * second_s) and late_s > worst:
                worst, found = late_s, (came[-1][1], track, seq)
    return found
