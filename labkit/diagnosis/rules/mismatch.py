"""Calls that differ: LK005 size-mismatch, LK006 root-or-op-mismatch, LK014 contract-refused."""

from __future__ import annotations

from ...calls import Aspect
from ...errors import join_ranks
from ...vocabulary import CallState, Ending, Standing
from ...wire import Call, Verdict
from .. import words
from ..alignment import Alignment, Altered, Disagreement
from ..rule import Rule, rule
from .absent import way_of_death


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
        if found is None or found.aspect not in (Aspect.SIZE, Aspect.SHAPE):
            return None
        culprits, hedge = words.blame(world, found)
        return self.say(
            world,
            _text(found) + hedge,
            culprits,
            sides=words.column_sides(world, found),
            fix=f"Give {words.named(found.call(found.sides[0]))} the same shape and dtype on every rank",
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


def _elements(call: Call) -> str:
    return f"{call.shape[0]} elements of {call.dtype}"


def _text(found: Disagreement) -> str:
    if found.tie:
        return words.both_sides(found, _described)
    first, *rest = found.sides
    minority = " and ".join(f"{join_ranks(side)} called {_described(found.call(side))}" for side in rest)
    main = found.call(first)
    return f"{minority} while {join_ranks(first)} called it with {words.sized(main)}{words.at(main.site)}"


def _described(call: Call) -> str:
    return f"{words.named(call)} with {words.sized(call)}{words.at(call.site)}"


def _deaths(world: Alignment, found: Disagreement) -> tuple[str, ...]:
    dead = [rank for rank in found.column if world.standing(rank) == Standing.DEAD]
    facts = [f"rank {rank} died of it ({way_of_death(world.views[rank])})" for rank in dead]
    return (*facts, "gloo ends the process with the smaller buffer") if dead else ()


@rule
class RootMismatch(Rule):
    """Ranks name different roots or reduce ops in the same collective.

    What: Same operation and number, but another root, or another way to reduce (sum here, max there).
    Why: `src=rank` where a constant was meant, a group rank taken for a global one, an option that differs.
    Evidence: The calls' roots and reduce ops. There may be no error at all: with mixed reduce ops every rank reduces
    its piece in its own way.
    Remedy: Give root and reduce op as constants that are the same on every rank.
    """

    code = "LK006"
    name = "root-or-op-mismatch"
    title = "Ranks name different roots or reduce ops"
    priority = 30

    def claim(self, world: Alignment) -> Verdict | None:
        if world.altered is not None and world.altered.kind == "op":
            return self._move(world, world.altered) if not world.waits and world.absence is None else None
        found = world.disagreement
        if found is None or found.aspect is not Aspect.ROOT:
            return None
        calls = [found.call(side) for side in found.sides]
        by_root = len({call.root for call in calls}) > 1

        def named(call: Call) -> str:
            return f"root {call.root}" if by_root else f"reduce op {call.reduce_op or '(none)'}"

        def described(call: Call) -> str:
            return f"{words.named(call)} with {named(call)}{words.at(call.site)}"

        culprits, _ = words.blame(world, found)
        minority = [f"{join_ranks(s)} called {described(c)}" for s, c in zip(found.sides[1:], calls[1:], strict=True)]
        majority = f"{words.verb(found.sides[0], 'names', 'name')} {named(calls[0])}{words.at(calls[0].site)}"
        return self.say(
            world,
            words.both_sides(found, described) if found.tie else f"{' and '.join(minority)} while {majority}",
            culprits,
            sides=words.column_sides(world, found),
            fix=f"Write the {'root' if by_root else 'reduce op'} as a constant, the same on every rank",
            facts=words.mismatch_facts(found)[:1],
            ending=words.ending(world, found.column),
        )

    def _move(self, world: Alignment, found: Altered) -> Verdict:
        """In a schedule: every rank reduces by itself what it receives."""
        did, says = found.call.reduce_op, found.planned.reduce_op
        others = tuple(rank for rank in world.calls if rank != found.rank)
        return self.say(
            world,
            f"rank {found.rank} reduces with {did} in {words.step_of(found.call)}, where its program says {says}: "
            "the results are wrong",
            (found.rank,),
            sides=(
                words.side(world.evidence, others, f"reduced with {says}", None),
                words.side(world.evidence, (found.rank,), f"reduced with {did}", None),
            ),
            next_step="Use one reduce op, the same on every rank. The world is healthy: run the schedule again.",
            ending=Ending.SILENT,
        )


@rule
class ContractRefused(Rule):
    """Safe mode refused a collective, and no other rule says why.

    What: The ranks' calls were compared before they were issued, and they did not match.
    Why: Some part of the call differs that the beacon does not show.
    Evidence: Calls are marked as refused, and operation, size, root and line agree in what is known of them.
    Remedy: Read the ContractError: it names what differs. Nothing was issued, so tensors and group are as before.
    """

    code = "LK014"
    name = "contract-refused"
    title = "Safe mode refused a collective"

    def claim(self, world: Alignment) -> Verdict | None:
        refused = tuple(rank for rank, wait in world.waits.items() if wait.call.state == CallState.REFUSED)
        waits = words.main_wait(world, refused)
        if waits is None or not world.agree or world.absence is not None:
            return None
        ranks, call = waits
        errors = {str(error) for rank in ranks if (error := world.views[rank].error) is not None}
        return self.say(
            world,
            f"safe mode refused {words.placed(call)} on {join_ranks(ranks)}: the ranks do not agree on it",
            sides=words.wait_sides(world, refused),
            fix="Read the ContractError: it names what differs",
            facts=tuple(sorted(errors)),
            ending=Ending.ERROR,
        )
