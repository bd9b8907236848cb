"""Calls in another order or number: LK004 order-mismatch, LK008 twins-swapped, LK009 skipped-call."""

from __future__ import annotations

from ...calls import SAME_LINE, Aspect, by_majority, is_tie, site_key
from ...errors import join_ranks
from ...vocabulary import CallState, Ending, Standing
from ...wire import Call, Verdict
from .. import words
from ..alignment import Alignment, SequenceError, Slip
from ..rule import Rule, rule
from ..source import in_loop, unconditional


@rule
class OrderMismatch(Rule):
    """Ranks make different collectives at the same number.

    What: Calls of a process group are matched by counting, and at one number the ranks are in different operations.
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
        if world.absent(Standing.WAITING):
            return self._across_groups(world)
        found = world.disagreement
        if found is None or found.aspect is not Aspect.OP:
            return None
        culprits, hedge = words.blame(world, found)
        first, *rest = found.sides
        minority = [(join_ranks(side), found.call(side)) for side in rest]
        text = " and ".join(f"{ranks} called {call.op}{words.at(call.site)}" for ranks, call in minority)
        return self.say(
            world,
            words.both_sides(found, words.placed) + hedge
            if found.tie
            else f"{text} while {words.in_call(world, first, found.call(first))}",
            culprits,
            sides=words.column_sides(world, found),
            fix=words.SAME_ORDER,
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


def _too_early(world: Alignment, inside: tuple[int, ...]) -> tuple[int, ...]:
    """Of those inside the largest call, the few at another line for whom other ranks wait."""
    sites: dict[str, list[int]] = {}
    for rank in inside:
        sites.setdefault(str(world.waits[rank].call.site), []).append(rank)
    sides = by_majority(sites.values())
    missed = {rank for other in world.waits[inside[0]].absent if other in world.waits for rank in world.waits[other].absent}
    return sides[1] if len(sides) > 1 and not is_tie(sides) and missed & set(sides[1]) else ()


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
        culprits, hedge = _who_swapped(world, found)
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
    if one.site is None or two.site is None or one.site.file != two.site.file:
        return str(one.site), str(two.site), ""
    return f"line {one.site.line}", f"line {two.site.line}", f" in {str(one.site).rpartition(', line ')[0]}"


def _who_swapped(world: Alignment, found: SequenceError) -> tuple[tuple[int, ...], str]:
    if not found.tie:
        return tuple(sorted(found.ranks)), ""
    everyone = tuple(sorted((*found.ranks, *found.others)))
    rank = words.ahead_of_source(world, found.track, found.seq, *everyone) if len(everyone) == 2 else None
    if rank is None:
        return everyone, ""
    return (rank,), f". Most likely rank {rank} is wrong: it does not follow the order of the source"


@rule
class SkippedCall(Rule):
    """A rank left out a collective that the others make, or made one more.

    What: From one call on, a rank's calls are the others' calls moved by one: its sums mix data that does not belong
    together, and whoever has calls left at the end waits.
    Why: A collective under an `if` that is not the same everywhere; a retry or a log on one rank only.
    Evidence: The rank's lines are the others' lines with some left out (skipped) or put in (extra); or a few ranks
    wait in a call after most have finished. A branch with lines of its own is neither.
    Remedy: Call it on every rank and decide afterwards what to do with the result.
    """

    code = "LK009"
    name = "skipped-call"
    title = "A rank skipped a collective, or made one more"
    priority = 10

    def claim(self, world: Alignment) -> Verdict | None:
        if world.slip is not None:
            return self._move(world, world.slip)
        if world.absent(Standing.FINISHED) and not world.algorithm:
            return self._alone(world, world.absent(Standing.FINISHED))
        found = world.sequence_error
        if found is None or found.slip.kind == "swap":
            return None
        culprits, kind, hedge = _who_skipped(world, found)
        longer, shorter = _sides(found)
        odd, partner = found.call(longer[0]), found.call(shorter[0])  # what one side has and the other has not
        count = found.slip.count
        if kind == "skip":
            what = f"{count} calls from {odd.site} on" if count > 1 else f"{odd.op} #{odd.seq}{words.at(odd.site)}"
            text = f"{join_ranks(shorter)} skipped {what}, which {join_ranks(longer)} called"
        else:
            what = f"{count} calls more, from {odd.site} on" if count > 1 else f"an extra {odd.op} #{odd.seq}{words.at(odd.site)}"
            text = f"{join_ranks(longer)} made {what}, which {join_ranks(shorter)} did not make"
        wait = words.wait_text(world, world.waits)
        return self.say(
            world,
            f"{text}{hedge}; from there on the wrong calls are matched{', and ' if wait else ''}{wait}",
            culprits,
            sides=tuple(words.call_side(world, side, found.call(side[0])) for side in (found.ranks, found.others)),
            fix="Call the collective on every rank, or on none",
            facts=(f"#{odd.seq} matches {odd.site} with {partner.site}",),
            ending=words.ending(world, {}),
        )

    def _alone(self, world: Alignment, gone: tuple[int, ...]) -> Verdict | None:
        """A few wait in a call that the many that have finished never made."""
        extra = tuple(rank for rank in world.waiting_for(gone) if not world.waits[rank].call.p2p)
        found = words.main_wait(world, extra)
        if found is None or len(extra) > len(gone):
            return None
        ranks, call = found
        if len(extra) == len(gone) and not _repeats(world, extra[0], gone[0]):
            return None
        finished = f"finished cell {world.focus}"
        return self.say(
            world,
            f"{words.in_call(world, ranks, call)}, an extra call: {words.verb(gone, 'has', 'have')} {finished} without it",
            extra,
            sides=(words.call_side(world, ranks, call), words.side(world.evidence, gone, finished, None)),
            fix="Call the collective on every rank, or on none",
            facts=words.last_calls(world, gone),
        )

    def _move(self, world: Alignment, found: Slip) -> Verdict:
        """In a schedule: messages between two ranks are matched by their order too."""
        where, dead = words.step_of(found.call), world.ranks_in(Standing.DEAD)
        did = f"skipped its part of {where}" if found.kind == "skip" else f"made its part of {where} twice"
        effects = [words.wait_in_schedule(world, (found.rank,)), words.wait_text(world, (found.rank,))]
        effects += [f"{join_ranks(dead)} died of it: it was sent more than it had room for"] if dead else []
        effect = "; ".join(filter(None, effects))
        return self.say(
            world,
            f"rank {found.rank} {did}; from there on the wrong messages are matched{f': {effect}' if effect else ''}",
            (found.rank,),
            sides=(words.side(world.evidence, (found.rank,), did, None), *words.wait_sides(world, world.waits)),
            fix="Let every rank make each move of its program, once",
            ending=Ending.ABORT if dead else words.ending(world, {}),
        )


def _repeats(world: Alignment, rank: int, other: int) -> bool:
    """The rank's call is of a line that ran more often than on `other`, and the source has no loop for it."""
    call = world.waits[rank].call
    if call.site is None or in_loop(world.evidence, call.site):
        return False
    counts = [sum(c.site == call.site for c in world.tracks[call.group].line(r)) for r in (rank, other)]
    return counts[0] > 1 and counts[0] > counts[1]


def _sides(found: SequenceError) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ranks with the call, and those without."""
    return (found.others, found.ranks) if found.slip.kind == "skip" else (found.ranks, found.others)


def _who_skipped(world: Alignment, found: SequenceError) -> tuple[tuple[int, ...], str, str]:
    """Culprits, the kind of their slip, and a hedge. Without a majority the source may tell a skip from an extra call."""
    kind = found.slip.kind
    if not found.tie:
        return tuple(sorted(found.ranks)), kind, ""
    longer, shorter = _sides(found)
    site = found.call(longer[0]).site
    seen = sum(call.site == site for call in found.track.line(longer[0]))
    if len(longer) == 1 and seen > 1 and not in_loop(world.evidence, site):
        return longer, "extra", " (most likely: the source has the call only once)"
    if len(shorter) == 1 and seen == 1 and unconditional(world.evidence, site):
        return shorter, "skip", " (most likely: the call is under no branch)"
    return tuple(sorted((*longer, *shorter))), "skip", f" (or {join_ranks(longer)} made one call too many)"
