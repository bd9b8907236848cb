"""LK023 splits-do-not-fit."""

from __future__ import annotations

from ...errors import join_ranks
from ...splits import misfit_text, misfits, suspects, unit
from ...vocabulary import Standing
from ...wire import Side, Verdict
from .. import words
from ..alignment import Alignment, Disagreement
from ..rule import Rule, rule


@rule
class SplitsDoNotFit(Rule):
    """In an all-to-all, a rank does not take what another gives it.

    What: all_to_all_single (or all_to_all) with splits that do not match pair by pair.
    Why: The counts were computed on each rank by itself, or transposed, or are of the step before; a capacity was cut on one
    rank.
    Evidence: What each rank gives to each other and what that one takes, from the calls of one number. gloo ends the process of
    a rank that is given more than it takes; with less, ranks wait or keep old numbers.
    Remedy: Exchange the counts first (an all_to_all_single of one number for each rank), and split by what arrives.
    """

    code = "LK023"
    name = "splits-do-not-fit"
    title = "The splits of an all-to-all do not match"
    priority = 15

    def claim(self, world: Alignment) -> Verdict | None:
        found = world.odd_splits
        if found is None:
            return None
        pairs = misfits(found.column)
        ranks = suspects(pairs)
        call = found.column[pairs[0].giver]
        dead = tuple(rank for rank in found.column if world.standing(rank) == Standing.DEAD)
        died = f"; {join_ranks(dead)} died of it" if dead else ""
        sites = {str(one.site) for one in found.column.values() if one.site is not None}
        where = words.at(call.site) if len(sites) <= 1 else f" ({' and '.join(sorted(sites))})"
        return self.say(
            world,
            f"the splits of {words.named(call)}{where} do not match: {misfit_text(found.column)}{died}",
            ranks,
            sides=_sides(world, found, tuple(sorted({rank for one in pairs for rank in (one.giver, one.taker)}))),
            fix="Let each rank take from each other just what that one gives it: exchange the counts first",
            facts=words.last_calls(world, ranks),
            ending=words.ending(world, found.column),
        )


def _sides(world: Alignment, found: Disagreement, ranks: tuple[int, ...]) -> tuple[Side, ...]:
    sides = []
    for rank in ranks:
        call = found.column[rank]
        size = len(call.group_ranks)
        given, taken = list(call.splits[:size]), list(call.splits[size:])
        sides.append(words.side(world.evidence, (rank,), f"gives {given} {unit(call)} and takes {taken}", call.site))
    return tuple(sides)
