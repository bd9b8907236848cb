"""LK003 rank-raised."""

from __future__ import annotations

from ...vocabulary import Standing
from ...wire import CodeError, Verdict
from .. import words
from ..alignment import Alignment
from ..rule import Rule, rule


@rule
class RankRaised(Rule):
    """A rank's code raised an exception, and others wait for that rank.

    What: One rank left its cell with an exception of its own; the others are in a collective that it never reached.
    Why: In a notebook the process lives on after an exception, so nothing tells the other ranks.
    Evidence: The rank is alive and idle, other ranks wait for it, and its cell ended with an exception of its own: not
    one that another rank's fault causes (a closed connection, a timeout, an interrupt).
    Remedy: Fix the line that raised; where an error must be survived, let all ranks agree on it first.
    """

    code = "LK003"
    name = "rank-raised"
    title = "A rank raised an exception while others wait for it"

    def claim(self, world: Alignment) -> Verdict | None:
        ranks = world.absent(Standing.RAISED)
        if not ranks:
            return None
        errors = {rank: world.views[rank].error or CodeError("Exception", "") for rank in ranks}
        where = {rank: words.at(errors[rank].site) + words.at_step(world, rank) for rank in ranks}
        text = " and ".join(f"rank {rank} raised {errors[rank].said()}{where[rank]}" for rank in ranks)
        in_schedule = words.wait_in_schedule(world, ranks, before="; ")
        sides = tuple(words.side(world.evidence, (r,), f"raised {error.type}", error.site) for r, error in errors.items())
        return self.say(
            world,
            text + (in_schedule if world.algorithm else f" and {words.wait_text(world, world.waits)}"),
            ranks,
            sides=sides + words.wait_sides(world, world.waits),
            fix="Fix the line that raised; the other ranks only wait for that rank",
            facts=tuple(f"rank {rank}: {error}" for rank, error in errors.items()),
        )
