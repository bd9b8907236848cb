"""LK027 threads-race."""

from __future__ import annotations

from collections.abc import Sequence

from ...calls import site_key
from ...errors import join_ranks
from ...vocabulary import CallState
from ...wire import Call, Verdict
from .. import ways, words
from ..alignment import Alignment, Track
from ..rule import Rule, rule


@rule
class ThreadsRace(Rule):
    """Two threads of a rank call collectives on one process group, and the order is not the same on every rank.

    What: Calls of a group are matched by counting. Which thread comes first is decided anew on every rank.
    Why: A thread that logs, saves or prefetches calls a collective beside the training loop; a pool of threads reduces tensors.
    Evidence: Calls differ, or changed places, and on a rank one call was made while another thread was still in its own; or the
    calls that changed places are of different threads.
    Remedy: One thread makes all calls of a group, or every thread has a group of its own.
    """

    code = "LK027"
    name = "threads-race"
    title = "Two threads of a rank call collectives on one group"
    priority = 6

    def claim(self, world: Alignment) -> Verdict | None:
        error, differ = world.sequence_error, world.disagreement
        if error is not None:
            track, seq, sides = error.track, error.seq, [error.others, error.ranks]
        elif differ is not None:
            track, seq, sides = differ.track, differ.seq, list(differ.sides)
        else:
            return None
        column = track.columns[seq]
        calls = [column[side[0]] for side in sides if side[0] in column]
        swapped = error is not None and error.slip.kind == "swap" and len({words.thread_of(call) for call in calls}) > 1
        at_once = any(_at_once(world, track, rank) for rank in column)
        if not any(map(words.thread_of, calls)) or not (swapped or at_once or _crossed(world, sides, calls)):
            return None
        sizes = _sized if len({site_key(call) for call in calls}) == 1 else lambda call: ""
        group = "the world" if track.group == "world" else f"process group {track.group}"
        firsts = [(join_ranks(side), column[side[0]]) for side in sorted(sides) if side[0] in column]
        text = ", ".join(f"{ranks} called {words.placed(one)}{ways.reached(one)}{sizes(one)} first" for ranks, one in firsts)
        return self.say(
            world,
            f"two threads of a rank call collectives of {group} at the same time, and their order is not the same on every rank: "
            f"{text}. torch matches calls by their order alone",
            tuple(sorted(column)),
            sides=tuple(ways.side(world, side, column[side[0]]) for side in sides if side[0] in column),
            fix="Let one thread make all calls of a group, or give each thread a process group of its own (new_group on every "
            "rank, in one order) and pass group=",
            facts=tuple(f"rank {rank}: calls of {', '.join(_threads(track, rank))}" for rank in sorted(column)),
            ending=words.ending(world, column),
        )  # fmt: skip


def _sized(call: Call) -> str:
    return f" with {words.sized(call)}"


def _threads(track: Track, rank: int) -> list[str]:
    return sorted({words.thread_of(call) or "the main thread" for call in track.line(rank)})


def _at_once(world: Alignment, track: Track, rank: int) -> bool:
    """The rank made a call while it was still inside of another one: that takes two threads."""
    line = [call for call in _calls(world, track.group, rank) if not call.async_op]
    return any(
        (words.thread_of(one) or words.thread_of(two)) and (one.state == CallState.ISSUED or two.issued_s < one.returned_s)
        for at, one in enumerate(line)
        for two in line[at + 1 : at + 2]
    )


def _crossed(world: Alignment, sides: Sequence[tuple[int, ...]], calls: Sequence[Call]) -> bool:
    """Each of two sides has made the other's call after its own, though its own was refused or failed: another thread did."""
    if len(sides) < 2 or len(calls) < 2:
        return False
    return all(
        any(_what(call) == _what(theirs) for call in _calls(world, mine.group, side[0]) if call.index > mine.index)
        for side, mine, theirs in ((sides[0], calls[0], calls[1]), (sides[1], calls[1], calls[0]))
    )


def _calls(world: Alignment, group: str, rank: int) -> list[Call]:
    """A rank's calls of a group in the cell, those after a refusal too."""
    return [call for call in world.views[rank].calls if call.group == group and call.cell == world.focus and call.path]


def _what(call: Call) -> tuple[object, ...]:
    return site_key(call), call.shape, call.dtype
