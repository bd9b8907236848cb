"""One fake rank: its namespace, its calls, what it waits for, and what is seen of it."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ...calls import SAME_LINE, parties
from ...errors import ContractError
from ...faults import Interceptor
from ...launching import OWN_NAMES
from ...wire import Call, CallSite, CodeError, Frame, RankView
from ..host import ScriptedPid
from ..transport import Pending, Reply
from .dist import P2P, FakeDist, Group, Issued
from .meeting import Arrival, Meetings
from .tensors import FakeTorch
from .turns import Gone, Seconds, Turn


class FakeRank:
    """Runs one request at a time, in turns with the other ranks."""

    def __init__(self, rank: int, world_size: int, pid: int, clock: Seconds, on_end: Callable[[FakeRank], None]) -> None:
        self.rank, self.world_size, self.clock, self._on_end = rank, world_size, clock, on_end
        self.pid = ScriptedPid(pid)
        self.exit_code: int | None = None
        self.generation, self.mode, self.cell, self.activity = 0, "raw", 0, "idle"
        self.calls: list[Call] = []
        self.error: CodeError | None = None
        self.interceptors: list[Interceptor] = []
        self.num_fired, self.mute, self.refusal = 0, False, ""
        self.before: dict[int, tuple[str, Any]] = {}
        self.asleep_until_s: float | None = None
        self.beat_s = self.cell_started_s = clock.now_s()
        self.meetings: Meetings
        self._counts: dict[str, int] = {}
        self._in_request: dict[str, int] = {}
        self._number = 0
        self._turn: Turn | None = None
        self._pending: Pending | None = None
        self.request = 0
        dist = FakeDist(self)
        self.namespace: dict[str, Any] = {
            "rank": rank, "world_size": world_size, "device": "cpu", "torch": FakeTorch(dist), "dist": dist,
        }  # fmt: skip

    # ---- the context of a fault
    def fired(self) -> None:
        self.num_fired += 1

    # ---- requests
    def start(self, pending: Pending, request: int, work: Callable[[], Reply]) -> None:
        """Begin a request, number `request`; `settle` of the cluster then lets it run."""
        self._pending, self.request, self.refusal, self._in_request = pending, request, "", {}
        self._turn = Turn(lambda: pending.resolve(work()), f"rank {self.rank}")

    @property
    def can_go_on(self) -> bool:
        turn = self._turn
        if turn is None or turn.over or (self.pid.state != "running" and not isinstance(turn.thrown, Gone)):
            return False
        return turn.thrown is not None or turn.ready()

    @property
    def busy(self) -> bool:
        return self._turn is not None and not self._turn.over

    def go_on(self) -> None:
        if self._turn is not None:
            self._turn.give()

    def throw(self, error: BaseException) -> None:
        """Raise something where the rank waits, at its next turn."""
        if self._turn is not None and not self._turn.over and not isinstance(self._turn.thrown, Gone):
            self._turn.thrown = error

    def wait_until(self, ready: Callable[[], bool]) -> None:
        if self._turn is not None:
            self._turn.wait_until(ready)

    def sleep(self, seconds: float) -> None:
        """Until the clock says so, or something is thrown in."""
        self.asleep_until_s = until_s = self.clock.now_s() + seconds
        try:
            self.wait_until(lambda: self.clock.now_s() >= until_s)
        finally:
            self.asleep_until_s = None

    def die(self, exit_code: int) -> None:
        """The process ends here and now; also called from another rank's turn."""
        if self.exit_code is not None:
            return
        self.exit_code, self.pid.state = exit_code, "dead"
        self.throw(Gone())
        if self._pending is not None:
            self._pending.fail("dead")
        self._on_end(self)

    def release(self) -> None:
        """Cut the rank's waits and interrupt its code; nothing reaches one that holds the interpreter lock."""
        if self.mute or not self.busy or self.pid.state != "running":
            return
        waiting = any(call.state == "issued" for call in self.calls)
        self.throw(RuntimeError("[fake] Connection closed by peer: the wait was cut") if waiting else KeyboardInterrupt())

    # ---- generations
    def form(self, generation: int, mode: str, meetings: Meetings) -> None:
        self.generation, self.mode, self.meetings = generation, mode, meetings
        self.interceptors.clear()
        self.calls.clear()
        self._counts.clear()
        self.refusal = ""
        self.beat_s = self.clock.now_s()

    def begin_cell(self) -> None:
        self._number = 0

    # ---- calls
    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function of `dist` was called: through the armed faults, then issued."""
        self._number += 1
        issued = Issued(name, args, kwargs, find_site(), self._number, self.cell)
        return self.through_faults(self.interceptors, issued, self._issue)

    def through_faults(self, faults: Sequence[Interceptor], call: Any, issue: Callable[[Any], Any]) -> Any:
        """Hand a call from one armed fault to the next; the last one issues it."""
        if not faults:
            return issue(call)
        return faults[0].around(call, lambda inner: self.through_faults(faults[1:], inner, issue))

    # ---- moves of a schedule, which are no calls of `dist`
    def note(self, line: Call, *, again: bool = False) -> int:
        """A line for a move, or the newest one anew; its place in `calls`."""
        self.beat_s = line.issued_s
        if again:
            self.calls[-1] = replace(line, index=self.calls[-1].index)
        else:
            self.calls.append(replace(line, index=len(self.calls) + 1))
        return len(self.calls) - 1

    def waiting_for(self, place: int, work: Callable[[], None]) -> None:
        """Do `work`, and mark the line as done or failed by its end."""
        try:
            work()
        except BaseException:
            self._mark(place, "failed")
            raise
        self._mark(place, "done", self.clock.now_s())

    def _issue(self, issued: Issued) -> Any:
        group = issued.given.get("group") or Group("world", tuple(range(self.world_size)))
        if self.rank not in group.ranks:
            return None
        seq = 0
        if issued.name not in P2P:
            seq = self._counts[group.name] = self._counts.get(group.name, 0) + 1
        call = issued.record(len(self.calls) + 1, seq, group, self.clock.tick())
        self.calls.append(call)
        self.beat_s = call.issued_s
        if self.mode == "safe" and seq:
            self._agree(call)
        for tensor in issued.tensors()[:1]:
            self.before[id(tensor)] = (issued.op, tensor.clone())
        arrival = Arrival(self, len(self.calls) - 1, issued.given)
        self.meetings.arrive(arrival)
        if issued.is_async:
            return arrival
        self.wait_in(arrival)
        return issued.given.get("src") if call.op == "recv" else None

    def wait_in(self, arrival: Arrival) -> None:
        try:
            self.wait_until(lambda: arrival.done)
        except BaseException:
            self._mark(arrival.place, "failed")
            raise

    def through(self, arrival: Arrival) -> None:
        """The call is done; the rank goes on at its next turn."""
        arrival.done = True
        self._mark(arrival.place, "done")

    def _mark(self, place: int, state: str, now_s: float | None = None) -> None:
        if place < len(self.calls):
            self.beat_s = self.clock.tick() if now_s is None else now_s
            self.calls[place] = replace(self.calls[place], state=state, returned_s=self.beat_s)

    def _agree(self, call: Call) -> None:
        """Safe mode: wait for the members, compare, and refuse if they differ; a refused call is not counted."""
        place = len(self.calls) - 1
        number = self._in_request[call.group] = self._in_request.get(call.group, 0) + 1
        column = self.meetings.agree(self.request, number, self.rank, call)
        try:
            self.wait_until(lambda: len(column) == len(call.group_ranks) or bool(self.refusal))
            check_agreed(call, column, self.refusal)
        except BaseException:
            self._counts[call.group] -= 1
            self._mark(place, "refused")
            raise

    # ---- what is seen
    def view(self, shift_s: float, *, ask: bool) -> RankView:
        """As a look sees it; `shift_s` leads from this clock's time to the machine's."""
        waiting = any(call.state == "issued" and not call.async_op for call in self.calls)
        answers = not ask or (self.pid.state == "running" and not self.mute)
        calls = tuple(
            replace(c, issued_s=c.issued_s + shift_s, returned_s=c.returned_s + shift_s if c.returned_s else 0.0)
            for c in self.calls
        )
        alive = ask and self.pid.state == "running"
        return RankView(
            self.rank, int(self.pid), self.pid.state, self.exit_code,
            activity="call" if waiting and self.activity == "cell" else self.activity, cell=self.cell,
            cell_started_s=self.cell_started_s + shift_s, error=self.error if alive and not self.mute else None, calls=calls,
            stack=self._stack() if alive else (), stack_from="control" if alive else "", answers=answers,
            last_progress_s=self.beat_s + shift_s, generation=self.generation,
        )  # fmt: skip

    def _stack(self) -> tuple[Frame, ...]:
        frame = sys._current_frames().get(self._turn.ident) if self._turn is not None and self.busy else None
        if frame is None:
            return ()
        frames = traceback.walk_stack(frame)
        seen = [Frame(f.f_code.co_filename, line, f.f_code.co_name) for f, line in frames]
        return tuple(f for f in reversed(seen) if f.file.startswith("cell "))

    def user_names(self) -> tuple[str, ...]:
        return tuple(name for name in self.namespace if not name.startswith("_") and name not in OWN_NAMES)


def find_site() -> CallSite | None:
    """The innermost line of a rank cell on this thread's stack."""
    for frame, line in traceback.walk_stack(sys._getframe(1)):
        if frame.f_code.co_filename.startswith("cell "):
            return CallSite(frame.f_code.co_filename, line, frame.f_code.co_name)
    return None


def check_agreed(call: Call, column: dict[int, Call], refusal: str) -> None:
    """Raise ContractError if the driver has refused the call, or if the members' calls differ."""
    aspect: str = parties(column)[0]
    same_line = all(one.op.startswith(SAME_LINE) for one in column.values())
    if not aspect and same_line and len({str(one.site) for one in column.values()}) > 1:
        aspect = "line"
    text = refusal or (f"the ranks do not agree on the {aspect}" if aspect else "")
    if text:
        raise ContractError(f"{call} was refused: {text}", hint="nothing was issued; mend the cell and run it again")
