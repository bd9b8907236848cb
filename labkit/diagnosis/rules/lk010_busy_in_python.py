"""LK010 busy-in-python."""

from __future__ import annotations

from ...places import cell_name
from ...timings import STALL_S
from ...units import format_seconds
from ...vocabulary import Activity, CallState, Standing
from ...wire import CallSite, RankView, Side, Verdict
from .. import words
from ..alignment import Alignment
from ..rule import Rule, rule
from ..vain import waits_in_vain
from ..where import of_a_thread, place


@rule
class BusyInPython(Rule):
    """A rank is busy outside of any collective while others wait for it.

    What: The rank is alive and runs its cell, but it has not come to the call that the others are in.
    Why: Slow work on one rank, an endless loop, a wait for a file or a lock; or C code that keeps Python's
    interpreter lock (GIL), so that no other thread of that process can run.
    Evidence: Others wait for at least 0.3 s, and the rank is in its cell and in no call; its stack says where. If
    even its control thread does not answer, it holds the interpreter lock.
    Remedy: Look at the line; share the work among the ranks, or move it to where no rank waits for it.
    """

    code = "LK010"
    name = "busy-in-python"
    title = "A rank is busy while others wait for it"
    may_resolve = True

    def claim(self, world: Alignment) -> Verdict | None:
        ranks, waits = _busy_ranks(world), words.main_wait(world, world.waits)
        if not ranks or (waits is None and not world.algorithm):
            return None
        text = " and ".join(_busy(world, rank) + of_a_thread(world.views[rank]) for rank in ranks)
        if world.algorithm:
            text += words.wait_in_schedule(world, ranks, before="; ")
        elif waits is not None:
            late = tuple(rank for rank in ranks if _came_late(world, rank))
            before = ":" if late == ranks else f"{',' * (', ' in text)} while"
            text += f"{before} {_waiting(world, words.in_call(world, *waits))}"
            text += "".join(f"; meanwhile rank {rank} was {place(world.views[rank])}" for rank in late if world.views[rank].path)
        mute = any(_mute(world.views[rank]) for rank in ranks)
        raised = any(world.views[rank].thread_error is not None for rank in ranks)
        never = next((advice for rank in ranks if (advice := waits_in_vain(world.evidence, world.views[rank]))), "")
        advice = "Find the C code that keeps the lock (py-spy shows it)" if mute else "See why that line takes so long"
        return self.say(
            world,
            text,
            ranks,
            sides=(
                *(_side(world, rank) for rank in ranks),
                *words.thread_sides(world, ranks),
                *words.wait_sides(world, world.waits),
            ),
            fix="Fix the line that raised in the thread: what waits for its work waits for good"
            if raised
            else never
            if never and not mute
            else f"{advice}, and do not leave such work to one rank alone",
            facts=words.last_calls(world, ranks),
        )


def _busy_ranks(world: Alignment) -> tuple[int, ...]:
    """Those that are missing and have made no call for a while, if others have waited long enough for them."""
    ranks = world.absent(Standing.PYTHON)
    blocked = tuple(r for r, wait in world.waits.items() if wait.call.algorithm or set(wait.absent) & set(ranks))
    if blocked and not world.stalled(blocked):
        return ()
    after_cut = any(not world.waits[rank].live for rank in blocked)
    return tuple(rank for rank in ranks if after_cut or _quiet_s(world, rank) >= STALL_S)


def _quiet_s(world: Alignment, rank: int) -> float:
    """Since a rank's last call."""
    last = world.calls[rank][-1:]
    return world.evidence.taken_s - max((max(call.issued_s, call.returned_s) for call in last), default=0.0)


def _waiting(world: Alignment, text: str) -> str:
    """The wait with its length: "ranks 0-2 have waited for 2.00 s in all_reduce #2"."""
    live = tuple(rank for rank, wait in world.waits.items() if wait.live)
    waited = f" waited for {format_seconds(world.waited_s(live))} in "
    return text.replace(" wait in ", f" have{waited}", 1).replace(" waits in ", f" has{waited}", 1) if live else text


def _mute(view: RankView) -> bool:
    return not view.answers and view.activity != Activity.IDLE


def _site(view: RankView) -> CallSite | None:
    return view.error.site if view.activity == Activity.IDLE and view.error is not None and not view.path else view.line


def _came_late(world: Alignment, rank: int) -> bool:
    """The waits were over when the rank made its call."""
    calls = world.calls[rank]
    return world.views[rank].activity == Activity.IDLE and bool(calls) and calls[-1].state == CallState.FAILED


def _busy(world: Alignment, rank: int) -> str:
    view, calls = world.views[rank], world.calls[rank]
    if world.standing(rank) == Standing.UNBEGUN:
        return f"rank {rank} has not begun {cell_name(world.focus)}"
    if _came_late(world, rank):
        return f"rank {rank} came to {words.placed(calls[-1])} only after the others had stopped waiting"
    did = f"{'was' if view.activity == 'idle' else 'is'} busy in Python"
    site = _site(view)
    where = place(view) if view.activity != Activity.IDLE else ""
    if where.startswith("in ") and not _mute(view):
        return f"rank {rank} is still {where}"
    did = f"rank {rank} {'holds the interpreter lock (GIL)' if _mute(view) else did}"
    if where or site is not None:
        return f"{did} {where or f'at {site}'}"
    if world.algorithm:
        return did + words.at_step(world, rank)
    return f"{did} after {words.placed(calls[-1])}" if calls else f"{did} in {cell_name(view.cell)}"


def _side(world: Alignment, rank: int) -> Side:
    view = world.views[rank]
    if _came_late(world, rank):
        return words.side(world.evidence, (rank,), "came too late", _site(view))
    where = place(view) if view.activity != Activity.IDLE else ""
    inside = where.partition(" (")[0].partition(", called")[0] if where.startswith("in ") else ""
    did = "holds the interpreter lock" if _mute(view) else f"is still {inside}" if inside else "has not come"
    return words.side(world.evidence, (rank,), did, _site(view))
