"""LK012 not-everyone-was-sent."""

from __future__ import annotations

from ...errors import join_ranks
from ...places import cell_name
from ...vocabulary import Standing
from ...wire import Verdict
from .. import words
from ..alignment import Alignment
from ..rule import Rule, rule


@rule
class NotEveryoneWasSent(Rule):
    """A cell that was sent to some ranks makes a call that needs others too.

    What: Ranks wait in a call for ranks that were never asked to run this cell.
    Why: `%%ranks 0,1` around a collective of the whole world.
    Evidence: The missing ranks are not among the cell's targets; for an older cell, they have made no call in it.
    Remedy: Send the cell to every rank of the group, or use a group of just those ranks.
    """

    code = "LK012"
    name = "not-everyone-was-sent"
    title = "Not every rank was sent this cell"

    def claim(self, world: Alignment) -> Verdict | None:
        ranks, waits = world.absent(Standing.UNASKED), words.main_wait(world, world.waits)
        if not ranks or waits is None:
            return None
        targets = world.evidence.targets if world.focus == world.evidence.cell else ()
        if targets:
            why = f"but {cell_name(world.focus)} was sent only to {join_ranks(targets)}"
        else:
            why = f"but {words.verb(ranks, 'has', 'have')} not run {cell_name(world.focus)}"
        return self.say(
            world,
            f"{words.in_call(world, *waits)}, which needs {join_ranks(ranks)} too, {why}",
            ranks,
            sides=(*words.wait_sides(world, world.waits), words.side(world.evidence, ranks, "was not sent the cell", None)),
            fix="Send the cell to every rank of the process group, or make a group of these ranks",
        )
