"""LK018 handles-an-exception."""

from __future__ import annotations

from ...errors import join_ranks
from ...vocabulary import CallState, Standing
from ...wire import Call, CodeError, Side, Verdict
from .. import ways, words
from ..alignment import Alignment
from ..rule import Rule, rule
from ..standing import handled
from ..where import place, through


@rule
class HandlesAnException(Rule):
    """A rank's code raised, and its handler makes calls that the other ranks do not.

    What: One rank is in an `except`, a `finally` or the end of a `with` of its own, and calls or waits there; the exception
    itself is not seen, since nothing has been raised to the end of the cell yet.
    Why: A handler that saves a checkpoint, logs or cleans up by a collective: only the rank that raised comes there.
    Evidence: Ranks wait for each other, and the main thread of one of them handles an exception (or its call was ended while it
    did) that the others do not handle.
    Remedy: Fix the line that raised. Make no collective in a handler that only some ranks reach.
    """

    code = "LK018"
    name = "handles-an-exception"
    title = "A rank handles an exception while others wait for it"
    priority = 5

    def claim(self, world: Alignment) -> Verdict | None:
        errors = _alone_in_a_handler(world)
        if not errors or not _in_trouble(world, tuple(errors)):
            return None
        if world.sequence_error is not None and not ways.by_exception(world, world.sequence_error):
            return None  # the calls went apart before the exception
        ranks = tuple(errors)
        waiting = tuple(rank for rank in world.waits if rank not in errors)
        waits = words.wait_text(world, waiting)
        text = "; ".join(f"rank {rank} is handling {error.said()}, raised{_at(error)}, and {_does(world, rank)}"
                         for rank, error in errors.items())  # fmt: skip
        return self.say(
            world,
            f"{text}, while {waits}" if waits else text,
            ranks,
            sides=tuple(_side(world, rank, error) for rank, error in errors.items())
            + words.wait_sides(world, (*ranks, *waiting)),
            fix=f"Fix the line that raised; in an except, finally or with of {join_ranks(ranks)} alone, make no collective",
            facts=words.last_calls(world, ranks),
        )


def _alone_in_a_handler(world: Alignment) -> dict[int, CodeError]:
    """The ranks that handle an exception, without those that all ranks handle: their code runs in a handler on purpose."""
    errors = {rank: error for rank, view in world.views.items() if (error := handled(view)) is not None}
    places = {(error.type, str(error.site)) for error in errors.values()}
    everywhere = len(errors) == len(world.views) and len(places) == 1
    return {} if everywhere else errors


def _in_trouble(world: Alignment, ranks: tuple[int, ...]) -> bool:
    """The ranks' calls differ or were refused, or others wait for one of these and have waited for long enough."""
    if not world.agree or any(wait.call.state == CallState.REFUSED for wait in world.waits.values()):
        return True
    blocked = world.waiting_for(ranks)
    return bool(blocked) and world.stalled(blocked)


def _at(error: CodeError) -> str:
    return f" at {error.site}" if error.site is not None else ""


def _does(world: Alignment, rank: int) -> str:
    call = _call(world, rank)
    if call is not None:
        return f"calls {words.placed(call)} from its handler{through(call.path)}"
    return f"is {place(world.views[rank]) or 'in its handler'}"


def _call(world: Alignment, rank: int) -> Call | None:
    at = world.places[rank]
    return at.call if at.standing == Standing.WAITING else None


def _side(world: Alignment, rank: int, error: CodeError) -> Side:
    return words.side(world.evidence, (rank,), f"raised {error.said()}", error.site)
