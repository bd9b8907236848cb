"""LK005 size-mismatch."""

from __future__ import annotations

from ...calls import Aspect, site_key
from ...errors import join_ranks
from ...vocabulary import Ending, Standing
from ...wire import Call, CallSite, Verdict
from .. import words
from ..alignment import Alignment, Altered, Disagreement
from ..deaths import way_of_death
from ..rule import Rule, rule
from ..source import loop_of


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
        if found is None or found.apart or found.aspect not in (Aspect.SIZE, Aspect.SHAPE):
            return None
        culprits, hedge = words.blame(world, found)
        loop = _loop_of_tensors(world, found)
        where = f"`{world.evidence.source_line(loop)}` ({loop})"
        order = f". {where} may go through the tensors in another order there" if loop is not None else ""
        alike = f"Give {words.named(found.call(found.sides[0]))} the same shape and dtype on every rank"
        if _of_objects(found.call(found.sides[0])):
            alike = f"Give {words.named(found.call(found.sides[0]))} a list of the same length on every rank"
        ordered = f"Let every rank go through {where} in the same order; if it does, make the tensors alike in shape and dtype"
        return self.say(
            world,
            _text(found) + hedge + order,
            culprits,
            sides=words.column_sides(world, found),
            fix=ordered if loop is not None else alike,
            facts=(*_deaths(world, found), *words.mismatch_facts(found)),
            ending=words.ending(world, found.column),
        )

    def _message(self, world: Alignment, found: Altered) -> Verdict:
        """In a schedule: a message was sent or expected in another size than its program says."""
        call, planned, sent = found.call, found.planned, found.call.op == "send"
        did, peer_did = ("sent", "expected") if sent else ("expected", "sent")
        says = planned.dtype if call.dtype != planned.dtype else str(planned.shape[0])
        dead = world.ranks_in(Standing.DEAD)
        effect = f"; {join_ranks(dead)} died of it" if dead else ": no rank gets an error, and the sums are wrong"
        wait = words.wait_in_schedule(world, (found.rank,), before="; ")
        return self.say(
            world,
            f"rank {found.rank} {did} {_elements(call)} {'to' if sent else 'from'} rank {found.peer} in {words.step_of(call)}, "
            f"where its program says {says}{effect}{wait}",
            (found.rank,),
            sides=(
                words.side(world.evidence, (found.rank,), f"{did} {_elements(call)}", None),
                words.side(world.evidence, (found.peer,), f"{peer_did} {_elements(planned)}", None),
            ),
            fix="Let both ranks cut the tensor in the same way",
            ending=Ending.ABORT if dead else words.ending(world, {}),
        )


def _loop_of_tensors(world: Alignment, found: Disagreement) -> CallSite | None:
    """The loop that gives each pass a tensor of its own, if the sizes of its passes differ or are not known yet."""
    rank = found.sides[0][0]
    call = found.column[rank]
    here = [each for each in found.track.line(rank) if each.seq < found.seq and site_key(each) == site_key(call)]
    sizes = {(each.shape, each.dtype) for each in (call, *here)}
    if here and len(sizes) == 1:
        return None
    return next((loop for site in reversed(call.path) if (loop := loop_of(world.evidence, site)) is not None), None)


def _elements(call: Call) -> str:
    return f"{call.shape[0]} elements of {call.dtype}"


def _text(found: Disagreement) -> str:
    if found.tie:
        return words.both_sides(found, _described)
    first, *rest = found.sides
    minority = " and ".join(f"{join_ranks(side)} called {_described(found.call(side))}" for side in rest)
    main = found.call(first)
    return f"{minority} while {join_ranks(first)} called it with {_sized(main)}{words.at(main.site)}"


def _described(call: Call) -> str:
    return f"{words.named(call)} with {_sized(call)}{words.at(call.site)}"


def _of_objects(call: Call) -> bool:
    """The first part of a broadcast of objects: it gives the length of each."""
    return call.asked == "broadcast_object_list" and call.dtype == "int64" and len(call.shape) == 1


def _sized(call: Call) -> str:
    return f"a list of {call.shape[0]} objects" if _of_objects(call) else words.sized(call)


def _deaths(world: Alignment, found: Disagreement) -> tuple[str, ...]:
    dead = [rank for rank in found.column if world.standing(rank) == Standing.DEAD]
    facts = [f"rank {rank} died of it ({way_of_death(world.views[rank])})" for rank in dead]
    return (*facts, "gloo ends the process with the smaller buffer") if dead else ()
