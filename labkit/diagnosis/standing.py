"""Where each rank stands: dead, stopped, waiting in a call, or not coming, and why not.

The same is said before and after a deadline has ended the waits: a rank whose last call failed because its wait was ended
was waiting, and an exception that another rank's fault caused (an echo) makes nobody a culprit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..backends import find
from ..vocabulary import PENDING, Activity, CallState, ProcessState, Standing, is_consequence
from ..wire import Call, CodeError, Evidence, RankView


def is_echo(error: CodeError) -> bool:
    """The exception is the consequence of what another rank did, or of an interrupt.

    >>> is_echo(CodeError("RuntimeError", "Connection closed by peer")), is_echo(CodeError("ValueError", "bad batch"))
    (True, False)
    """
    return not error.own and is_consequence(f"{error.type}: {error.message}\n{error.traceback}")


def handled(view: RankView) -> CodeError | None:
    """The exception of its own that a rank is handling, or was when its call was ended from outside."""
    error = view.error
    if error is not None and is_echo(error):
        return error.handling if error.handling is not None and not is_echo(error.handling) else None
    return view.handling if error is None and view.handling is not None and not is_echo(view.handling) else None


def current_calls(view: RankView, generation: int) -> tuple[Call, ...]:
    """The calls that count: of this generation, and after numbers last began anew, as they do in a new generation."""
    if view.generation and view.generation < generation:
        return ()
    last: dict[str, int] = {}
    start = 0
    for call in view.calls:
        if call.p2p:
            continue
        if call.seq <= last.get(call.group, 0):
            start, last = call.index, {}
        if call.state != CallState.REFUSED:  # it has given its number back
            last[call.group] = call.seq
    return _until_refused([call for call in view.calls if call.index >= start and call.state != CallState.INVALID])


def _until_refused(calls: Sequence[Call]) -> tuple[Call, ...]:
    """The calls without those that code made in a cell after safe mode had refused one there: the first is the cause."""
    refused: set[int] = set()
    kept = []
    for call in calls:
        if call.cell not in refused:
            kept.append(call)
        if call.state == CallState.REFUSED:
            refused.add(call.cell)
    return tuple(kept)


@dataclass(frozen=True)
class Place:
    """A rank's standing, and the call it is in when it waits; `live` unless that wait is over."""

    standing: Standing
    call: Call | None = None
    live: bool = False


def place(view: RankView, calls: tuple[Call, ...], evidence: Evidence, focus: int) -> Place:
    """Where a rank stands; `focus` is the cell in question."""
    if view.process in (ProcessState.DEAD, ProcessState.STOPPED):
        return Place(Standing.DEAD if view.process == Standing.DEAD else Standing.STOPPED)
    if view.activity != Activity.IDLE:
        call = live_wait(view, calls, evidence)
        return Place(Standing.WAITING, call, True) if call else Place(_running(view, evidence, focus))
    newest = view.cell == evidence.cell
    if newest and view.error is not None and not is_echo(view.error):
        return Place(Standing.RAISED)
    call = _cut_wait(view, calls, evidence) if newest else None
    return Place(Standing.WAITING, call) if call else Place(_resting(view, calls, evidence, focus))


def live_wait(view: RankView, calls: tuple[Call, ...], evidence: Evidence) -> Call | None:
    """The call a running rank is inside of: a synchronous one, or an asynchronous one it waits for."""
    for call in calls:  # where calls return at once (nccl) several are open, and the oldest holds up the rest
        if call.state == CallState.ISSUED and not call.async_op:
            return call
    pending = [call for call in calls if call.state == CallState.ISSUED]
    if not pending or not calls:
        return None
    if view.activity == Activity.CALL and calls[-1].state == CallState.ISSUED:
        return calls[-1]
    in_wait = view.blocked or (bool(view.stack) and view.stack[-1].name in ("wait", "synchronize"))
    if view.blocked and evidence.mode == "safe":
        return pending[-1]  # safe mode compares one call after the other; the newest is the one that is not let through
    return pending[0] if in_wait or ".wait(" in evidence.source_line(view.line) else None


def still_waiting(evidence: Evidence) -> dict[int, Call]:
    """The running ranks that are inside of a call of the newest cell, also of one that code made after a refusal."""
    found = {}
    for view in evidence.ranks:
        if view.process == ProcessState.RUNNING and view.activity != Activity.IDLE:
            calls = tuple(call for call in view.calls if call.cell == evidence.cell)
            call = live_wait(view, calls, evidence)
            if call is not None:
                found[view.rank] = call
    return found


def _cut_wait(view: RankView, calls: tuple[Call, ...], evidence: Evidence) -> Call | None:
    """The call an idle rank was in when its wait was ended."""
    calls = tuple(call for call in calls if call.cell == evidence.cell)
    if not calls or calls[-1].state not in PENDING:
        return None
    if calls[-1].state == CallState.ISSUED and calls[-1].async_op and view.error is None:
        return None  # an asynchronous call nobody has waited for is in nobody's way
    if find(evidence.backend).returns_at_once:
        return next(call for call in calls if call.state in PENDING)
    return calls[-1]


def _asked(view: RankView, evidence: Evidence) -> bool:
    return not evidence.targets or view.rank in evidence.targets


def _running(view: RankView, evidence: Evidence, focus: int) -> Standing:
    if focus == evidence.cell and not _asked(view, evidence):
        return Standing.UNASKED
    return Standing.FINISHED if view.cell > focus else Standing.PYTHON


def _resting(view: RankView, calls: tuple[Call, ...], evidence: Evidence, focus: int) -> Standing:
    took_part = any(call.cell == focus for call in calls)
    if focus == evidence.cell:
        if not _asked(view, evidence):
            return Standing.UNASKED
        if view.error is not None and view.cell == focus:
            return Standing.PYTHON  # interrupted, or told off, outside of any call
        return Standing.FINISHED if took_part or view.cell >= focus else Standing.UNBEGUN
    # who was asked to run an older cell is no longer known; its calls are
    return Standing.FINISHED if took_part or view.cell == focus else Standing.UNASKED
