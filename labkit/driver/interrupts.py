"""The learner's interrupt, kept waiting for as long as it takes to do a small thing whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def held_back() -> Iterator[None]:
    """Hear an interrupt only at the end of this block, where it is raised.

    A request that only some ranks have got is worse than one that all have: they would wait for each other, and the next
    request would meet ranks at different work. Python raises interrupts in the main thread only, so elsewhere nothing is held.
    """
    before = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if before in (None, signal.SIG_IGN):  # not Python's own, which can't be put back; or interrupts are none here
        yield
        return
    heard: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        heard.append(number)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if heard:
            signal.raise_signal(signal.SIGINT)
