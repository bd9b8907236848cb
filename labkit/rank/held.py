"""The learner's signal handlers, which run inside of an op only.

A handler may raise: torch's does when a DataLoader's worker dies, and a timeout by SIGALRM does. Around an op that would cost the
answer, and a rank that never answers has to be replaced.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

HELD = (signal.SIGCHLD, signal.SIGALRM, signal.SIGUSR2)


def _drop(number: int, frame: Any) -> None:
    """Do nothing: what the signal would have told belongs to a cell that is over."""


class HeldSignals:
    """Takes handlers out and puts them back; in the main thread only, as signals are."""

    def __init__(self) -> None:
        self._handlers: dict[int, Callable[..., Any]] = {}

    def hold(self) -> None:
        """From now on these signals do nothing."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in HELD:
            handler = signal.getsignal(number)
            if callable(handler) and handler is not _drop:
                self._handlers[number] = handler
                signal.signal(number, _drop)

    def let_go(self) -> None:
        """Put the learner's handlers back."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers.clear()
