"""LK028 outside-group."""

from __future__ import annotations

from ...errors import join_ranks
from ...makings import OUTSIDE
from ...vocabulary import Standing
from ...wire import CallSite, Verdict
from .. import words
from ..alignment import Alignment, Wait
from ..rule import Rule, rule

_INVALID = "Invalid process group specified"  # what torch raises for a send or recv, instead of a warning
_MESSAGES = ("send", "recv", "isend", "irecv")


@rule
class OutsideGroup(Rule):
    """A rank made its call on a process group that it is not in, while others wait for it in their group.

    What: torch only warns, and the call returns at once: nothing is sent. The members of the group that was meant wait.
    Why: The wrong one of several groups was chosen, or the condition that chooses it is off by one rank.
    Evidence: The call came back without being issued, its group has no place for the rank, and ranks wait for this rank in
    the same call on another group.
    Remedy: Choose the group that the rank is in, by the same list of ranks that the groups were made from.
    """

    code = "LK028"
    name = "outside-group"
    title = "A rank made a call on a group that it is not in"
    priority = 7

    def claim(self, world: Alignment) -> Verdict | None:
        if not world.waits or not world.stalled(tuple(world.waits)):
            return None
        found = {rank: one for wait in world.waits.values() for rank in wait.absent if (one := _outside(world, rank, wait))}
        if not found:
            return None
        text = " and ".join(
            f"rank {rank} called {did}{words.at(site)} on a process group that it is not in"
            for rank, (did, site) in found.items()
        )
        ignored = "" if world.absent(Standing.RAISED) else ", so torch only warned and did nothing"
        waiting = world.waiting_for(tuple(found))
        return self.say(
            world,
            f"{text}{ignored}; {words.wait_text(world, waiting)}",
            tuple(found),
            sides=(
                *(
                    words.side(world.evidence, (r,), f"called {did} outside of its groups", site)
                    for r, (did, site) in found.items()
                ),
                *words.wait_sides(world, world.waits),
            ),
            fix=f"Let {join_ranks(tuple(found))} pass the group that it is in (group=): choose it by the lists of ranks that the "
            "groups were made from",
            facts=words.last_calls(world, found),
        )


def _outside(world: Alignment, rank: int, wait: Wait) -> tuple[str, CallSite | None] | None:
    """The newest call of the cell that the rank made outside of its groups, of the kind that is waited for, and its line."""
    error = world.views[rank].error
    if world.standing(rank) == Standing.RAISED and wait.call.p2p and error is not None and _INVALID in error.message:
        return ("send" if "recv" in wait.call.op else "recv"), error.site
    if world.standing(rank) not in (Standing.FINISHED, Standing.WAITING):
        return None
    kinds = _MESSAGES if wait.call.p2p else (wait.call.op, wait.call.name)
    line = [call for call in world.views[rank].calls if call.group == OUTSIDE and call.cell == world.focus and call.op in kinds]
    return (line[-1].op, line[-1].site) if line else None
