"""What is shown while something runs: a cell's newest output, or one line that says what is being done."""

from __future__ import annotations

import contextvars
import sys
import threading
import time
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any, cast

from ..document import Block, Code, Node, Tree, as_text, tree_of
from ..wire import Diagnosis
from . import _html as h
from ._text import INDENT, clean, indent

PERIOD_S = 0.2  # between two pictures of a cell
LINE_S = 1.0  # a line's seconds go on, also while nothing new is said
PICTURE_S = 0.5  # between two pictures of calls, and how long a cell runs before the first
QUIET_S = 2.0  # a cell that has shown nothing for so long says that it runs, and for how long
_LINES = 10
_SHARE = 10  # between two looks at the calls are so many times of what a look takes
_LONGEST_S = 2.0  # and no more than this
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

    def text(self, calls: Tree = ()) -> str:
        blocks = [f"rank {rank}\n{indent(tail, INDENT)}" for rank, tail in self._tails()]
        blocks += [as_text(calls)] if calls else [self._notice] if self._notice else []
        return "\n".join(blocks) or "running …"

    def html(self, after_s: float = 0.0, calls: Tree = ()) -> str:
        blocks: list[Node] = [Block([Code(tail)], head=f"rank {rank}") for rank, tail in self._tails()]
        blocks += [Block([Code(self._notice)], head="waiting")] if self._notice and not calls else []
        blocks += calls
        since = f"for {after_s:.0f} s " if after_s >= QUIET_S else ""
        return h.frame(f'<div class="lk-tag">running {since}…</div>' + h.as_html(blocks))


class _Display:
    """One output of the notebook, which a thread renews until it is closed."""

    def __init__(self, publish: Callable[..., Any] | None, name: str) -> None:
        self._publish, self._name = publish, name
        self._context = contextvars.copy_context()  # ipykernel finds in it which cell an output belongs to
        self._shown = ""
        self._over = threading.Event()
        self._began_s = time.monotonic()
        self._thread: threading.Thread | None = None

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._context.run, args=(self._renew,), name=self._name, daemon=True)
            self._thread.start()

    def _renew(self) -> None:
        """Runs in the thread until `_over` is set."""
        raise NotImplementedError

    def _show(self, data: dict[str, str]) -> None:
        assert self._publish is not None
        update, self._shown = bool(self._shown), self._shown or uuid.uuid4().hex
        self._publish(data, transient={"display_id": self._shown}, update=update)

    def close(self) -> None:
        """Nothing more is shown by the thread; waits until it has ended."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()


class Screen(_Display):
    """One output of the notebook: pictures of the running cell in it, if it is watched, at last the result.

    `look` gives the picture of the calls that the cell has made so far, or None; it is asked twice a second at most, and
    less often where it takes long.
    """

    def __init__(self, publish: Callable[..., Any], live: bool, look: Callable[[], Any] | None = None) -> None:
        super().__init__(publish, "labkit-live")
        self._publish: Callable[..., Any] = publish
        self._look, self._calls = look, cast(Tree, ())
        self._next_look_s = self._began_s + PICTURE_S
        self._live = live
        self._output = LiveOutput()
        self._changed = threading.Event()
        if live:
            self._start()

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

    def _renew(self) -> None:
        """A picture when something is new, and every second of a cell that takes long."""
        said_s = 0
        while not self._over.wait(PERIOD_S):
            after_s = time.monotonic() - self._began_s
            self._look_at_calls()
            if self._changed.is_set() or (after_s >= QUIET_S and int(after_s) > said_s):
                self._changed.clear()
                said_s = int(after_s)
                self._show({"text/plain": self._output.text(self._calls), "text/html": self._output.html(said_s, self._calls)})

    def _look_at_calls(self) -> None:
        began_s = time.monotonic()
        if self._look is None or began_s < self._next_look_s:
            return
        found = self._look()
        calls = tree_of(found) if found is not None else ()
        if calls != self._calls:
            self._calls = calls
            self._changed.set()
        took_s = time.monotonic() - began_s
        self._next_look_s = began_s + min(max(PICTURE_S, _SHARE * took_s), _LONGEST_S)

    def finish(self, data: dict[str, str]) -> None:
        """The result takes the place of the pictures."""
        self.close()
        if self._shown:
            self._show(data or {"text/plain": ""})
        elif data:
            self._publish(data)


class Progress(_Display):
    """A context manager whose `say` shows a line: in a watched notebook by `publish`, in a terminal on stderr.

    Nothing is shown in the first `quiet_s`: what is over at once needs no word.
    """

    def __init__(self, publish: Callable[..., Any] | None, quiet_s: float = 0.0) -> None:
        super().__init__(publish, "labkit-progress")
        self._quiet_s, self._said, self._done = quiet_s, "", ""
        self._terminal = publish is None and sys.stderr is not None and sys.stderr.isatty()
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        """What is going on now; replaces what was said before."""
        self._said = text
        if self._publish is None and not self._terminal:
            return
        if time.monotonic() - self._began_s >= self._quiet_s:
            self._line()
        self._start()

    def done(self, text: str) -> None:
        """What it came to, in place of the line; where no line was shown nothing is."""
        self._done = text

    def _renew(self) -> None:
        wait_s = max(self._quiet_s, LINE_S)
        while not self._over.wait(wait_s):
            self._line()
            wait_s = LINE_S

    def _line(self) -> None:
        line = f"{self._said} ({time.monotonic() - self._began_s:.0f} s)"
        with self._lock:
            if self._publish is not None:
                self._show(self._forms(line))
            else:
                sys.stderr.write(f"\r\x1b[K{line}")
                sys.stderr.flush()

    @staticmethod
    def _forms(line: str) -> dict[str, str]:
        return (
            {"text/plain": line, "text/html": h.frame(f'<div class="lk-tag">{h.esc(line)}</div>')} if line else {"text/plain": ""}
        )

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
        if self._shown:
            self._show(self._forms(self._done))
        elif self._terminal:
            sys.stderr.write("\r\x1b[K")
