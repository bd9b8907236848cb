"""LK004 order-mismatch."""

from __future__ import annotations

from ...calls import Aspect, by_majority, is_tie
from ...errors import join_ranks
from ...vocabulary import Standing
from ...wire import Verdict
from .. import ways, words
from ..alignment import Alignment, Disagreement
from ..roots import right_on_the_root_alone
from ..rule import Rule, rule


@rule
class OrderMismatch(Rule):
    """Ranks make different collectives at the same number.

    What: Calls of a process group are matched by counting, and at one number the ranks are in different calls.
    Why: Two calls changed places, or one was left out, on some rank: a set or dict walked in another order, a
    branch that not all ranks take.
    Evidence: Same group and number, different operation, or different places in the code that no `if` chooses between; or
    ranks that wait for each other in different groups.
    Remedy: Let every rank call the same collectives in the same order.
    """

    code = "LK004"
    name = "order-mismatch"
    title = "Ranks call different collectives"
    priority = 30

    def claim(self, world: Alignment) -> Verdict | None:
        if world.absent(Standing.WAITING):
            return self._across_groups(world)
        found = world.disagreement
        if found is None or not (found.aspect is Aspect.OP or found.apart):
            return None
        culprits, hedge = words.blame(world, found)
        first, *rest = found.sides
        minority = [(join_ranks(side), found.call(side)) for side in rest]
        text = " and ".join(f"{ranks} called {words.unnumbered(call)}" for ranks, call in minority)
        return self.say(
            world,
            words.both_sides(found, words.placed) + hedge
            if found.tie
            else f"{text} while {words.in_call(world, first, found.call(first))}",
            culprits,
            sides=words.column_sides(world, found),
            fix=words.SAME_ORDER + _of_threads(found) + _of_a_root(world, found),
            facts=words.mismatch_facts(found),
            ending=words.ending(world, found.column),
        )

    def _across_groups(self, world: Alignment) -> Verdict | None:
        """The ranks of one group's call wait for those of another's."""
        stuck = tuple(rank for rank, wait in world.waits.items() if wait.absent)
        if any(world.waits[rank].call.p2p for rank in stuck) or not world.stalled(stuck):
            return None
        calls: dict[tuple[str, int], list[int]] = {}
        for rank in stuck:
            call = world.waits[rank].call
            calls.setdefault((call.group, call.seq), []).append(rank)
        largest = by_majority(calls.values())[0]
        outside = tuple(rank for rank in world.waits if rank not in largest)
        too_early = _too_early(world, largest)
        culprits = too_early or tuple(sorted(rank for rank in world.waits[largest[0]].absent if rank in world.waits))
        text = f"{words.wait_text(world, outside)} while {words.wait_text(world, largest)}: a deadlock, each waits for the other"
        if len(outside) == len(largest):
            culprits = tuple(sorted((*outside, *largest)))
        elif too_early:
            text += f". {join_ranks(too_early).capitalize()} came too early"
        sides = words.wait_sides(world, world.waits)
        return self.say(world, text, culprits, sides=sides, fix=f"{words.SAME_ORDER}, also across process groups")


def _of_a_root(world: Alignment, found: Disagreement) -> str:
    one, two = (found.call(side) for side in found.sides[:2])
    decided = ways.decided_by(world, one, two) or ways.decided_by(world, two, one)
    told = right_on_the_root_alone(world, decided, one)
    return f"; {decided}; {told}" if told else ""


def _of_threads(found: Disagreement) -> str:
    """What to do more where the calls that differ are of different threads."""
    threads = sorted({words.thread_of(found.call(side)) or "the main thread" for side in found.sides})
    if len(threads) < 2:
        return ""
    named = ", ".join(threads)
    return f"; they come from different threads ({named}): let one thread make all calls of a group, or give each thread its own"


def _too_early(world: Alignment, inside: tuple[int, ...]) -> tuple[int, ...]:
    """Of those inside the largest call, the few at another line for whom other ranks wait."""
    sites: dict[str, list[int]] = {}
    for rank in inside:
        sites.setdefault(str(world.waits[rank].call.site), []).append(rank)
    sides = by_majority(sites.values())
    missed = {rank for other in world.waits[inside[0]].absent if other in world.waits for rank in world.waits[other].absent}
    return sides[1] if len(sides) > 1 and not is_tie(sides) and missed & set(sides[1]) else ()
