"""Ranks that come late: LK010 busy-in-python, LK011 straggler."""

from __future__ import annotations

from ...errors import join_ranks
from ...timings import LATE_S, LATE_TIMES, STALL_S
from ...units import format_seconds
from ...vocabulary import Activity, CallState, Ending, Standing
from ...wire import Call, CallSite, RankView, Side, Verdict
from .. import words
from ..alignment import Alignment, Lines, Track
from ..rule import Rule, rule


@rule
class BusyInPython(Rule):
    """A rank is busy outside of any collective while others wait for it.

    What: The rank is alive and runs its cell, but it has not come to the call that the others are in.
    Why: Slow work on one rank, an endless loop, a wait for a file or a lock; or C code that keeps Python's
    interpreter lock (GIL), so that no other thread of that process can run.
    Evidence: Others wait for at least 0.3 s, and the rank is in its cell and in no call; its stack says where. If
    even its control thread does not answer, it holds the interpreter lock.
    Remedy: Look at the line; share the work among the ranks, or move it to where no rank waits for it.
    """

    code = "LK010"
    name = "busy-in-python"
    title = "A rank is busy while others wait for it"
    may_resolve = True

    def claim(self, world: Alignment) -> Verdict | None:
        ranks, waits = _busy_ranks(world), words.main_wait(world, world.waits)
        if not ranks or (waits is None and not world.algorithm):
            return None
        text = " and ".join(_busy(world, rank) for rank in ranks)
        if world.algorithm:
            text += words.wait_in_schedule(world, ranks, before="; ")
        elif waits is not None:
            text += f" while {_waiting(world, words.in_call(world, *waits))}"
        mute = any(_mute(world.views[rank]) for rank in ranks)
        advice = "Find the C code that keeps the lock (py-spy shows it)" if mute else "See why that line takes so long"
        return self.say(
            world,
            text,
            ranks,
            sides=tuple(_side(world, rank) for rank in ranks) + words.wait_sides(world, world.waits),
            fix=f"{advice}, and do not leave such work to one rank alone",
            facts=words.last_calls(world, ranks),
        )


def _busy_ranks(world: Alignment) -> tuple[int, ...]:
    """Those that are missing and have made no call for a while, if others have waited long enough for them."""
    ranks = world.absent(Standing.PYTHON)
    blocked = tuple(r for r, wait in world.waits.items() if wait.call.algorithm or set(wait.absent) & set(ranks))
    if blocked and not world.stalled(blocked):
        return ()
    after_cut = any(not world.waits[rank].live for rank in blocked)
    return tuple(rank for rank in ranks if after_cut or _quiet_s(world, rank) >= STALL_S)


def _quiet_s(world: Alignment, rank: int) -> float:
    """Since a rank's last call."""
    last = world.calls[rank][-1:]
    return world.evidence.taken_s - max((max(call.issued_s, call.returned_s) for call in last), default=0.0)


def _waiting(world: Alignment, text: str) -> str:
    """The wait with its length: "ranks 0-2 have waited for 2.00 s in all_reduce #2"."""
    live = tuple(rank for rank, wait in world.waits.items() if wait.live)
    waited = f" waited for {format_seconds(world.waited_s(live))} in "
    return text.replace(" wait in ", f" have{waited}", 1).replace(" waits in ", f" has{waited}", 1) if live else text


def _mute(view: RankView) -> bool:
    return not view.answers and view.activity != Activity.IDLE


def _site(view: RankView) -> CallSite | None:
    return view.error.site if view.activity == Activity.IDLE and view.error is not None else view.line


def _busy(world: Alignment, rank: int) -> str:
    view, calls = world.views[rank], world.calls[rank]
    if world.standing(rank) == Standing.UNBEGUN:
        return f"rank {rank} has not begun cell {world.focus}"
    if view.activity == Activity.IDLE and calls and calls[-1].state == CallState.FAILED:
        return f"rank {rank} came to {words.placed(calls[-1])} only after the others had stopped waiting"
    did = f"{'was' if view.activity == 'idle' else 'is'} busy in Python"
    did = f"rank {rank} {'holds the interpreter lock (GIL)' if _mute(view) else did}"
    site = _site(view)
    if site is not None:
        return f"{did} at {site}"
    if world.algorithm:
        return did + words.at_step(world, rank)
    return f"{did} after {words.placed(calls[-1])}" if calls else f"{did} in cell {view.cell}"


def _side(world: Alignment, rank: int) -> Side:
    view = world.views[rank]
    did = "holds the interpreter lock" if _mute(view) else "has not come"
    return words.side(world.evidence, (rank,), did, _site(view))


@rule
class Straggler(Rule):
    """A rank came to a collective much later than all the others.

    What: Everything is done and right, but all ranks waited for one, the straggler.
    Why: More work, a slow disk, a longer batch, a throttled device on that rank.
    Evidence: All calls of the cell are done; the last rank entered a call at least 0.5 s after the first, and at
    least four times as late as the second last.
    Remedy: Give that rank less to do before the call, or share the work out.
    """

    code = "LK011"
    name = "straggler"
    title = "One rank is late and all others wait for it"
    may_resolve = True

    def claim(self, world: Alignment) -> Verdict | None:
        if not world.over or world.absence is not None:
            return None
        if world.algorithm:
            return self._late_move(world)
        found = _last_to_come(world)
        if found is None:
            return None
        rank, track, seq = found
        column = track.columns[seq]
        others = tuple(sorted(other for other in column if other != rank))
        call = column[rank]
        first_s = min(c.issued_s for c in column.values())
        behind = format_seconds(call.issued_s - first_s)
        came = [f"rank {r}: +{format_seconds(c.issued_s - first_s)}" for r, c in sorted(column.items())]
        return self.say(
            world,
            f"rank {rank} is a straggler: it came to {words.placed(call)} {behind} after the first rank, and "
            f"{join_ranks(others)} waited for it",
            (rank,),
            waiting=others,
            sides=(words.side(world.evidence, (rank,), f"came {behind} late to {words.named(call)}", call.site),),
            next_step=f"Give rank {rank} less to do before this call, or share the work among the ranks. The world is healthy.",
            facts=(f"came to {words.named(call)}: {', '.join(came)}",),
            ending=Ending.SLOW,
        )

    def _late_move(self, world: Alignment) -> Verdict | None:
        """In a schedule a delay spreads with the messages, so what counts is a rank's own time between two moves."""
        found = late(world.calls)
        if found is None:
            return None
        rank, call, pause_s = found
        others = tuple(other for other in world.calls if other != rank)
        seconds, where = format_seconds(pause_s), words.step_of(call)
        return self.say(
            world,
            f"rank {rank} began {where} {seconds} late, and {join_ranks(others)} waited for it",
            (rank,),
            waiting=others,
            sides=(words.side(world.evidence, (rank,), f"began {where} {seconds} late", None),),
            next_step=f"Give rank {rank} less to do before this step. The world is healthy.",
            facts=("no other rank paused as long between two of its moves",),
            ending=Ending.SLOW,
        )


def _last_to_come(world: Alignment) -> tuple[int, Track, int] | None:
    """The rank that came much later than all others to a call, and where that call is: (rank, track, seq)."""
    worst, found = 0.0, None
    for track in world.tracks.values():
        for seq, column in track.columns.items():
            if len(column) < max(2, len(track.members)) or any(call.state != CallState.DONE for call in column.values()):
                continue
            came = sorted((call.issued_s, rank) for rank, call in column.items())
            late_s, second_s = came[-1][0] - came[0][0], came[-2][0] - came[0][0]
            if late_s >= max(LATE_S, LATE_TIMES * second_s) and late_s > worst:
                worst, found = late_s, (came[-1][1], track, seq)
    return found


def late(lines: Lines) -> tuple[int, Call, float] | None:
    """The rank that paused much longer than any other between two of its moves: (rank, the move after the pause, seconds)."""
    if any(call.state != CallState.DONE for line in lines.values() for call in line):
        return None
    start_s = min((line[0].issued_s for line in lines.values() if line), default=0.0)
    pauses: list[tuple[int, Call, float]] = []
    for rank, line in lines.items():
        ends = [start_s, *(call.returned_s for call in line)]
        mine = [(rank, call, call.issued_s - end_s) for call, end_s in zip(line, ends, strict=False)]
        pauses += [max(mine, key=lambda pause: pause[2])] if mine else []
    pauses.sort(key=lambda pause: -pause[2])
    second_s = pauses[1][2] if len(pauses) > 1 else 0.0
    return pauses[0] if pauses and pauses[0][2] >= max(LATE_S, LATE_TIMES * second_s) else None
