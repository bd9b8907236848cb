"""LK008 twins-swapped."""

from __future__ import annotations

from ...calls import SAME_LINE, by_majority, is_tie, site_key
from ...errors import join_ranks
from ...vocabulary import CallState, Ending
from ...wire import Call, Verdict
from .. import ways, words
from ..alignment import Alignment, SequenceError
from ..rule import Rule, rule


@rule
class TwinsSwapped(Rule):
    """Two calls that look alike changed places on a rank.

    What: Same operation, size and dtype at every number, but one rank ran two of the lines in the other order.
    Why: A dict, a hook or a thread delivers the tensors in another order there. No call fails; the sums are wrong.
    Evidence: All calls are done, and one rank's lines are the others' lines with two of them exchanged; a branch
    with lines of its own is no exchange. In safe mode the first of the two was refused because of its line.
    Remedy: Reduce in an order that every rank derives from the same list, or in one flat buffer.
    """

    code = "LK008"
    name = "twins-swapped"
    title = "Two calls that look alike changed places"
    priority = 20

    def claim(self, world: Alignment) -> Verdict | None:
        found = world.sequence_error
        if found is not None and found.slip.kind == "swap":
            return self._swapped(world, found)
        return self._refused(world) if world.agree and world.absence is None else None

    def _swapped(self, world: Alignment, found: SequenceError) -> Verdict:
        first, second = found.call(found.ranks[0]), found.call(found.ranks[0], found.slip.count)
        early, late, cell = _lines(first, second)
        culprits, hedge = _blame(world, found)
        return self.say(
            world,
            f"{join_ranks(found.ranks)} ran {early} before {late}{cell} ({first.op} #{first.seq} and #{second.seq}). "
            f"{join_ranks(found.others).capitalize()} ran {late} first{hedge}",
            culprits,
            sides=(
                words.call_side(world, found.ranks, first),
                words.call_side(world, found.others, found.call(found.others[0])),
            ),
            fix=f"{words.SAME_ORDER}: torch matches two calls of one shape by their order alone",
            facts=(f"all calls are done, and all agree in {words.sized(first)}",),
            ending=Ending.SILENT,
        )

    def _refused(self, world: Alignment) -> Verdict | None:
        """Safe mode has stopped calls that differ in their lines alone."""
        refused = {rank: wait.call for rank, wait in world.waits.items() if wait.call.state == CallState.REFUSED}
        one = next(iter(refused.values()), None)
        if one is None or not one.op.startswith(SAME_LINE):
            return None
        column = world.tracks[one.group].columns.get(one.seq, {})
        lines: dict[object, list[int]] = {}
        for rank, call in column.items():
            lines.setdefault(site_key(call), []).append(rank)
        sides = by_majority(lines.values())
        if len(sides) < 2:
            return None
        ranks = tuple(column) if is_tie(sides) else tuple(rank for side in sides[1:] for rank in side)
        mine = tuple(rank for rank in ranks if rank in world.waits)
        rest = tuple(rank for rank in refused if rank not in ranks)
        text = ", ".join(f"rank {rank} called {words.placed(world.waits[rank].call)}" for rank in mine)
        if rest:
            text += f" while {join_ranks(rest)} called it at {refused[rest[0]].site}"
        return self.say(
            world,
            f"{text}: two calls that look alike were swapped, or one was left out",
            tuple(sorted(mine)),
            waiting=rest,
            sides=words.wait_sides(world, (*mine, *rest)),
            fix=words.SAME_ORDER,
            ending=Ending.ERROR,
        )


def _lines(one: Call, two: Call) -> tuple[str, str, str]:
    """Both lines, and the cell or file if it is the same: "line 2", "line 1", " in cell 7"."""
    if not one.path or not two.path:
        return str(one.site), str(two.site), ""
    mine, theirs = (call.path[ways.depth(one, two)] for call in (one, two))
    if mine.file != theirs.file:
        return str(mine), str(theirs), ""
    return f"line {mine.line}", f"line {theirs.line}", f" in {str(mine).rpartition(', line ')[0]}"


def _blame(world: Alignment, found: SequenceError) -> tuple[tuple[int, ...], str]:
    if not found.tie:
        return tuple(sorted(found.ranks)), ""
    everyone = tuple(sorted((*found.ranks, *found.others)))
    rank = words.ahead_of_source(world, found.track, found.seq, *everyone) if len(everyone) == 2 else None
    if rank is None:
        return everyone, ""
    return (rank,), f". Most likely rank {rank} is wrong: it does not follow the order of the source"
