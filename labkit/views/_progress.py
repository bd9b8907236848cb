"""What is being done, for as long as it takes: one line that comes when it takes long and goes when it is over."""

from __future__ import annotations

import contextvars
import sys
import threading
import time
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any

from . import _html as h

PERIOD_S = 1.0  # the line's seconds go on, also while nothing new is said


class Progress:
    """A context manager whose `say` shows a line: in a watched notebook by `publish`, in a terminal on stderr.

    Nothing is shown in the first `quiet_s`: what is over at once needs no word.
    """

    def __init__(self, publish: Callable[..., Any] | None, quiet_s: float = 0.0) -> None:
        self._publish, self._quiet_s = publish, quiet_s
        self._said, self._shown, self._done = "", "", ""
        self._began_s = time.monotonic()
        self._terminal = publish is None and sys.stderr is not None and sys.stderr.isatty()
        self._context = contextvars.copy_context()  # ipykernel finds in it which cell an output belongs to
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def say(self, text: str) -> None:
        """What is going on now; replaces what was said before."""
        self._said = text
        if self._publish is None and not self._terminal:
            return
        if time.monotonic() - self._began_s >= self._quiet_s:
            self._line()
        if self._thread is None:
            self._thread = threading.Thread(target=self._go_on, name="labkit-progress", daemon=True)
            self._thread.start()

    def done(self, text: str) -> None:
        """What it came to, in place of the line; where no line was shown nothing is."""
        self._done = text

    def _go_on(self) -> None:
        wait_s = max(self._quiet_s, PERIOD_S)
        while not self._over.wait(wait_s):
            self._context.run(self._line)
            wait_s = PERIOD_S

    def _line(self) -> None:
        line = f"{self._said} ({time.monotonic() - self._began_s:.0f} s)"
        with self._lock:
            if self._publish is not None:
                self._show(self._forms(line))
            else:
                sys.stderr.write(f"\r\x1b[K{line}")
                sys.stderr.flush()

    def _show(self, data: dict[str, str]) -> None:
        assert self._publish is not None
        update, self._shown = bool(self._shown), self._shown or uuid.uuid4().hex
        self._publish(data, transient={"display_id": self._shown}, update=update)

    @staticmethod
    def _forms(line: str) -> dict[str, str]:
        return (
            {"text/plain": line, "text/html": h.frame(f'<div class="lk-tag">{h.esc(line)}</div>')} if line else {"text/plain": ""}
        )

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if self._shown:
            self._show(self._forms(self._done))
        elif self._terminal:
            sys.stderr.write("\r\x1b[K")
