"""A rank's card: what it does, as a state, a short phrase and a detail."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

from ..phrases import cut
from ..places import cell_name
from ..processes import memory_bytes
from ..vocabulary import Activity, CallState, ProcessState, RankState
from ..wire import Call, CodeError, RankCard, RankView
from .core import Seat


class Seen(NamedTuple):
    """What a card says of a rank: its state, the words for it, and where."""

    state: RankState
    phrase: str = ""
    detail: str = ""


def make_card(
    view: RankView, seat: Seat, backend: str, raised: CodeError | None = None, *, reachable: bool = True, mended: bool = False
) -> RankCard:
    """The card of a rank as it was seen; `raised` is what it ended its last cell with, by its own fault.

    `mended`: the ranks were recovered since.
    """
    seen = describe(replace(view, error=None) if mended else view, raised=raised)
    if not reachable and seen.state in (RankState.IDLE, RankState.RAISED, RankState.CUT_OFF):
        seen = Seen(RankState.UNREACHABLE)
    return RankCard(view.rank, view.pid, seat.device, backend, *seen, host=seat.host, memory_bytes=memory_bytes(view.pid))


def describe(view: RankView, *, broken: bool = False, raised: CodeError | None = None) -> Seen:
    """What a rank does: the one place that decides a card's state.

    `broken`: its groups are, so a call can't complete. `raised`: the error of its own that ended its last cell.
    """
    if view.process == ProcessState.DEAD:
        return Seen(RankState.DEAD, "", "" if view.exit_code is None else f"exit code {view.exit_code}")
    seen = _alive(view, broken)
    if seen.state in (RankState.IDLE, RankState.CUT_OFF) and raised is not None:
        where = f" ({raised.site})" if raised.site is not None else ""
        return Seen(RankState.RAISED, f"raised {raised.type}", cut(" ".join(raised.message.split()), 60) + where)
    if view.process == ProcessState.STOPPED:
        return Seen(RankState.STOPPED, "", f"SIGSTOP, {seen.phrase}" if seen.phrase else "SIGSTOP")
    return seen


def _alive(view: RankView, broken: bool) -> Seen:
    if view.activity == Activity.IDLE:
        return (
            Seen(RankState.CUT_OFF, "", f"{view.error.type}; another rank is the cause") if view.error else Seen(RankState.IDLE)
        )
    waiting = [call for call in view.calls if call.waits]
    if not waiting and view.blocked:  # it waits for an asynchronous call
        waiting = [call for call in view.calls if call.state == CallState.ISSUED][:1]
    if waiting:
        call = waiting[-1]
        detail = f"for {max(0.0, time.monotonic() - call.issued_s):.1f} s"
        where = f"{call.site}, {detail}" if call.site else detail
        return Seen(RankState.STUCK, f"stuck in {call}", where) if broken else Seen(RankState.WAITING, f"in {call}", where)
    if view.activity != Activity.CELL:
        return Seen(RankState.IDLE)
    phrase = f"running {cell_name(view.cell)}"
    if not view.answers:
        return Seen(RankState.RUNNING, phrase, "holds the interpreter lock")
    return Seen(RankState.RUNNING, phrase, str(view.line) if view.line else _passed(view.calls[-1:], view.cell))


def _passed(newest: tuple[Call, ...], cell: int) -> str:
    """The call of this cell that a rank has left behind, where its line is not known."""
    for call in newest:
        if call.site is not None and call.site.file == cell_name(cell):
            return f"past {call}, line {call.site.line}"
    return ""
