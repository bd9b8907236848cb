"""Worlds that outlived their notebook: found in the run folder, ended by pid and create time.

Each world keeps `<tempdir>/labkit-<uid>/<world-id>/world.json`:

    {"owner_pid": 11, "owner_start": 1700000000.0, "pids": {"12": 1700000001.5, ...}}

A pid alone proves nothing, the system hands it out again; a pid with its create time does. The folder
is believed only if it is ours and nobody else may write to it: who writes world.json says whom we end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from ..errors import WireError
from ..machine import create_times, user_id
from ..wire import record

# The clock that create times are counted from is kept in whole seconds and may step by one under time
# synchronisation. A pid can't be given out again that soon: tens of thousands come first.
TOLERANCE_S = 1.5
_GRACE_S = 1.0


@record
class WorldEntry:
    """One world.json, as read."""

    world_id: str
    folder: str
    owner_pid: int
    owner_start: float
    pids: tuple[tuple[int, float], ...] = ()
    pid_namespace: str = ""


@record
class WorldFound:
    """A world and what became of it.

    `state`: "owned" (its notebook lives), "stray" (the notebook is gone, `living` pids are not), "dead"
    (all gone, only the folder is left), "elsewhere" (made in another container: not ours to judge).
    """

    entry: WorldEntry
    state: str
    living: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """What the run root holds; `damaged` folders have no readable world.json and are left alone."""

    worlds: tuple[WorldFound, ...] = ()
    damaged: tuple[str, ...] = ()
    distrust: str = ""


def run_root() -> Path:
    """The private folder of all our worlds on this machine; LABKIT_RUN_ROOT overrides it."""
    given = os.environ.get("LABKIT_RUN_ROOT")
    return Path(given) if given else Path(tempfile.gettempdir()) / f"labkit-{user_id() or 0}"


def parse_world(text: str, folder: Path) -> WorldEntry:
    """A world.json; raises WireError if it is not one."""
    try:
        plain = json.loads(text)
        pids = tuple(sorted((_pid(pid), float(start)) for pid, start in plain["pids"].items()))
        return WorldEntry(
            folder.name, str(folder), _pid(plain["owner_pid"]), float(plain["owner_start"]), pids, str(plain.get("pid_ns", ""))
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WireError(f"{folder.name}/world.json can't be read ({type(error).__name__})", hint="the file is damaged") from None


def _pid(value: object) -> int:
    number = int(str(value))
    if number <= 1:  # 0 and below address groups of processes, 1 is the system's own
        raise ValueError(value)
    return number


def judge_world(entry: WorldEntry, starts: Mapping[int, float], *, pid_namespace: str = "") -> WorldFound:
    """Pure: the world's state, given the create times of the processes that live now."""
    if entry.pid_namespace and pid_namespace and entry.pid_namespace != pid_namespace:
        return WorldFound(entry, "elsewhere")
    living = tuple(pid for pid, start in entry.pids if pid != entry.owner_pid and _same(starts.get(pid), start))
    if _same(starts.get(entry.owner_pid), entry.owner_start):
        return WorldFound(entry, "owned", living)
    return WorldFound(entry, "stray" if living else "dead", living)


def _same(seen: float | None, recorded: float) -> bool:
    return seen is not None and abs(seen - recorded) <= TOLERANCE_S


def distrust(root: Path) -> str:
    """Why the folder can't be believed, or ""."""
    try:
        status = root.lstat()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{root} can't be read: {error.strerror}"
    if not stat.S_ISDIR(status.st_mode):
        return f"{root} is not a folder"
    if user_id() is not None and status.st_uid != user_id():
        return f"{root} belongs to another user"
    if os.name == "posix" and status.st_mode & 0o022:
        return f"others may write to {root}"
    return ""


def find_worlds(root: Path | None = None) -> RunFolder:
    """Every world under the run root, judged; reads only."""
    root = root or run_root()
    why = distrust(root)
    if why:
        return RunFolder(distrust=why)
    entries, damaged = [], []
    for folder in sorted(root.iterdir()) if root.is_dir() else []:
        if folder.is_symlink() or not folder.is_dir():
            continue
        try:
            entries.append(parse_world((folder / "world.json").read_text(encoding="utf-8"), folder))
        except (OSError, WireError, UnicodeDecodeError):
            damaged.append(str(folder))
    starts = create_times(pid for entry in entries for pid in (entry.owner_pid, *(pid for pid, _ in entry.pids)))
    here = pid_namespace()
    return RunFolder(tuple(judge_world(entry, starts, pid_namespace=here) for entry in entries), tuple(damaged))


def pid_namespace() -> str:
    """What tells one container's pids from another's; world.json may hold it as "pid_ns"."""
    with contextlib.suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return ""


def stop_world(found: WorldFound) -> tuple[int, ...]:
    """End the world's living processes, politely, then for good; returns the pids that are gone now."""
    starts = dict(found.entry.pids)
    left = list(found.living)
    # A stopped process keeps SIGTERM for later and a wait inside gloo is not interrupted by it: then SIGKILL.
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in left:
            _signal(pid, starts[pid], number)
        until = time.monotonic() + _GRACE_S
        while (left := _still(left, starts)) and time.monotonic() < until:
            time.sleep(0.02)
    return tuple(pid for pid in found.living if pid not in left)


def _still(pids: Iterable[int], starts: Mapping[int, float]) -> list[int]:
    pids = list(pids)
    now = create_times(pids)
    return [pid for pid in pids if _same(now.get(pid), starts[pid])]


def _signal(pid: int, start: float, number: signal.Signals) -> None:
    """Signal exactly that process, or nobody; that it is gone or not ours to signal is no error."""
    if pid == os.getpid():
        return
    with contextlib.suppress(OSError), _held(pid) as send:
        if _still([pid], {pid: start}):
            send(number)


@contextlib.contextmanager
def _held(pid: int) -> Iterator[Callable[[signal.Signals], None]]:
    """A way to signal the process that has this pid now: its handle is taken before we look who it is."""
    if not hasattr(os, "pidfd_open"):
        yield lambda number: os.kill(pid, number)
        return
    handle = os.pidfd_open(pid)
    try:
        yield lambda number: signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


def remove_folder(found: WorldFound) -> bool:
    """Remove what a world left on disk, once nothing of it lives; True if it is gone."""
    folder = Path(found.entry.folder)
    if distrust(folder.parent) or folder.is_symlink():
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()
