"""LK004 order-mismatch."""

from __future__ import annotations

from ...errors import join_ranks
from ...wire import Call, Verdict
from .. import words
from ..alignment import Alignment
from ..compare import by_majority, is_tie
from ..rule import Rule, rule
from ..sides import agreed, blame, both_sides, column_sides, lines_differ


@rule
class OrderMismatch(Rule):
    """Ranks make different collectives at the same number.

    What: A group's calls are matched by counting, and at one number the ranks are in different operations.
    Why: Two calls changed places, or one was left out, on some rank: a set or dict walked in another order, a
    branch that not all ranks take.
    Evidence: Same group and number, different operation; or ranks that wait for each other in different groups.
    Remedy: Let every rank call the same collectives in the same order.
    """

    code = "LK004"
    name = "order-mismatch"
    title = "Ranks call different collectives"
    priority = 30

    def claim(self, world: Alignment) -> Verdict | None:
        if world.absent("waiting"):
            return self._crossing(world)
        found = world.disagreement
        if found is None or found.aspect != "op":
            return None
        culprits, hedge = blame(world, found)
        first, *rest = found.sides
        main = words.in_call(world, first, words.call_of(found.column, first))
        if found.tie:
            text = both_sides(world, found, words.placed) + hedge
        else:
            minor = " and ".join(f"{join_ranks(s)} called {_unnumbered(words.call_of(found.column, s))}" for s in rest)
            text = f"{minor} while {main}"
        return self.say(
            f"{text}.",
            culprits=culprits,
            waiting=words.others_waiting(world, culprits),
            sides=column_sides(world, found),
            next_step=f"{words.SAME_ORDER}. {words.now(world)}",
            facts=(*agreed(found), *lines_differ(found), *words.wait_facts(world)),
            ending=words.ending(world, found.column),
        )

    def _crossing(self, world: Alignment) -> Verdict | None:
        """In different groups: the ranks of each call wait for those of another."""
        stuck = tuple(rank for rank, wait in world.waits.items() if wait.absent)
        if any(world.waits[rank].call.p2p for rank in stuck) or not world.stalled(stuck):
            return None
        calls: dict[tuple[str, int], list[int]] = {}
        for rank in stuck:
            call = world.waits[rank].call
            calls.setdefault((call.group, call.seq), []).append(rank)
        largest = by_majority(calls.values())[0]
        outside = tuple(rank for rank in world.waits if rank not in largest)
        text = f"{words.wait_text(world, outside)} while {words.wait_text(world, largest)}: they wait for each other"
        too_soon = _too_soon(world, largest)
        culprits = too_soon or tuple(sorted(rank for rank in world.waits[largest[0]].absent if rank in world.waits))
        if len(outside) == len(largest):
            culprits = tuple(sorted((*outside, *largest)))
        elif too_soon:
            text += f"; {join_ranks(too_soon)} came too soon"
        return self.say(
            f"{text}.",
            culprits=culprits,
            waiting=words.others_waiting(world, culprits),
            sides=words.wait_sides(world, world.waits),
            next_step=f"{words.SAME_ORDER}, also across groups. {words.now(world)}",
            facts=words.wait_facts(world),
            ending="hang",
        )


def _too_soon(world: Alignment, inside: tuple[int, ...]) -> tuple[int, ...]:
    """Of those inside the largest call, the few at another line for whom other ranks wait."""
    sites: dict[str, list[int]] = {}
    for rank in inside:
        sites.setdefault(str(world.waits[rank].call.site), []).append(rank)
    sides = by_majority(sites.values())
    missed = {rank for other in world.waits[inside[0]].absent if other in world.waits for rank in world.waits[other].absent}
    return sides[1] if len(sides) > 1 and not is_tie(sides) and missed & set(sides[1]) else ()


def _unnumbered(call: Call) -> str:
    return f"{call.op}{words.spot(call.site)}"
