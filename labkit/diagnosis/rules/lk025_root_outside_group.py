"""LK025 root-outside-group."""

from __future__ import annotations

import re

from ...errors import join_ranks
from ...vocabulary import Ending, Standing
from ...wire import CodeError, Verdict
from .. import words
from ..alignment import Alignment
from ..rule import Rule, rule

_NO_MEMBER = re.compile(r"Global rank (\d+) is not part of group")


@rule
class RootOutsideGroup(Rule):
    """A call on a group names a rank that is not in the group.

    What: torch turns the call down: its `src` or `dst` is no member of the group.
    Why: A rank within the group was meant (the first one, 0), and the argument counts the ranks of the world.
    Evidence: The exception's text on the ranks that made the call. Others may wait for these ranks.
    Remedy: Name a rank of the world that is a member, or pass `group_src` or `group_dst`, which count within the group.
    """

    code = "LK025"
    name = "root-outside-group"
    title = "A call on a group names a rank that is not in it"
    priority = 40

    def claim(self, world: Alignment) -> Verdict | None:
        found = {rank: (error, int(match[1])) for rank in world.ranks_in(Standing.RAISED)
                 if (error := world.views[rank].error) is not None and (match := _NO_MEMBER.search(error.message))}  # fmt: skip
        raised = world.absent(Standing.RAISED)
        if not found or (raised and not set(raised) & set(found)) or (world.waits and not raised):
            return None
        sides: dict[tuple[str, int], list[int]] = {}
        for rank, (error, named) in sorted(found.items()):
            sides.setdefault((words.at(error.site), named), []).append(rank)
        text = " and ".join(f"{join_ranks(ranks)} named rank {named} in a call on a group that rank {named} is not in{where}"
                            for (where, named), ranks in sides.items())  # fmt: skip
        waits = words.wait_text(world, world.waits)
        firsts = [(tuple(ranks), found[ranks[0]][0]) for ranks in sides.values()]
        return self.say(
            world,
            f"{text}{f'; {waits}' if waits else ''}",
            tuple(found),
            sides=(*(words.side(world.evidence, ranks, f"raised {error.type}", error.site) for ranks, error in firsts),
                   *words.wait_sides(world, world.waits)),
            next_step="src and dst count in the world: name a member, or pass group_src or group_dst, which count in the group. "
            + (words.after_fixing(world) if world.waits else "Then run the cell again."),
            facts=tuple(f"rank {rank}: {_plain(error)}" for rank, (error, _) in found.items()),
            ending=Ending.HANG if any(wait.live for wait in world.waits.values()) else Ending.ERROR,
        )  # fmt: skip


def _plain(error: CodeError) -> str:
    """The error without the address of an object."""
    return re.sub(r" <torch[^>]*>", "", str(error))
