"""LK010 busy-in-python."""

from __future__ import annotations

from ...units import format_seconds
from ...wire import Call, CallSite, RankView, Side, Verdict
from .. import words
from ..alignment import STALL_S, Alignment
from ..rule import Rule, rule


@rule
class BusyInPython(Rule):
    """A rank is busy outside of any collective while others wait for it.

    What: The rank is alive and runs its cell, but it has not come to the call that the others are in.
    Why: Slow work on one rank, an endless loop, a wait for a file or a lock; or C code that keeps Python's
    interpreter lock (GIL), so that nothing else in that process gets a turn.
    Evidence: Others wait for at least 0.3 s, and the rank is in its cell and in no call; its stack says where. If
    even its control thread does not answer, it holds the interpreter lock.
    Remedy: Look at the line; share the work out, or move it to where nobody waits for it.
    """

    code = "LK010"
    name = "busy-in-python"
    title = "A rank has not come: it is busy"
    may_resolve = True

    def claim(self, world: Alignment) -> Verdict | None:
        ranks, waiting_ranks = _busy_ranks(world), tuple(world.waits)
        if not ranks:
            return None
        text = " and ".join(_busy(world, rank) for rank in ranks)
        waits = words.main_wait(world, waiting_ranks)
        live = tuple(rank for rank in waiting_ranks if world.waits[rank].live)
        waited = f" for {format_seconds(world.waited_s(live))}" if live else ""
        if waits is None and not world.algorithm:
            return None
        mute = any(_mute(world.views[rank]) for rank in ranks)
        advice = "Find the C code that keeps the lock (py-spy shows it)" if mute else "See what that line does so long"
        waiting = f" while {_waiting(world, *waits, waited)}" if waits is not None else ""
        if world.algorithm:
            waiting = words.held_up(world, ranks, before="; ")
        return self.say(
            f"{text}{waiting}.",
            culprits=ranks,
            waiting=waiting_ranks,
            sides=tuple(_side(world, rank) for rank in ranks) + words.wait_sides(world, waiting_ranks),
            next_step=f"{advice}, and keep such work off one rank alone. {words.now(world)}",
            facts=words.last_calls(world, ranks) + words.wait_facts(world),
        )


def _busy_ranks(world: Alignment) -> tuple[int, ...]:
    """Those that are missing and have made no call for a while, if others have waited long enough for them."""
    ranks = world.absent("python")
    blocked = tuple(r for r, wait in world.waits.items() if wait.call.algorithm or set(wait.absent) & set(ranks))
    if blocked and not world.stalled(blocked):
        return ()
    after_cut = any(not world.waits[rank].live for rank in blocked)
    return tuple(rank for rank in ranks if after_cut or _quiet_s(world, rank) >= STALL_S)


def _quiet_s(world: Alignment, rank: int) -> float:
    """Since a rank's last call."""
    last = world.calls[rank][-1:]
    return world.evidence.taken_s - max((max(call.issued_s, call.returned_s) for call in last), default=0.0)


def _waiting(world: Alignment, ranks: tuple[int, ...], call: Call, waited: str) -> str:
    return words.in_call(world, ranks, call).replace(" wait in ", f" have waited{waited} in ", 1).replace(
        " waits in ", f" has waited{waited} in ", 1
    ) if waited else words.in_call(world, ranks, call)  # fmt: skip


def _mute(view: RankView) -> bool:
    return not view.answers and view.activity != "idle"


def _site(view: RankView) -> CallSite | None:
    if view.activity == "idle" and view.error is not None:
        return view.error.site
    return view.line


def _busy(world: Alignment, rank: int) -> str:
    view = world.views[rank]
    if world.standing(rank) == "unbegun":
        return f"rank {rank} has not begun cell {world.focus}"
    if _came_late(world, rank):
        return f"rank {rank} came to {words.placed(world.calls[rank][-1])} only when the others had given up"
    was = "was" if view.activity == "idle" else "is"
    what = f"{was} busy in Python"
    if _mute(view):
        what = "holds the interpreter lock (GIL)"
    site = _site(view)
    if site is not None:
        return f"rank {rank} {what} at {site}"
    calls = world.calls[rank]
    if world.algorithm:
        return f"rank {rank} {what}{words.at_step(world, rank)}"
    return f"rank {rank} {what} after {words.placed(calls[-1])}" if calls else f"rank {rank} {what} in cell {view.cell}"


def _came_late(world: Alignment, rank: int) -> bool:
    calls = world.calls[rank]
    return world.views[rank].activity == "idle" and bool(calls) and calls[-1].state == "failed"


def _side(world: Alignment, rank: int) -> Side:
    view = world.views[rank]
    did = "holds the interpreter lock" if _mute(view) else "has not come"
    return words.side(world.evidence, (rank,), did, _site(view))
