"""LK005 size-mismatch."""

from __future__ import annotations

from ...errors import join_ranks
from ...wire import Call, Verdict
from .. import words
from ..alignment import Alignment, Disagreement
from ..moves import Altered
from ..rule import Rule, rule
from ..sides import agreed, blame, both_sides, column_sides, lines_differ
from .lk001_rank_died import way_of_death


@rule
class SizeMismatch(Rule):
    """Ranks give tensors of different size or dtype to the same collective.

    What: Same operation and number, but another number of elements or another dtype on some rank.
    Why: A short last batch, a model built differently, a cast on one rank only.
    Evidence: The calls' shapes and dtypes. A process that died in such a call is claimed here and not as a dead
    rank: gloo ends the process with the smaller buffer, which need not be the one that is wrong.
    Remedy: Make sizes and dtypes equal before the call: drop or pad the short batch, cast on every rank.
    """

    code = "LK005"
    name = "size-mismatch"
    title = "Ranks give tensors of different size"
    priority = 30

    def claim(self, world: Alignment) -> Verdict | None:
        if world.altered is not None and world.altered.kind == "size":
            return self._message(world, world.altered)
        found = world.disagreement
        if found is None or found.aspect != "size":
            return None
        culprits, hedge = blame(world, found)
        call = words.call_of(found.column, found.sides[0])
        return self.say(
            f"{_text(world, found)}{hedge}.",
            culprits=culprits,
            waiting=words.others_waiting(world, culprits),
            sides=column_sides(world, found),
            next_step=f"Give {words.named(call)} the same shape and dtype on every rank. {words.now(world)}",
            facts=(*_deaths(world, found), *agreed(found), *lines_differ(found), *words.wait_facts(world)),
            ending=words.ending(world, found.column),
        )

    def _message(self, world: Alignment, found: Altered) -> Verdict:
        """In a schedule: a message, or the room made for one, that is not as long as the program has it."""
        call, planned = found.call, found.planned
        by_dtype = call.dtype != planned.dtype
        says = planned.dtype if by_dtype else str(planned.shape[0])
        sent = call.op == "send"
        did = f"sent {_elements(call)} to" if sent else f"made room for {_elements(call)} of"
        dead = world.stand("dead")
        died = f"; {join_ranks(dead)} died of it" if dead else ": nobody is told, and the sums are wrong"
        wait = words.held_up(world, (found.rank,))
        return self.say(
            f"rank {found.rank} {did} rank {found.peer}{'' if sent else chr(39) + 's message'} in {words.step_of(call)}, "
            f"where its program says {says}{died}{f'; {wait}' if wait else ''}.",
            culprits=(found.rank,),
            waiting=words.others_waiting(world, (found.rank,)),
            sides=(
                words.side(world.evidence, (found.rank,), f"{'sent' if sent else 'made room for'} {_elements(call)}", None),
                words.side(world.evidence, (found.peer,), f"{'made room for' if sent else 'sent'} {_elements(planned)}", None),
            ),
            next_step=f"Let both ranks cut the tensor alike. {words.now(world)}",
            facts=words.wait_facts(world),
            ending="abort" if dead else words.ending(world, {}),
        )


def _elements(call: Call) -> str:
    return f"{call.shape[0]} elements of {call.dtype}"


def _text(world: Alignment, found: Disagreement) -> str:
    if found.tie:
        return both_sides(world, found, _described)
    first, *rest = found.sides
    minor = " and ".join(f"{join_ranks(side)} called {_described(words.call_of(found.column, side))}" for side in rest)
    main = words.call_of(found.column, first)
    return f"{minor} while {words.do(first, 'gives', 'give')} it {words.sized(main)}{words.spot(main.site)}"


def _described(call: Call) -> str:
    return f"{words.named(call)} with {words.sized(call)}{words.spot(call.site)}"


def _deaths(world: Alignment, found: Disagreement) -> tuple[str, ...]:
    dead = [rank for rank in found.column if world.standing(rank) == "dead"]
    facts = [f"rank {rank} died of it ({way_of_death(world.views[rank])})" for rank in dead]
    return (*facts, "the process with the smaller buffer is the one that ends") if dead else ()
