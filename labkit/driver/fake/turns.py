"""One rank at a time: turns between threads, and a clock that stands still while anybody can go on.

So a fake world is repeatable: ranks run in the order of their numbers until each waits, and a second
passes when somebody asks for it, in no time.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from ...errors import DeadlineExceeded
from ...timings import POLL_S
from ..cells import Clock

TICK_S = 1e-5
PATIENCE_S = 5.0  # of real time, for one turn


class Gone(BaseException):
    """Unwinds the thread of a rank whose process has ended."""


class Turn:
    """Work in a thread of its own that goes on only when it is given the turn, and hands it back to wait."""

    def __init__(self, work: Callable[[], None], name: str) -> None:
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._name, self._work = name, work
        self.ready: Callable[[], bool] = lambda: True
        self.thrown: BaseException | None = None
        self.over = self._told_to_go = False
        self._thread = threading.Thread(target=self._run, name=f"labkit-fake-{name}", daemon=True)
        self._thread.start()

    @property
    def ident(self) -> int:
        return self._thread.ident or 0

    def _run(self) -> None:
        self._go.acquire()
        try:
            if self.thrown is None:
                self._work()
        except Gone:
            pass
        finally:
            self.over = True
            self._back.release()

    def give(self) -> None:
        """Let it go on until it waits or ends; code that does neither is ended, and DeadlineExceeded says so."""
        self._go.release()
        if not self._back.acquire(timeout=PATIENCE_S):
            self.over = True
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), ctypes.py_object(Gone))
            raise DeadlineExceeded(
                f"{self._name} of the fake world has run for {PATIENCE_S:g} s without a call",
                hint="a fake rank can't be interrupted in Python code: try this cell in a real world",
            )

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Called in the thread: hand the turn back until `ready`, or until something is thrown in here."""
        self.ready = ready
        while self.thrown is not None or not ready():
            if self.thrown is not None:
                self._raise(self.thrown)
            self._back.release()
            self._go.acquire()

    def _raise(self, error: BaseException) -> None:
        if not isinstance(error, Gone):
            self.thrown = None
        elif self._told_to_go:  # a cell that catches even this: its thread waits for good, and ends with the process
            self.over = True
            self._back.release()
            threading.Event().wait()
        else:
            self._told_to_go = True
        raise error


class Seconds(Clock):
    """The clock of a fake world. `settle` lets everybody run who can; `sleepers` says when the next one wakes up."""

    def __init__(self, settle: Callable[[], None], sleepers: Callable[[], Sequence[float]]) -> None:
        self._settle, self._sleepers = settle, sleepers
        self._now_s = 1000.0

    def now_s(self) -> float:
        return self._now_s

    def tick(self) -> float:
        """The time of an event: a little later than the one before."""
        self._now_s += TICK_S
        return self._now_s

    def pause(self, futures: Sequence[Future[Any]]) -> None:
        self.advance(POLL_S)

    def advance(self, seconds: float) -> None:
        """Let time pass; whoever sleeps wakes up at its moment, not later."""
        end_s = self._now_s + seconds
        self._settle()
        while due := [at_s for at_s in self._sleepers() if at_s <= end_s]:
            self._now_s = max(self._now_s, min(due))
            self._settle()
        self._now_s = end_s
        self._settle()
