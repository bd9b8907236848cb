"""LK003 rank-raised."""

from __future__ import annotations

from ...wire import CodeError, Verdict
from .. import words
from ..alignment import Alignment
from ..rule import Rule, rule


@rule
class RankRaised(Rule):
    """A rank's code raised an exception, and others wait for that rank.

    What: One rank left its cell with an exception of its own; the others are in a collective it never reached.
    Why: In a notebook the process lives on after an exception, so nothing tells the others.
    Evidence: The rank is alive and idle, its cell ended with an exception that is not the echo of another
    rank's fault (a closed connection, a timeout, an interrupt), and others wait for it.
    Remedy: Mend the line that raised; where an error must be survived, let all ranks agree on it first.
    """

    code = "LK003"
    name = "rank-raised"
    title = "A rank raised while others wait for it"

    def claim(self, world: Alignment) -> Verdict | None:
        ranks = world.absent("raised")
        if not ranks:
            return None
        errors = {rank: world.views[rank].error or CodeError("Exception", "") for rank in ranks}
        where = {rank: words.spot(errors[rank].site) + words.at_step(world, rank) for rank in ranks}
        text = " and ".join(f"rank {rank} raised {errors[rank].type}{where[rank]}" for rank in ranks)
        held_up, waits = words.held_up(world, ranks, before="; "), words.wait_text(world, world.waits)
        wait = held_up if world.algorithm else f" and {waits}"
        sides = tuple(words.side(world.evidence, (r,), f"raised {error.type}", error.site) for r, error in errors.items())
        return self.say(
            f"{text}{wait}.",
            culprits=ranks,
            waiting=tuple(world.waits),
            sides=sides + words.wait_sides(world, world.waits),
            next_step=f"Mend the line that raised; the other ranks are only waiting for it. {words.now(world)}",
            facts=tuple(f"rank {rank}: {error}" for rank, error in errors.items()) + words.wait_facts(world),
        )
