"""LK004 order-mismatch."""

from __future__ import annotations

from ...errors import join_ranks
from ...wire import Call, Verdict
from .. import words
from ..layout import Alignment
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

    def claim(self, world: Alignment) -> Verdict | None:
        if world.cause == "crossing":
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

    def _crossing(self, world: Alignment) -> Verdict:
        outside = tuple(rank for rank in world.waits if rank not in world.knot)
        text = f"{words.wait_text(world, outside)} while {words.wait_text(world, world.knot)}: they wait for each other"
        tie = len(outside) == len(world.knot)
        culprits = tuple(sorted((*outside, *world.knot))) if tie else world.ranks
        if not tie and set(world.ranks) <= set(world.knot):
            text += f"; {join_ranks(world.ranks)} came too soon"
        return self.say(
            f"{text}.",
            culprits=culprits,
            waiting=words.others_waiting(world, culprits),
            sides=words.wait_sides(world, world.waits),
            next_step=f"{words.SAME_ORDER}, also across groups. {words.now(world)}",
            facts=words.wait_facts(world),
            ending="hang",
        )


def _unnumbered(call: Call) -> str:
    return f"{call.op}{words.spot(call.site)}"
