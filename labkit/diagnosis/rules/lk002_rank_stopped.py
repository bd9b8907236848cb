"""LK002 rank-stopped."""

from __future__ import annotations

from ...errors import join_ranks
from ...wire import Verdict
from .. import words
from ..alignment import Alignment
from ..rule import Rule, rule


@rule
class RankStopped(Rule):
    """A rank's process is stopped.

    What: The process is alive but gets no time to run: it is stopped, as by SIGSTOP.
    Why: Someone sent SIGSTOP, a debugger holds it, or a batch system has suspended the job.
    Evidence: The operating system reports the process as stopped.
    Remedy: It goes on where it was after SIGCONT; recovery sends that, or replaces the rank.
    """

    code = "LK002"
    name = "rank-stopped"
    title = "A rank's process is stopped"
    independent = True
    may_resolve = True

    def claim(self, world: Alignment) -> Verdict | None:
        stopped = world.stand("stopped")
        if not stopped:
            return None
        waiting = words.wait_text(world, world.waits)
        text = f"{words.do(stopped, 'is', 'are')} stopped (SIGSTOP)"
        if world.algorithm:
            where = " and".join(words.at_step(world, rank) for rank in stopped)
            waiting = words.held_up(world, stopped)
            text = f"{text}{where}; {waiting}" if waiting else f"{text}{where}"
        last = words.last_call(world, stopped[0])
        sides = tuple(words.side(world.evidence, (rank,), "is stopped", None) for rank in stopped)
        return self.say(
            f"{text}."
            if world.algorithm
            else f"{text} while {waiting}."
            if waiting
            else f"{text}; {last}."
            if len(stopped) == 1
            else f"{text}.",
            culprits=stopped,
            waiting=tuple(world.waits),
            sides=sides + words.wait_sides(world, world.waits),
            next_step=f"SIGCONT lets {join_ranks(stopped)} go on; world.recover() does that, or starts the rank anew.",
            facts=words.last_calls(world, stopped) + words.wait_facts(world),
        )
