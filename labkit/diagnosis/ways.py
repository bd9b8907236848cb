"""How ranks came to different calls: the lines they went through, and the branch or loop that decided it, in words."""

from __future__ import annotations

from ..calls import place, route, site_key
from ..errors import join_ranks
from ..vocabulary import CallState
from ..wire import Call, Side
from . import words
from .alignment import Alignment, SequenceError
from .gates import came_first, decider
from .source import in_handler
from .standing import handled

# why a pass of a loop may have no gradient bucket though it has a backward
HIDDEN = (
    "see whether each backward of that rank follows a forward through the DDP model (not its .module), outside of no_sync(), "
    "and whether an exception was caught on the way"
)


def reached(call: Call) -> str:
    """The lines that lead to a call of a helper, with a comma before it: ", reached from cell 7, line 16 -> line 10"; else "".

    >>> from labkit.wire import CallSite
    >>> reached(Call(1, 1, "all_reduce", chain=(CallSite("cell 7", 16), CallSite("cell 7", 10), CallSite("/lib/seg.py", 5))))
    ', reached from cell 7, line 16 -> line 10'
    """
    outer = call.path[:-1]
    return f", reached from {route(outer)}" if outer else ""


def side(world: Alignment, ranks: tuple[int, ...], call: Call) -> Side:
    """The side of ranks that are or were in a call, with the way to it."""
    plain = words.call_side(world, ranks, call)
    return Side(plain.ranks, plain.did + reached(call), plain.site, plain.source)


def depth(one: Call, two: Call) -> int:
    """The frame at which two ways differ; the last one they share if one way ends there."""
    shared = min(len(one.path), len(two.path))
    for at in range(shared):
        if place(one.path[at]) != place(two.path[at]):
            return at
    return max(0, shared - 1)


def went(world: Alignment, found: SequenceError, ranks: tuple[int, ...]) -> str:
    """Where ranks went without the call: "rank 1 went from line 16 straight to barrier at line 17"; "" if that says nothing."""
    call = found.call(ranks[0])
    line = [each for each in found.track.line(ranks[0]) if each.seq < call.seq]
    other = found.call((found.others if ranks == found.ranks else found.ranks)[0])
    if not call.path or site_key(call) == site_key(other):
        return ""
    at = depth(call, other)
    what = call.path[at + 1].function if len(call.path) > at + 1 else call.name
    what = call.name if what.startswith("<") else what
    if not line or not line[-1].path or line[-1].cell != call.cell:
        return f"{join_ranks(ranks)} began with {what} at {call.path[at]}"
    before = line[-1].path
    at = depth(line[-1], call) if [*map(place, before)] != [*map(place, call.path)] else at
    left, came = before[at], call.path[at]
    if place(left) == place(came) and len(before) > at + 1:
        left = before[at + 1]  # one line made both calls, the first by way of a function
    again = " again" if place(left) == place(came) else ""
    way = route((left, came)) if place(left) != place(came) else f"{left} -> line {came.line}"
    return f"{join_ranks(ranks)} went from {way.replace(' -> ', f' straight to {what} at ')}{again}"


def more(world: Alignment, found: SequenceError, ranks: tuple[int, ...]) -> str:
    """How these ranks' call is more than the others': " once more", and the function that made it, with its caller's line."""
    call = found.call(ranks[0])
    line = [each for each in found.track.line(ranks[0]) if each.seq < call.seq]
    again = " once more" if line and site_key(line[-1]) == site_key(call) else ""
    at = depth(call, found.call((found.others if ranks == found.ranks else found.ranks)[0]))
    inner = call.path[at:]
    if len(inner) < 2:
        return again
    helper = next((frame.function for frame in reversed(inner) if not frame.function.startswith("<")), "")
    return f"{again} in {helper} (from line {inner[0].line})" if helper else again


def decided_by(world: Alignment, one: Call, two: Call) -> str:
    """What to look at: the branch or loop that leads to `one` and not to `two`, quoted; "" if none is seen."""
    at = depth(one, two)
    beside = two.path[at] if at < len(two.path) else None
    if found := decider(world.evidence, one.path[at:], one.name, beside):
        return found
    if found := next(filter(None, (came_first(world.evidence, frame) for frame in reversed(one.path[at:]))), ""):
        return found
    return HIDDEN if one.part.startswith("DDP's gradient") else ""


def wrong_since(found: SequenceError) -> int:
    """The first number at which calls of other places were matched and completed; 0 if none was."""
    one, two = found.ranks[0], found.others[0]
    for seq, column in found.track.columns.items():
        if seq >= found.seq and one in column and two in column:
            mine, theirs = column[one], column[two]
            if mine.state == theirs.state == CallState.DONE and site_key(mine) != site_key(theirs):
                return seq
    return 0


def by_exception(world: Alignment, found: SequenceError) -> bool:
    """A rank came to its call there by an exception, which another rule tells."""
    sides = (found.ranks, found.others) if found.tie else (found.ranks,)
    return any(
        handled(world.views[rank]) is not None and (found.open or in_handler(world.evidence, found.call(rank).path))
        for side in sides
        for rank in side
    )
