"""LK009 skipped-call."""

from __future__ import annotations

from ...errors import join_ranks
from ...places import cell_name
from ...ring import SLOTS
from ...vocabulary import Ending, Standing
from ...wire import Verdict
from .. import ways, words
from ..alignment import Alignment, SequenceError, Slip
from ..roots import right_on_the_root_alone
from ..rule import Rule, rule
from ..source import in_loop, unconditional


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
        if found is None or found.slip.kind == "swap" or ways.by_exception(world, found):
            return None
        culprits, kind, hedge = _blame(world, found)
        longer, shorter = _sides(found)
        odd, partner = found.call(longer[0]), found.call(shorter[0])  # what one side has and the other has not
        count = found.slip.count
        where = words.placed(odd)
        more = ways.more(world, found, longer)
        if kind == "skip":
            what = f"{count} calls from {where} on" if count > 1 else where
            text = f"{join_ranks(shorter)} skipped {what}, which {join_ranks(longer)} called{more}"
        else:
            what = f"{count} calls more, from {where} on" if count > 1 else f"an extra {where}"
            text = f"{join_ranks(longer)} made {what}{more}, which {join_ranks(shorter)} did not make"
        went = ways.went(world, found, shorter)
        decided = ways.decided_by(world, odd, partner)
        decided = "; ".join(filter(None, (decided, right_on_the_root_alone(world, decided, odd))))
        return self.say(
            world,
            f"{text}{hedge}{': ' if went else ''}{went}{_effects(world, found)}",
            culprits,
            sides=tuple(ways.side(world, side, found.call(side[0])) for side in (found.ranks, found.others)),
            fix="Call the collective on every rank, or on none" + (f": {decided}" if decided else ""),
            facts=(f"#{odd.seq} matches {odd.site} with {partner.site}",),
            ending=words.ending(world, dict.fromkeys((*longer, *shorter), odd)),
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
        finished = f"finished {cell_name(world.focus)}"
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


def _effects(world: Alignment, found: SequenceError) -> str:
    """What came of it: wrong results since when, a death, and who waits."""
    since, dead = ways.wrong_since(found), world.ranks_in(Standing.DEAD)
    latest = " at the latest" if found.slip.at == 0 and len(world.calls[found.ranks[0]]) >= SLOTS else ""
    said = [f"from #{since} on{latest} the wrong calls are matched, so the results are wrong since there"] if since else []
    said += [f"{join_ranks(dead)} died of it"] if dead else []
    wait = words.wait_text(world, world.waits) if not found.open else ""
    return "".join(f"; {each}" for each in said) + (f"{', and' if said else ';'} {wait}" if wait else "")


def _repeats(world: Alignment, rank: int, other: int) -> bool:
    """The rank's call is of a line that ran more often than on `other`, and the source has no loop for it."""
    call = world.waits[rank].call
    if call.group not in world.tracks or len(call.path) != 1 or in_loop(world.evidence, call.site):
        return False
    counts = [sum(c.site == call.site for c in world.tracks[call.group].line(r)) for r in (rank, other)]
    return counts[0] > 1 and counts[0] > counts[1]


def _sides(found: SequenceError) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ranks with the call, and those without."""
    return (found.others, found.ranks) if found.slip.kind == "skip" else (found.ranks, found.others)


def _blame(world: Alignment, found: SequenceError) -> tuple[tuple[int, ...], str, str]:
    """Culprits, the kind of their slip, and a hedge. Without a majority the source may tell a skip from an extra call."""
    kind = found.slip.kind
    if not found.tie:
        return tuple(sorted(found.ranks)), kind, ""
    longer, shorter = _sides(found)
    site = found.call(longer[0]).site
    direct = len(found.call(longer[0]).path) == 1  # a helper's line is passed as often as it is called
    seen = sum(call.site == site for call in found.track.line(longer[0]))
    if direct and len(longer) == 1 and seen > 1 and not in_loop(world.evidence, site):
        return longer, "extra", " (most likely: the source has the call only once)"
    if direct and len(shorter) == 1 and seen == 1 and unconditional(world.evidence, site):
        return shorter, "skip", " (most likely: the call is under no branch)"
    return tuple(sorted((*longer, *shorter))), "skip", f" (or {join_ranks(longer)} made one call too many)"
