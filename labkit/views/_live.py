"""A running cell's output: the newest lines of each rank in rank order, and the result in their place at the end."""

from __future__ import annotations

import contextvars
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from ..document import Block, Code
from ..wire import Diagnosis
from . import _html as h
from ._text import INDENT, clean, indent

PERIOD_S = 0.2  # between two pictures
QUIET_S = 2.0  # a cell that has shown nothing for so long says that it runs, and for how long
_LINES = 10
_KEPT = 8_000  # characters per rank; a cell that prints without end costs no memory here


class LiveOutput:
    """Collects pieces of output from another thread and draws them; nothing is folded, so nothing jumps."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._printed: dict[int, str] = {}
        self._notice = ""

    def add(self, rank: int, text: str) -> None:
        with self._lock:
            self._printed[rank] = (self._printed.get(rank, "") + text)[-_KEPT:]

    def say(self, notice: str) -> None:
        """Something about the cell as a whole, in place of what was said before."""
        with self._lock:
            self._notice = notice

    def _tails(self) -> list[tuple[int, str]]:
        with self._lock:
            printed = sorted(self._printed.items())
        tails = [(rank, "\n".join(clean(text).rstrip("\n").split("\n")[-_LINES:])) for rank, text in printed]
        return [(rank, tail) for rank, tail in tails if tail.strip()]

    def text(self) -> str:
        blocks = [f"rank {rank}\n{indent(tail, INDENT)}" for rank, tail in self._tails()]
        return "\n".join([*blocks, self._notice] if self._notice else blocks) or "running …"

    def html(self, after_s: float = 0.0) -> str:
        blocks = [Block([Code(tail)], head=f"rank {rank}") for rank, tail in self._tails()]
        blocks += [Block([Code(self._notice)], head="waiting")] if self._notice else []
        since = f"for {after_s:.0f} s " if after_s >= QUIET_S else ""
        return h.frame(f'<div class="lk-tag">running {since}…</div>' + h.as_html(blocks))


class Screen:
    """One output of the notebook: pictures of the running cell in it, if it is watched, at last the result."""

    def __init__(self, publish: Callable[..., Any], live: bool) -> None:
        self._publish, self._live = publish, live
        self._output = LiveOutput()
        self._context = contextvars.copy_context()  # ipykernel finds in it which cell an output belongs to
        self._shown = ""
        self._changed, self._over = threading.Event(), threading.Event()
        self._began_s = time.monotonic()
        self._thread: threading.Thread | None = None
        if live:
            self._thread = threading.Thread(target=self._paint, name="labkit-live", daemon=True)
            self._thread.start()

    def on_output(self, rank: int, name: str, text: str) -> None:
        """Called from the transport's thread, so it only takes a note."""
        if not self._live:
            return
        self._output.add(rank, text)
        self._changed.set()

    def on_notice(self, diagnosis: Diagnosis) -> None:
        """A wait that may still end: say who is waited for."""
        if self._live and diagnosis.verdict is not None:
            self._output.say(diagnosis.verdict.sentence)
            self._changed.set()

    def _paint(self) -> None:
        """A picture when something is new, and every second of a cell that takes long."""
        said_s = 0
        while not self._over.wait(PERIOD_S):
            after_s = time.monotonic() - self._began_s
            if self._changed.is_set() or (after_s >= QUIET_S and int(after_s) > said_s):
                self._changed.clear()
                said_s = int(after_s)
                self._context.run(self._show, {"text/plain": self._output.text(), "text/html": self._output.html(said_s)})

    def _show(self, data: dict[str, str]) -> None:
        update, self._shown = bool(self._shown), self._shown or uuid.uuid4().hex
        self._publish(data, transient={"display_id": self._shown}, update=update)

    def close(self) -> None:
        """No more pictures; waits until the last one is out."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def finish(self, data: dict[str, str]) -> None:
        """The result takes the place of the pictures."""
        self.close()
        if self._shown:
            self._show(data or {"text/plain": ""})
        elif data:
            self._publish(data)
