"""The issued calls of this rank that are not known to be done yet.

Two threads look at them: the main thread as the calls are made and at the end of a cell, and the control thread whenever it
is asked what the rank is doing. A lock keeps every look whole.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

POLL_S = 0.0005


class Line(NamedTuple):
    """A call's slot in the beacon and its number, its group, and its number in the group (0 for point-to-point)."""

    slot: int
    number: int
    group: str = ""
    seq: int = 0


class OpenCalls:
    """Works with their lines in the beacon, oldest first.

    `finish(slot, index, state)` writes the state to the beacon; `has_failed(work)` says how a completed work ended.
    """

    def __init__(self, finish: Callable[[int, int, str], None], has_failed: Callable[[Any], bool]) -> None:
        self._finish, self._has_failed = finish, has_failed
        self._lock = threading.Lock()
        self._works: deque[tuple[Any, Line]] = deque()
        self._unknown: list[tuple[Any, Line]] = []
        self._failed: list[Any] = []

    def __len__(self) -> int:
        return len(self._works) + len(self._unknown)

    def __contains__(self, work: object) -> bool:
        return any(held is work for held, _ in list(self._works))

    def add(self, work: Any, line: Line) -> None:
        """A call whose work can be asked whether it is done."""
        with self._lock:
            self._works.append((work, line))

    def add_unknown(self, work: Any, line: Line) -> None:
        """A call whose work can't be asked; it counts as done, or failed, with its cell, or sooner if something shows it."""
        with self._lock:
            self._unknown.append((work, line))

    def line_of(self, work: object) -> Line | None:
        """The line of an open work; None where it is not known, or over."""
        return next((line for held, line in [*self._unknown, *self._works] if held is work), None)

    def passed(self, line: Line) -> None:
        """A call has completed: so have the group's earlier ones that can't be asked, since every member has made them."""
        if self._unknown:
            self._settle(lambda work, open_line: open_line.group == line.group and 0 < open_line.seq < line.seq)

    def waited(self, work: Any) -> None:
        """Someone's wait for a work has returned without an error."""
        if self._unknown:
            self._settle(lambda open_work, line: open_work is work)

    def returned(self, lines: list[Line]) -> None:
        """Synchronous calls that have returned: they are done, whatever their works say."""
        gone = set(lines)
        with self._lock:
            self._works = deque(each for each in self._works if each[1] not in gone)
            self._unknown = [each for each in self._unknown if each[1] not in gone]
            for line in lines:
                self._finish(line.slot, line.number, "done")

    def _settle(self, is_over: Callable[[Any, Line], bool]) -> None:
        with self._lock:
            over = [each for each in self._unknown if is_over(*each)]
            self._unknown = [each for each in self._unknown if each not in over]
            for _, line in over:
                self._finish(line.slot, line.number, "done")

    def sweep(self, limit: int = 1 << 30) -> None:
        """Mark the calls that have completed, looking at `limit` of them at most."""
        completed = []
        with self._lock:
            for _ in range(min(limit, len(self._works))):
                work, line = self._works[0]
                if not work.is_completed():
                    self._works.rotate(-1)
                    continue
                failed = self._has_failed(work)
                if failed:
                    self._failed.append(work)
                else:
                    completed.append(line)
                self._finish(line.slot, line.number, "failed" if failed else "done")
                self._works.popleft()  # last, so that an interrupt can't lose a call
        for line in completed:
            self.passed(line)

    def begin_cell(self) -> None:
        """Failures are told of one cell only."""
        self._failed.clear()

    def wait(self) -> None:
        """Return when every call has completed; RuntimeError if one of this cell's has failed.

        It polls, so an interrupt arrives. The cell that waits has a deadline of its own.
        """
        self.sweep()
        while self._works:
            time.sleep(POLL_S)
            self.sweep()
        for work in self._failed:
            raise RuntimeError(f"a collective of this cell failed: {work.exception()}")

    def close(self, ok: bool) -> None:
        """The cell is over: what can't be asked is done if the cell ended well."""
        self.sweep()
        with self._lock:
            for _, line in self._unknown:
                self._finish(line.slot, line.number, "done" if ok else "failed")
            self._unknown.clear()

    def clear(self) -> None:
        """Forget every call: its process group is gone."""
        with self._lock:
            self._works.clear()
            self._unknown.clear()
        self._failed.clear()
