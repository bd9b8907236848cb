"""LK029 not-joined."""

from __future__ import annotations

from ...calls import JOINED
from ...errors import join_ranks
from ...vocabulary import CallState
from ...wire import Call, Verdict
from .. import words
from ..alignment import Alignment, Track
from ..rule import Rule, rule

_NONE = Track("", (), {})


@rule
class NotJoined(Rule):
    """Inside of a Join context the learner's code calls a collective of its own, and a rank has run out of batches.

    What: A rank that is done answers for the calls of the Joinables (DDP) until all are done. Nobody answers for other calls, so
    they are matched with Join's own.
    Why: A metric or a flag is reduced in the loop, beside DDP; Join does not know of it.
    Evidence: Calls differ, a rank is at the end of its `with Join(...)`, and others have made a call of their own in it.
    Remedy: Sum on each rank and reduce once after the Join context, or leave the loop together (throw_on_early_termination).
    """

    code = "LK029"
    name = "not-joined"
    title = "A collective inside of Join that Join does not answer"
    priority = 9

    def claim(self, world: Alignment) -> Verdict | None:
        found = world.sequence_error or world.disagreement
        track, seq = (found.track, found.seq) if found is not None else _refused(world)
        if track is None:
            return None
        column = track.columns[seq]
        ended = tuple(sorted(rank for rank, call in column.items() if _at_the_end(world, call)))
        others = tuple(sorted(rank for rank in column if rank not in ended))
        own = next((call for rank in others if (call := _own(track, rank, column[rank])) is not None), None)
        if not ended or own is None:
            return None
        end = column[ended[0]]
        waits = words.wait_text(world, world.waits)
        answers = words.verb(ended, "has no more batches and answers", "have no more batches and answer")
        return self.say(
            world,
            f"{answers} for DDP alone in the Join context{words.at(end.site)}, while {join_ranks(others)} still called "
            f"{words.unnumbered(own)} inside of it: nobody answers that call, so it is matched with one of Join's own"
            f"{f'; {waits}' if waits else ''}",
            ended,
            sides=(words.call_side(world, ended, end), words.side(world.evidence, others, f"called {own.name}", own.site)),
            fix=f"Take {own.name} out of the Join context: sum on each rank and reduce once after it, or let all ranks end the "
            "loop together with Join(..., throw_on_early_termination=True)",
            facts=words.last_calls(world, column),
            ending=words.ending(world, column),
        )


def _refused(world: Alignment) -> tuple[Track | None, int]:
    """Where safe mode has stopped calls that differ in their lines alone."""
    for wait in world.waits.values():
        if wait.call.state == CallState.REFUSED and wait.call.seq in world.tracks.get(wait.call.group, _NONE).columns:
            return world.tracks[wait.call.group], wait.call.seq
    return None, 0


def _at_the_end(world: Alignment, call: Call) -> bool:
    """A rank is at the end of its `with Join(...)`: Join makes calls there for those who go on."""
    return call.part in JOINED and world.evidence.source_line(call.site).startswith(("with ", "async with "))


def _own(track: Track, rank: int, until: Call) -> Call | None:
    """The newest call that is no library's, made by a rank since its Join context began."""
    line = track.line(rank)
    begun = next((at for at, call in enumerate(line) if call.part in JOINED and call.cell == until.cell), len(line))
    return next((call for call in reversed(line[begun:]) if not call.part and call.path), None)
