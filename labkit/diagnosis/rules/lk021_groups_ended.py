"""LK021 groups-ended."""

from __future__ import annotations

from ...errors import join_ranks
from ...vocabulary import Standing
from ...wire import Call, Side, Verdict
from .. import words
from ..alignment import Alignment
from ..makings import ended
from ..rule import Rule, rule

NO_GROUP = "process group has not been initialized"


@rule
class GroupsEnded(Rule):
    """A rank has ended its process groups, and a call needs them.

    What: A rank called destroy_process_group(). Its own calls raise from then on, and those of the others never complete.
    Why: A script's last line was run in a cell, or an early exit on one rank cleans up while the others go on.
    Evidence: The rank's last call about its groups is destroy_process_group(); others wait, or a call raised that there is no
    group, or only some of the ranks did it.
    Remedy: Leave it out of a cell, or call it on every rank as the very last thing.
    """

    code = "LK021"
    name = "groups-ended"
    title = "A rank has ended its process groups"
    priority = 6

    def claim(self, world: Alignment) -> Verdict | None:
        gone = {rank: call for rank, calls in world.calls.items() if (call := ended(calls)) is not None}
        if not gone or not self._is_felt(world, gone):
            return None
        ranks = tuple(sorted(gone))
        by_line: dict[str, list[int]] = {}
        for rank in ranks:
            by_line.setdefault(words.at(gone[rank].site), []).append(rank)
        text = " and ".join(f"{join_ranks(mine)} ended all process groups with destroy_process_group(){line}"
                            for line, mine in by_line.items())  # fmt: skip
        failed = tuple(rank for rank in world.views if _has_none(world, rank))
        others = tuple(rank for rank in world.waits if rank not in gone)
        effects = [f"{join_ranks(failed)} {'has' if len(failed) == 1 else 'have'} no group any more"] if failed else []
        effects += [words.wait_text(world, others)] if others else []
        return self.say(
            world,
            "; ".join([text, *effects]),
            ranks,
            waiting=others,
            sides=(*_sides(world, gone), *words.wait_sides(world, others)),
            facts=words.last_calls(world, tuple(world.views)),
            next_step="Leave destroy_process_group() out of the cell, or call it last on every rank. "
            "world.recover() forms new groups.",
            ending=words.ending(world, {rank: wait.call for rank, wait in world.waits.items()}),
        )

    def _is_felt(self, world: Alignment, gone: dict[int, Call]) -> bool:
        if any(_has_none(world, rank) for rank in gone):
            return True
        others = tuple(rank for rank in world.waits if rank not in gone)
        if others:
            return world.stalled(others)
        here = any(call.cell == world.focus for call in gone.values())
        return world.over and here and len(gone) < len(world.views)


def _has_none(world: Alignment, rank: int) -> bool:
    error = world.views[rank].error
    return world.standing(rank) == Standing.RAISED and error is not None and NO_GROUP in error.message


def _sides(world: Alignment, gone: dict[int, Call]) -> tuple[Side, ...]:
    sides: dict[object, list[int]] = {}
    for rank, call in sorted(gone.items()):
        sides.setdefault(call.site, []).append(rank)
    return tuple(
        words.side(world.evidence, tuple(ranks), "called destroy_process_group()", gone[ranks[0]].site)
        for ranks in sides.values()
    )
