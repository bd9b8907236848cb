"""The issued calls of this rank that are not known to be done yet.

Two threads look at them: the main thread as the calls are made and at the end of a cell, and the control thread whenever it
is asked what the rank is doing. A lock keeps every look whole.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

POLL_S = 0.0005
Line = tuple[int, int]  # a call's slot in the beacon, and its number


class OpenCalls:
    """Works with their lines in the beacon, oldest first.

    `finish(slot, index, state)` writes the state to the beacon; `has_failed(work)` says how a completed work ended.
    """

    def __init__(self, finish: Callable[[int, int, str], None], has_failed: Callable[[Any], bool]) -> None:
        self._finish, self._has_failed = finish, has_failed
        self._lock = threading.Lock()
        self._works: deque[tuple[Any, Line]] = deque()
        self._unknown: list[Line] = []
        self._failed: list[Any] = []

    def __len__(self) -> int:
        return len(self._works) + len(self._unknown)

    def add(self, work: Any, line: Line) -> None:
        """A call whose work can be asked whether it is done."""
        with self._lock:
            self._works.append((work, line))

    def add_unknown(self, line: Line) -> None:
        """A call whose work can't be asked; it counts as done, or failed, with its cell."""
        self._unknown.append(line)

    def sweep(self, limit: int = 1 << 30) -> None:
        """Mark the calls that have completed, looking at `limit` of them at most."""
        with self._lock:
            for _ in range(min(limit, len(self._works))):
                work, (slot, index) = self._works[0]
                if not work.is_completed():
                    self._works.rotate(-1)
                    continue
                failed = self._has_failed(work)
                if failed:
                    self._failed.append(work)
                self._finish(slot, index, "failed" if failed else "done")
                self._works.popleft()  # last, so that an interrupt can't lose a call

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
        for slot, index in self._unknown:
            self._finish(slot, index, "done" if ok else "failed")
        self._unknown.clear()

    def clear(self) -> None:
        """Forget every call: its process group is gone."""
        with self._lock:
            self._works.clear()
        self._unknown.clear()
        self._failed.clear()
