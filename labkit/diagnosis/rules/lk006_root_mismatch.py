"""LK006 root-or-op-mismatch."""

from __future__ import annotations

from ...errors import join_ranks
from ...wire import Call, Verdict
from .. import words
from ..alignment import Alignment
from ..moves import Altered
from ..rule import Rule, rule
from ..sides import agreed, blame, both_sides, column_sides


@rule
class RootMismatch(Rule):
    """Ranks name different roots or reduce ops in the same collective.

    What: Same operation and number, but another root, or another way to reduce (sum here, max there).
    Why: `src=rank` where a constant was meant, a group rank taken for a global one, an option that differs.
    Evidence: The calls' roots and reduce ops. No error need show: with mixed reduce ops every rank reduces its
    piece its own way.
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
        if found is None or found.aspect != "root":
            return None
        calls = [words.call_of(found.column, side) for side in found.sides]
        by_root = len({call.root for call in calls}) > 1

        def described(call: Call) -> str:
            what = f"root {call.root}" if by_root else f"reduce op {call.reduce_op or '(none)'}"
            return f"{words.named(call)} with {what}{words.spot(call.site)}"

        culprits, _ = blame(world, found)
        if found.tie:
            text = both_sides(world, found, described)
        else:
            minor = [f"{join_ranks(s)} called {described(c)}" for s, c in zip(found.sides[1:], calls[1:], strict=True)]
            main = f"root {calls[0].root}" if by_root else f"reduce op {calls[0].reduce_op or '(none)'}"
            text = f"{' and '.join(minor)} while {words.do(found.sides[0], 'names', 'name')} {main}{words.spot(calls[0].site)}"
        return self.say(
            f"{text}.",
            culprits=culprits,
            waiting=words.others_waiting(world, culprits),
            sides=column_sides(world, found),
            next_step=f"Write the {'root' if by_root else 'reduce op'} as a constant, the same on every rank. {words.now(world)}",
            facts=(*agreed(found), *words.wait_facts(world)),
            ending=words.ending(world, found.column),
        )

    def _move(self, world: Alignment, found: Altered) -> Verdict:
        """In a schedule: every rank adds up what comes in by itself."""
        did, says = found.call.reduce_op, found.planned.reduce_op
        others = tuple(rank for rank in world.calls if rank != found.rank)
        return self.say(
            f"rank {found.rank} combines with {did} in {words.step_of(found.call)}, where its program says {says}: "
            "the sums are wrong.",
            culprits=(found.rank,),
            sides=(
                words.side(world.evidence, others, f"kept to {says}", None),
                words.side(world.evidence, (found.rank,), f"combined with {did}", None),
            ),
            next_step="Combine with one reduce op, the same on every rank. Nothing is broken: the world is ready.",
            ending="silent",
        )
