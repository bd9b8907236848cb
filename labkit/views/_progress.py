"""What is being done, for as long as it takes: one line that comes when it takes long and goes when it is over."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any

from . import _html as h


class Progress:
    """A context manager whose `say` shows a line: in a watched notebook by `publish`, in a terminal on stderr."""

    def __init__(self, publish: Callable[..., Any] | None) -> None:
        self._publish = publish
        self._shown, self._done = "", ""
        self._began_s = time.monotonic()
        self._terminal = publish is None and sys.stderr is not None and sys.stderr.isatty()

    def say(self, text: str) -> None:
        """What is going on now; replaces what was said before."""
        line = f"{text} ({time.monotonic() - self._began_s:.0f} s)"
        if self._publish is not None:
            self._show(self._forms(line))
        elif self._terminal:
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()

    def done(self, text: str) -> None:
        """What it came to, in place of the line; where no line was shown nothing is."""
        self._done = text

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
        if self._shown:
            self._show(self._forms(self._done))
        elif self._terminal:
            sys.stderr.write("\r\x1b[K")
