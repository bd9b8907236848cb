"""Evidence: what every rank is seen doing, gathered in one look from beacons, the system, and control threads."""

from __future__ import annotations

import dataclasses
import json
import linecache
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..frames import parse_crash, parse_dump, trimmed, users_frame
from ..places import cell_label
from ..processes import Identity, ScriptedPid, send, state_of_pid
from ..ring import RingReader, RingState, read_beat, read_ring
from ..timings import ANSWER_S, DUMP_S
from ..wire import CallSite, CodeError, Evidence, Frame, RankView, from_plain
from .transport import Transport, answered, errors_of, value_of

GLANCE_CALLS = 8


@dataclass
class Seat:
    """A rank as the kernel knows it: its process, and how it ended if it did."""

    rank: int
    pid: int = 0
    exit_code: int | None = None
    device: str = "cpu"
    host: str = "localhost"
    env: dict[str, str] = field(default_factory=dict)
    process: Identity | None = None

    @property
    def beacon(self) -> str:
        return f"rank-{self.rank}.beacon"

    def send(self, number: signal.Signals) -> bool:
        """Signal this rank's process, and no other that has its number by now; False if it is gone."""
        if isinstance(self.pid, ScriptedPid):
            return self.pid.receive(number)
        return self.process is not None and send(self.process, number)


class Feed:
    """Looks at all ranks at once; a look takes as long as the slowest answer, at most `ANSWER_S`."""

    def __init__(self, folder: Path, seats: Sequence[Seat], transport: Transport) -> None:
        self._folder, self._seats, self._transport = folder, seats, transport
        self._readers: dict[int, RingReader] = {}
        self._seen: dict[int, tuple[tuple[int, int], tuple[Frame, ...]]] = {}  # by process: cell, number of calls, stack

    def beats(self) -> tuple[float, ...]:
        """When each rank's beacon last moved; the cheap question that is asked often."""
        return tuple(read_beat(self._folder / seat.beacon) for seat in self._seats)

    def num_calls(self) -> tuple[int, ...]:
        """How many calls each rank has made in this generation; as cheap as `beats`."""
        states = (self._reader(seat).newest(0) for seat in self._seats)
        return tuple(state.count if state is not None else 0 for state in states)

    def glance(self, base: Evidence) -> Evidence:
        """`base` with each rank's newest calls alone: less than a millisecond, where a look takes tens of them."""
        views = []
        for seat in self._seats:
            process = "dead" if seat.exit_code is not None else "running"
            state = self._reader(seat).newest(GLANCE_CALLS)
            views.append(_merge(seat, state, process, (), "", None, answers=True))
        return dataclasses.replace(base, ranks=tuple(views), taken_s=time.monotonic())

    def _reader(self, seat: Seat) -> RingReader:
        return self._readers.setdefault(seat.rank, RingReader(self._folder / seat.beacon))

    def look(self, base: Evidence, *, ask: bool = True, sources: Mapping[str, str] | None = None) -> Evidence:
        """`base` with the ranks filled in; `ask` also asks the control threads (for stacks and errors)."""
        alive = [seat for seat in self._seats if state_of_pid(seat.pid) == "running"]
        asked: dict[int, Future[Any]] = {}
        if ask:
            asked = {seat.rank: self._transport.control(seat.rank, "state", {}) for seat in alive}
        end = time.monotonic() + ANSWER_S
        views = tuple(self._view(seat, asked, end, ask) for seat in self._seats)
        texts = cells_of(views, sources) | files_of(views) if sources else {}
        return dataclasses.replace(base, ranks=views, taken_s=time.monotonic(), sources=texts)

    def _view(self, seat: Seat, asked: dict[int, Future[Any]], end: float, ask: bool) -> RankView:
        process = "dead" if seat.exit_code is not None else state_of_pid(seat.pid)
        answer: dict[str, Any] | None = None
        answers = not ask
        if seat.rank in asked:
            future = asked[seat.rank]
            wait([future], timeout=max(0.0, end - time.monotonic()))
            answer, answers = value_of(future), answered(future)
            for failure in errors_of({seat.rank: future}).values():
                warnings.warn(f"labkit could not read what a rank is doing: {failure.what}", stacklevel=2)
        state = read_ring(self._folder / seat.beacon)
        stack: tuple[Frame, ...] = ()
        source = ""
        error: CodeError | None = None
        more: dict[str, Any] = {}
        if answer is not None:
            stack, source, error = from_plain(answer["stack"]), "control", from_plain(answer["error"])
            more = {"blocked": bool(answer.get("blocked"))}
            more |= {name: from_plain(answer.get(name)) for name in ("handling", "thread_error")}
            more["caught"] = from_plain(answer.get("caught", []))
        elif ask and process == "running":
            stack, source = self._dump(seat)
        elif process == "dead":
            stack, source = self._last_stack(seat, state)
        if stack and process == "running" and state is not None:
            self._seen[seat.pid] = (state.cell, state.count), stack
        view = _merge(seat, state, process, stack, source, error, answers=answers)
        return dataclasses.replace(view, **more)

    def _last_stack(self, seat: Seat, state: RingState | None) -> tuple[tuple[Frame, ...], str]:
        """Of a process that is gone: the stack written as it ended, else that of the last look if no call came later."""
        crash = self._folder / f"rank-{seat.rank}.crash"
        stack = parse_crash(crash.read_text(errors="replace")) if crash.exists() else ()
        if stack:
            return stack, "crash"
        at, seen = self._seen.get(seat.pid, ((0, 0), ()))
        return (seen, "seen") if state is not None and at == (state.cell, state.count) else ((), "")

    def _dump(self, seat: Seat) -> tuple[tuple[Frame, ...], str]:
        """A stack without the rank's help: by signal, or by py-spy."""
        path = self._folder / f"rank-{seat.rank}.stack"
        size = path.stat().st_size if path.exists() else 0
        seat.send(signal.SIGUSR1)
        end = time.monotonic() + DUMP_S
        while time.monotonic() < end:
            time.sleep(0.01)
            if path.exists() and path.stat().st_size > size:
                time.sleep(0.01)
                return parse_dump(path.read_text(errors="replace")[size:]), "signal"
        return spy(seat.pid), "py-spy"


MOST_FILES = 32
LARGEST_FILE = 200_000  # characters


def cells_of(views: Sequence[RankView], known: Mapping[str, str]) -> dict[str, str]:
    """The text of each cell that calls and errors come from, also of one that only defined a function, by its number."""
    labels = {cell_label(cell) for view in views for cell in (view.cell, *(call.cell for call in view.calls))}
    labels |= {site.cell for site in _sites(views)} | {frame.site.cell for view in views for frame in view.stack}
    return {label: known[label] for label in labels if label in known}


def _sites(views: Sequence[RankView]) -> Iterator[CallSite]:
    yield from (site for view in views for call in view.calls for site in call.path)
    yield from (error.site for view in views for error in (view.error, view.handling) if error and error.site)


def files_of(views: Sequence[RankView]) -> dict[str, str]:
    """The text of the learner's own files that calls and errors come from, by path: the ranks are on this machine."""
    texts = {}
    for name in sorted({site.file for site in _sites(views) if not site.cell})[:MOST_FILES]:
        linecache.checkcache(name)
        text = "".join(linecache.getlines(name))
        if 0 < len(text) <= LARGEST_FILE:
            texts[name] = text
    return texts


def _merge(
    seat: Seat,
    state: RingState | None,
    process: str,
    stack: tuple[Frame, ...],
    source: str,
    error: CodeError | None,
    *,
    answers: bool,
) -> RankView:
    if state is None or state.pid != seat.pid:
        return RankView(
            seat.rank, seat.pid, process, seat.exit_code, stack=stack, stack_from=source, error=error, answers=answers
        )
    calls = state.calls
    waiting = any(call.waits for call in calls)
    return RankView(
        rank=seat.rank, pid=seat.pid, process=process, exit_code=seat.exit_code,
        activity="call" if waiting and state.activity == "cell" else state.activity, cell=state.cell,
        cell_started_s=state.cell_started_s, error=error, calls=calls, stack=stack, stack_from=source,
        answers=answers, last_progress_s=state.beat_s, generation=state.generation,
    )  # fmt: skip


def spy(pid: int, timeout_s: float = 3.0) -> tuple[Frame, ...]:
    """The main thread's stack by py-spy, where the system lets it look."""
    tool = str(Path(sys.executable).parent / "py-spy")
    try:
        command = [tool, "dump", "--json", "--pid", str(pid)]
        text = subprocess.run(command, capture_output=True, timeout=timeout_s, check=True).stdout
        threads = json.loads(text)
    except (OSError, ValueError, subprocess.SubprocessError):
        return ()
    for thread in threads:
        if thread.get("thread_name") == "MainThread" or thread.get("os_thread_id") == pid:
            return trimmed([users_frame(f["filename"], f["line"], f["name"]) for f in reversed(thread["frames"])])
    return ()
