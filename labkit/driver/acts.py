"""A scripted rank: what it does with a request, as plain data, what is seen of it, and the clock that it is watched by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from ..notes import Finding
from ..places import cell_name
from ..processes import ScriptedPid
from ..timings import POLL_S
from ..wire import Call, CallSite, CodeError, Frame, RankView
from .cells import Clock
from .feed import Seat
from .transport import Pending


@dataclass(frozen=True)
class Act:
    """What one rank does with one request; by default it answers "ok" at once.

    status: "ok", "error" (with `error`, "Type: message", raised at `line` of the cell), or "late": no answer until recovery
        frees the rank. value, shown, printed, names, buffers, findings: what it answers.
    calls: what its beacon shows of the request; see `call`. fires: how many armed faults fire.
    after_s: the answer comes so many seconds later, by the script's clock (in a watched request only).
    process: "running", "stopped" or "dead" from now on. answers: False while the control thread is silent.
    frees: False if no interrupt helps. stack: (line, function) where a busy rank is.
    """

    status: str = "ok"
    value: Any = None
    shown: str = ""
    printed: str = ""
    error: str = ""
    line: int = 1
    names: tuple[str, ...] = ()
    buffers: tuple[bytes, ...] = ()
    findings: tuple[Finding, ...] = ()
    calls: tuple[Call, ...] = ()
    fires: int = 0
    after_s: float = 0.0
    process: str = "running"
    answers: bool = True
    frees: bool = True
    stack: tuple[tuple[int, str], ...] = ()


def ok(value: Any = None, **more: Any) -> Act:
    """Answers with a value.

    >>> ok(3, printed="hello").value
    3
    """
    return Act(value=value, **more)


def raises(error: str, line: int = 1, **more: Any) -> Act:
    """Its code raises.

    >>> raises("ZeroDivisionError: division by zero", line=3).status
    'error'
    """
    return Act("error", error=error, line=line, **more)


def late(*calls: Call, **more: Any) -> Act:
    """Does not answer; it waits in the last of these calls, or runs on if there are none."""
    return Act("late", calls=(*calls[:-1], *(replace(each, state="issued") for each in calls[-1:])), **more)


def dies(*calls: Call, **more: Any) -> Act:
    """Its process ends by SIGKILL, after these calls."""
    return Act("dead", calls=calls, process="dead", **more)


def call(op: str, seq: int = 1, *, line: int = 1, numel: int = 4, state: str = "done", **more: Any) -> Call:
    """A call for a beacon, of float32, in the group of all ranks; the script fills in ranks, cell, and times.

    >>> str(call("all_reduce", 2))
    'all_reduce #2'
    """
    tensor = {} if op == "barrier" else {"shape": (numel,), "dtype": "float32", "num_bytes": 4 * numel}
    adds = {"reduce_op": "sum"} if "reduce" in op else {}
    return Call(**{"index": 0, "seq": seq, "op": op, "site": CallSite("cell", line), "state": state, **tensor, **adds, **more})


Acts = Act | Mapping[int, Act] | Callable[[int, dict[str, Any]], Act]


class ScriptClock(Clock):
    """Seconds that pass when a watched request waits."""

    def __init__(self, on_tick: Callable[[float], None]) -> None:
        self._now_s, self._on_tick = 1.0, on_tick

    def now_s(self) -> float:
        return self._now_s

    def pause(self, futures: Sequence[Future[Any]]) -> None:
        self._now_s += POLL_S
        self._on_tick(self._now_s)


@dataclass
class Rank:
    """What is seen of one scripted rank; `pending` is its newest request, answered or not."""

    rank: int
    pid: ScriptedPid
    act: Act = field(default_factory=Act)
    pending: Pending | None = None
    request: int = 0
    due_s: float = float("inf")
    calls: list[Call] = field(default_factory=list)
    cell: int = 0
    error: CodeError | None = None
    beat_s: float = 0.0
    started_s: float = 0.0
    fired: int = 0

    @property
    def waits(self) -> bool:
        """It is inside of a call."""
        return any(each.state == "issued" for each in self.calls)

    @property
    def busy(self) -> bool:
        return self.pending is not None and not self.pending.done

    def end_calls(self, state: str) -> None:
        self.calls = [replace(each, state=state) if each.state == "issued" else each for each in self.calls]

    def view(self, shift_s: float, seat: Seat, generation: int, *, ask: bool) -> RankView:
        """As a look sees it; `shift_s` leads from the script's time to the machine's."""
        asked = ask and self.pid.state == "running" and (self.act.answers or not self.busy)
        waiting = any(each.waits for each in self.calls)
        calls = tuple(
            replace(c, issued_s=c.issued_s + shift_s, returned_s=c.returned_s and c.returned_s + shift_s) for c in self.calls
        )
        stack = tuple(Frame(cell_name(self.cell), line, name) for line, name in self.act.stack) if self.busy and asked else ()
        return RankView(
            self.rank, int(self.pid), self.pid.state, seat.exit_code,
            activity="idle" if not self.busy else "call" if waiting else "cell", cell=self.cell,
            cell_started_s=self.started_s + shift_s, error=self.error if asked else None, calls=calls, stack=stack,
            stack_from="control" if asked else "", answers=asked or not ask, last_progress_s=self.beat_s + shift_s,
            generation=generation,
        )  # fmt: skip
