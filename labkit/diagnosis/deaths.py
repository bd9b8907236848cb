"""How a process ended, where it was then, and what that means: the words of a rank that died."""

from __future__ import annotations

import signal

from ..vocabulary import CallState
from ..wire import Call, CallSite, RankView
from . import words
from .where import place

_FATAL = {
    signal.SIGSEGV: "a segmentation fault", signal.SIGABRT: "an abort (SIGABRT)", signal.SIGBUS: "a bus error",
    signal.SIGFPE: "an arithmetic error (SIGFPE)", signal.SIGILL: "an illegal instruction",
}  # fmt: skip

_NATIVE = "C or C++ code that this line has called"
_MEANS = {
    signal.SIGSEGV: f"{_NATIVE} has used memory that is not its own: look at what the line gives to it.",
    signal.SIGABRT: f"{_NATIVE} has given up (a failed check, or an exception that it did not catch): "
    "look at what the line gives to it.",
    signal.SIGBUS: f"{_NATIVE} has read memory that is no longer there: a mapped file that was cut, or a full /dev/shm.",
    signal.SIGFPE: f"{_NATIVE} has divided by zero: look at what the line gives to it.",
    signal.SIGILL: f"{_NATIVE} was built for another processor.",
}
_KILLED = "SIGKILL comes from outside, often because the machine is out of memory: use less memory on that rank."
_BUFFER = (
    "gloo ends a process that is sent more than its buffer holds, so the wrong size may be another rank's: "
    "compare what every rank gives to that call (sizes, dtypes, splits). A tensor made by expand() has less memory than its "
    "shape says: give a .contiguous() copy of it."
)
_EXIT = "Do not call exit() or os._exit() in a cell: the process is the rank."


def ended_by(view: RankView) -> signal.Signals | None:
    """The signal that ended a process; None if none did."""
    code = view.exit_code or 0
    number = -code if code < 0 else code - 128
    try:
        return signal.Signals(number) if number > 0 else None
    except ValueError:
        return None


def way_of_death(view: RankView) -> str:
    """How a process ended.

    >>> way_of_death(RankView(0, exit_code=-9)), way_of_death(RankView(0, exit_code=3))
    ('killed by SIGKILL', 'exit code 3')
    """
    if view.exit_code is None:
        return "its process has exited"
    by = ended_by(view)
    return f"killed by {by.name}" if by is not None else f"exit code {view.exit_code}"


def died(view: RankView) -> str:
    """The rank, how it died, and where, as far as that was written down as it ended, or seen before.

    >>> from labkit.wire import Frame
    >>> died(RankView(1, exit_code=-11, stack=(Frame("cell 3", 5, "f"),), stack_from="crash"))
    'rank 1 died of a segmentation fault in f (cell 3, line 5)'
    """
    where = place(view)
    if view.stack_from == "crash" and where:
        by = ended_by(view)
        return f"rank {view.rank} died of {_FATAL[by]} {where}" if by in _FATAL else f"{_plain(view)} {where}"
    return f"{_plain(view)}, last seen {where}" if where else _plain(view)


def _plain(view: RankView) -> str:
    return f"rank {view.rank} died ({way_of_death(view)})"


def last_seen(view: RankView, calls: tuple[Call, ...], cell: int) -> tuple[str, CallSite | None]:
    """What a side says of a dead rank, and its line: that of the stack, else of its last call in this cell."""
    by, where = ended_by(view), place(view).partition(" (")[0]
    way = f"died of {_FATAL[by]}" if by in _FATAL else f"died ({way_of_death(view)})"
    if view.line is not None:
        inside = f" {where}" if where.startswith("in ") else ""
        return (way if view.stack_from == "crash" else f"{way}, last seen{inside}"), view.line
    mine = [call for call in calls if call.cell == cell]  # an older line is not where it died
    if not mine:
        return way, None
    return f"{way}, last seen {'after' if mine[-1].state == CallState.DONE else 'in'} {words.named(mine[-1])}", mine[-1].site


def advice(view: RankView, calls: tuple[Call, ...]) -> str:
    """What to do about such an end."""
    by = ended_by(view)
    in_a_call = bool(calls) and calls[-1].state in (CallState.ISSUED, CallState.FAILED)
    if by == signal.SIGABRT and (in_a_call or view.line is None):
        return _BUFFER
    if by in _MEANS:
        return _MEANS[by]
    if by == signal.SIGKILL:
        return _KILLED
    return f"{by.name} came from outside: find out who sent it." if by is not None else _EXIT
