"""The learner's interrupt, deferred until a short piece of work is complete."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def defer_sigint() -> Iterator[None]:
    """Raise an interrupt that comes inside this block only at its end.

    A request must reach all of its ranks or none: if only some had it, they would wait for the others, and the next
    request would find the ranks at different work. Python raises interrupts in the main thread only, so in other
    threads this does nothing.
    """
    before = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if before in (None, signal.SIG_IGN):  # a handler that Python can't put back, or interrupts are ignored
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
