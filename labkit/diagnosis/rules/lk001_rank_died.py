"""LK001 rank-died."""

from __future__ import annotations

import signal

from ...backends import find
from ...calls import Aspect
from ...errors import join_ranks
from ...vocabulary import CallState, Ending, Standing
from ...wire import Side, Verdict
from .. import words
from ..alignment import Alignment
from ..deaths import advice, died, last_seen
from ..rule import Rule, rule


@rule
class RankDied(Rule):
    """A rank's process has exited.

    What: The operating system no longer has the rank's process; whatever waits for it waits for good.
    Why: It was killed (often because memory ran out), crashed in native code, or called exit().
    Evidence: The process ended by a signal or with an exit code. Not claimed when the rank's last call differs from the
    others' calls of the same number, or if a move of a schedule was left out or made twice: then that is the cause.
    Remedy: Find out what ended it. Recovery starts a new process for that rank and restores its variables as they were
    before the cell, where they could be kept; those of the others are kept.
    """

    code = "LK001"
    name = "rank-died"
    title = "A rank's process has exited"
    independent = True

    def claim(self, world: Alignment) -> Verdict | None:
        dead = tuple(rank for rank in world.ranks_in(Standing.DEAD) if not _killed_by_mismatch(world, rank))
        if not dead:
            return None
        text = " and ".join(died(world.views[rank]) + words.at_step(world, rank) for rank in dead)
        if world.algorithm:
            text += words.wait_in_schedule(world, dead, before="; ")
        elif waiting := words.wait_text(world, world.waits):
            text += f"{',' * ('last seen' in text)} while {waiting}"
        elif len(dead) == 1:
            text += f"; {words.last_call(world, dead[0])}"
        return self.say(
            world,
            text,
            dead,
            sides=tuple(_side(world, rank) for rank in dead) + words.wait_sides(world, world.waits),
            next_step=f"{_advice(world, dead)} world.recover() starts {join_ranks(dead)} again and restores "
            f"{'its' if len(dead) == 1 else 'their'} variables where that is possible; the other ranks keep theirs.",
            facts=words.last_calls(world, dead),
            ending=Ending.ABORT,
        )


def _side(world: Alignment, rank: int) -> Side:
    return words.side(world.evidence, (rank,), *last_seen(world.views[rank], world.calls[rank], world.evidence.cell))


def _killed_by_mismatch(world: Alignment, rank: int) -> bool:
    """The rank's last call in the group is where the calls differ."""
    other_message = world.slip is not None or (world.altered is not None and world.altered.kind == "size")
    code, calls = world.views[rank].exit_code, world.calls[rank]
    inside = code == -signal.SIGSEGV and bool(calls) and calls[-1].state == CallState.ISSUED
    aborted = (code == -signal.SIGABRT or inside) and find(world.evidence.backend).aborts_on_long_message
    odd = world.odd_message is not None and rank == world.odd_message.receiver
    if (other_message or odd or world.odd_splits is not None) and aborted:
        return True
    if world.odd_splits is not None and code == -signal.SIGSEGV:
        return True  # what came too much was written over other memory
    error, found = world.sequence_error, world.disagreement
    if error is not None and (aborted or inside) and (line := error.track.line(rank)) and line[-1].seq >= error.seq:
        return True  # it was sent what another call gives
    if found is None or rank not in found.column or found.aspect is Aspect.ROOT:
        return False
    return found.aspect is Aspect.SIZE or found.track.line(rank)[-1].seq == found.seq


def _advice(world: Alignment, dead: tuple[int, ...]) -> str:
    return " ".join(dict.fromkeys(advice(world.views[rank], world.calls[rank]) for rank in dead))
