"""LK001 rank-died."""

from __future__ import annotations

import signal

from ...backends import find
from ...calls import Aspect
from ...errors import join_ranks
from ...vocabulary import Ending, Standing
from ...wire import RankView, Side, Verdict
from .. import words
from ..alignment import Alignment
from ..rule import Rule, rule


@rule
class RankDied(Rule):
    """A rank's process has exited.

    What: The operating system no longer has the rank's process; whatever waits for it waits for good.
    Why: It was killed (often because memory ran out), crashed in native code, or called exit().
    Evidence: The process ended by a signal or with an exit code. Not claimed when the rank's last call differs from the
    others' calls of the same number, or if a move of a schedule was left out or made twice: then that is the cause.
    Remedy: Find out what ended it. Recovery starts a new process for that rank; the rank's variables are lost,
    those of the others are kept.
    """

    code = "LK001"
    name = "rank-died"
    title = "A rank's process has exited"
    independent = True

    def claim(self, world: Alignment) -> Verdict | None:
        dead = tuple(rank for rank in world.ranks_in(Standing.DEAD) if not _killed_by_mismatch(world, rank))
        if not dead:
            return None
        ways = {rank: way_of_death(world.views[rank]) for rank in dead}
        text = " and ".join(f"rank {rank} died ({ways[rank]}){words.at_step(world, rank)}" for rank in dead)
        if world.algorithm:
            text += words.wait_in_schedule(world, dead, before="; ")
        elif waiting := words.wait_text(world, world.waits):
            text += f" while {waiting}"
        elif len(dead) == 1:
            text += f"; {words.last_call(world, dead[0])}"
        return self.say(
            world,
            text,
            dead,
            sides=tuple(_side(world, rank, ways[rank]) for rank in dead) + words.wait_sides(world, world.waits),
            next_step=f"{_advice(ways)} world.recover() starts {join_ranks(dead)} again; the variables of the others are kept.",
            facts=words.last_calls(world, dead),
            ending=Ending.ABORT,
        )


def _side(world: Alignment, rank: int, way: str) -> Side:
    calls = [call for call in world.calls[rank] if call.cell == world.evidence.cell]  # an older line is not where it died
    return words.side(world.evidence, (rank,), f"died ({way})", calls[-1].site if calls else None)


def _killed_by_mismatch(world: Alignment, rank: int) -> bool:
    """The rank's last call in the group is where the calls differ."""
    other_message = world.slip is not None or (world.altered is not None and world.altered.kind == "size")
    aborted = world.views[rank].exit_code == -signal.SIGABRT and find(world.evidence.backend).aborts_on_long_message
    if other_message and aborted:
        return True
    error, found = world.sequence_error, world.disagreement
    if error is not None and aborted:
        line = error.track.line(rank)
        return bool(line) and line[-1].seq >= error.seq  # it was sent what another call gives
    if found is None or rank not in found.column or found.aspect is Aspect.ROOT:
        return False
    return found.aspect is Aspect.SIZE or found.track.line(rank)[-1].seq == found.seq


def way_of_death(view: RankView) -> str:
    """How a process ended: "killed by SIGKILL", "exit code 3".

    >>> way_of_death(RankView(0, exit_code=-9)), way_of_death(RankView(0, exit_code=3))
    ('killed by SIGKILL', 'exit code 3')
    """
    code = view.exit_code
    if code is None:
        return "its process has exited"
    number = -code if code < 0 else code - 128
    if number > 0:
        try:
            return f"killed by {signal.Signals(number).name}"
        except ValueError:
            pass
    return f"exit code {code}"


def _advice(ways: dict[int, str]) -> str:
    text = " ".join(ways.values())
    if "SIGKILL" in text:
        return "SIGKILL comes from outside, often because the machine is out of memory: use less memory on that rank."
    if "SIGABRT" in text:
        return (
            "gloo ends a process that is sent more than its buffer holds, so the wrong size may be another rank's: "
            "compare what every rank gives to that call (sizes, dtypes, splits)."
        )
    if "exit code" in text:
        return "Do not call exit() in a cell: the process is the rank."
    return "Look in that rank's output for what crashed."
