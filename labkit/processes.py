"""Processes of ours, known by more than their number, and ended without touching anybody else's.

The system hands a process number out again, so a number alone proves nothing: an `Identity` is the number and the time
at which the process was created. A signal goes to that very process or to nobody. Numbers of another container mean
nothing here; `pid_namespace` tells containers apart.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

# Creation times are counted from a clock that is kept in whole seconds and may step by one under time synchronisation.
# A number can't be given out again that soon: tens of thousands come first.
TOLERANCE_S = 1.5
_STATES = {"T": "stopped", "t": "stopped", "Z": "dead", "X": "dead"}
_LOG = logging.getLogger("labkit.processes")
_TITLE_ROOM = "SPT_NOENV"  # setproctitle's own name for: write over the command line only, never over the environment


@dataclass(frozen=True)
class Identity:
    """One process and no other: its number, and when it was created, in seconds since the epoch."""

    pid: int
    start_s: float


def identify(pid: int) -> Identity | None:
    """The process that has this number now, also one that has ended and is not yet collected; None if there is none."""
    try:
        return Identity(pid, float(psutil.Process(pid).create_time()))
    except (psutil.Error, ValueError, OverflowError):
        return None


def running(processes: Iterable[Identity]) -> list[Identity]:
    """Those that still run as what they were: the same process, of this user, and not ended.

    >>> running([Identity(os.getpid(), 1.0)])
    []
    """
    return [process for process in processes if _runs(process)]


def _runs(process: Identity) -> bool:
    try:
        found = psutil.Process(process.pid)
        with found.oneshot():
            return (
                abs(found.create_time() - process.start_s) <= TOLERANCE_S
                and found.status() != psutil.STATUS_ZOMBIE
                and (user_id() is None or found.uids().real == user_id())
            )
    except (psutil.Error, ValueError, OverflowError):
        return False


def state(process: Identity | None) -> str:
    """ "running", "stopped" (by SIGSTOP or a debugger) or "dead".

    >>> state(identify(os.getpid())), state(None)
    ('running', 'dead')
    """
    return state_of_pid(process.pid) if process is not None and _runs(process) else "dead"


class ScriptedPid(int):
    """The pid of a rank that is no process but part of a scripted world: it says itself how it is, and is never signalled."""

    state = "running"

    def receive(self, number: signal.Signals) -> bool:
        """What the system would do with a signal; False if the process is gone."""
        if self.state == "dead":
            return False
        self.state = {signal.SIGSTOP: "stopped", signal.SIGCONT: "running", signal.SIGKILL: "dead"}.get(number, self.state)
        return True


def state_of_pid(pid: int) -> str:
    """The state of whichever process has this number now, "unknown" where the system does not say; one small file is read."""
    if isinstance(pid, ScriptedPid):
        return pid.state
    if pid <= 0:
        return "dead"
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return "dead" if Path("/proc/self/stat").exists() else _state_by_psutil(pid)
    except OSError:
        return "unknown"
    return _STATES.get(text.rsplit(")", 1)[1].split()[0], "running")


def _state_by_psutil(pid: int) -> str:
    try:
        status = psutil.Process(pid).status()
    except psutil.NoSuchProcess:
        return "dead"
    except psutil.Error:
        return "unknown"
    return {psutil.STATUS_STOPPED: "stopped", psutil.STATUS_ZOMBIE: "dead"}.get(status, "running")


def memory_bytes(pid: int) -> int:
    """Memory of a process that is its own (its share of shared pages counted in), 0 if it is gone."""
    if isinstance(pid, ScriptedPid):
        return 0
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass  # not Linux, or gone: ask psutil below
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def send(process: Identity, number: signal.Signals) -> bool:
    """Signal exactly this process; False if it is gone, not ours to signal, or this process itself."""
    if process.pid == os.getpid():
        return False
    try:
        with _handle(process.pid) as deliver:
            if not _runs(process):
                return False
            deliver(number)
            return True
    except OSError:
        return False


@contextlib.contextmanager
def _handle(pid: int) -> Iterator[Callable[[signal.Signals], None]]:
    """A way to signal the process that has this number now; taken before we look who it is, it can't reach another."""
    if not hasattr(os, "pidfd_open"):
        yield lambda number: os.kill(pid, number)
        return
    handle = os.pidfd_open(pid)
    try:
        yield lambda number: signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


def end(processes: Iterable[Identity], *, ask_s: float = 1.0, force_s: float = 1.0) -> list[Identity]:
    """Ask processes to end (SIGTERM), after `ask_s` end them (SIGKILL); those that live `force_s` later are returned."""
    left = running(processes)
    # a stopped process keeps SIGTERM for later, and a wait inside gloo is not interrupted by it: then SIGKILL
    for number, patience_s in ((signal.SIGTERM, ask_s), (signal.SIGKILL, force_s)):
        for process in left:
            send(process, number)
        until_s = time.monotonic() + patience_s
        while (left := running(left)) and time.monotonic() < until_s:
            time.sleep(0.02)
    return left


def end_session(leader: int) -> None:
    """End what a child of ours has started in its session; only for whoever collects the child, before it does.

    Until then the number is the child's, even if it has ended, so the session can be nobody else's.
    """
    with contextlib.suppress(OSError):  # nobody is in it
        os.killpg(leader, signal.SIGKILL)


def end_left(leaders: Iterable[Identity]) -> None:
    """End what is left in the sessions of processes whose ends were just told, and that somebody else has collected.

    A session's number is not given out again while anything is in it. So if the number is another process's by now, the
    session is over and what has this number is not ours.
    """
    ours = {leader.pid: leader for leader in leaders if not _is_anothers(leader)}
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            leader = ours.get(os.getsid(process.pid))
            if leader is not None and process.create_time() >= leader.start_s - TOLERANCE_S:
                send(Identity(process.pid, process.create_time()), signal.SIGKILL)


def _is_anothers(process: Identity) -> bool:
    """Whether another process has its number now."""
    found = identify(process.pid)
    return found is not None and abs(found.start_s - process.start_s) > TOLERANCE_S


def pid_namespace() -> str:
    """What tells one container's process numbers from another's; "" where the system has no such thing."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def user_id() -> int | None:
    """Our user number, or None on a system without them."""
    return os.getuid() if hasattr(os, "getuid") else None


# ---- children of ours, and how we hear of their ends
@dataclass(eq=False)
class Child:
    """A process that is started for us: its name, who it is once it is there, and how it ended."""

    name: str
    on_exit: Callable[[Child], None] = lambda child: None
    process: Identity | None = None
    exit_code: int | None = None  # minus the signal's number for one that was killed, as `subprocess` says it
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def pid(self) -> int:
        """0 before it is there."""
        return self.process.pid if self.process else 0

    @property
    def state(self) -> str:
        """ "running", "stopped" or "dead". Quick: until its end is told, which takes milliseconds, its number is its own."""
        return "dead" if self.process is None or self.ended.is_set() else state_of_pid(self.process.pid)

    def kill(self) -> None:
        """End it at once; nothing happens to one that has ended or was never there."""
        if self.process is not None and not self.ended.is_set():
            send(self.process, signal.SIGKILL)


def wait_ended(children: Iterable[Child], timeout_s: float) -> list[Child]:
    """Wait for children that are there to end; those that have not after `timeout_s` are returned."""
    until_s = time.monotonic() + timeout_s
    return [child for child in children if child.process and not child.ended.wait(max(0.0, until_s - time.monotonic()))]


class ExitQueue:
    """Tells of exits, one after the other, in a thread of its own: whoever reports one never waits for what follows from it.

    A callback that raises is logged and costs no other its turn. `close` tells what has come by then, and ends the thread.
    """

    def __init__(self) -> None:
        self._entries: queue.SimpleQueue[tuple[Child, int] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="labkit-exits", daemon=True)
        self._thread.start()

    def put(self, child: Child, exit_code: int) -> None:
        """Report that a child has ended; returns at once."""
        self._entries.put((child, exit_code))

    def _serve(self) -> None:
        while (entry := self._entries.get()) is not None:
            child, exit_code = entry
            child.exit_code = exit_code
            child.ended.set()
            try:
                child.on_exit(child)
            except Exception:  # noqa: BLE001 - it is the caller's code; it is told, and the next child has its turn
                _LOG.exception("what follows from the exit of %s (process %d) failed", child.name, child.pid)

    def close(self, timeout_s: float = 5.0) -> None:
        self._entries.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)


# ---- names in `ps` and `top`
def set_title(title: str, short: str) -> None:
    """Name this process: `title` in `ps` and `nvidia-smi`, `short` (at most 15 letters) in `top`.

    The first call needs SPT_NOENV in the environment: the title must not be written over it, since what belongs to whom is
    read there. Without it, or without the library, nothing is changed.
    """
    if not os.environ.get(_TITLE_ROOM):
        return
    try:
        import setproctitle
    except ImportError:
        return
    setproctitle.setproctitle(title)
    setproctitle.setthreadtitle(short[:15])
