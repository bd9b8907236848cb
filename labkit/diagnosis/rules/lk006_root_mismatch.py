"""LK006 root-or-op-mismatch."""

from __future__ import annotations

from ...calls import Aspect
from ...errors import join_ranks
from ...vocabulary import Ending
from ...wire import Call, Verdict
from .. import words
from ..alignment import Alignment, Altered
from ..rule import Rule, rule


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
        if found is None or found.apart or found.aspect is not Aspect.ROOT:
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
