"""LK002 rank-stopped."""

from __future__ import annotations

from ...errors import join_ranks
from ...vocabulary import Standing
from ...wire import Verdict
from .. import words
from ..alignment import Alignment
from ..rule import Rule, rule


@rule
class RankStopped(Rule):
    """A rank's process is stopped.

    What: The process is alive but does not run: it is stopped, as by SIGSTOP.
    Why: Someone sent SIGSTOP, a debugger holds it, or a batch system has suspended the job.
    Evidence: The operating system reports the process as stopped.
    Remedy: SIGCONT lets it continue where it was; recovery sends that, or replaces the rank.
    """

    code = "LK002"
    name = "rank-stopped"
    title = "A rank's process is stopped"
    independent = True
    may_resolve = True

    def claim(self, world: Alignment) -> Verdict | None:
        stopped = world.ranks_in(Standing.STOPPED)
        if not stopped:
            return None
        text = f"{words.verb(stopped, 'is', 'are')} stopped (SIGSTOP)"
        if world.algorithm:
            text += " and".join(words.at_step(world, rank) for rank in stopped)
            text += words.wait_in_schedule(world, stopped, before="; ")
        elif waiting := words.wait_text(world, world.waits):
            text += f" while {waiting}"
        elif len(stopped) == 1:
            text += f"; {words.last_call(world, stopped[0])}"
        sides = tuple(words.side(world.evidence, (rank,), "is stopped", None) for rank in stopped)
        return self.say(
            world,
            text,
            stopped,
            sides=sides + words.wait_sides(world, world.waits),
            next_step=f"SIGCONT lets {join_ranks(stopped)} continue; world.recover() sends it, or starts the rank again.",
            facts=words.last_calls(world, stopped),
        )
