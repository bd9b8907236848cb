"""LK011 straggler."""

from __future__ import annotations

from ...errors import join_ranks
from ...timings import LATE_S, LATE_TIMES
from ...units import format_seconds
from ...vocabulary import CallState, Ending
from ...wire import Call, Verdict
from .. import words
from ..alignment import Alignment, Lines, Track
from ..rule import Rule, rule


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
