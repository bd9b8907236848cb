"""The private folder of a world, and what is left in the folders of worlds that have ended.

    <temp>/labkit-<uid>/<world id>/world.json   owner and every process we started, each with its creation time
                                  rank-N.beacon, rank-N.stack, rank-N.kept, twins, log/, security/

    world.json: {"owner_pid": 11, "owner_start": 1700000000.0, "pids": {"12": 1700000001.5}, "pid_ns": "pid:[4026531836]"}

Only the user may read it: the key that signs messages lies in it. Who writes world.json says which processes are ended as
leftovers, so a folder is believed only if it is ours and nobody else may enter it, and a process only if its creation time
fits. A world of another container (another "pid_ns") is never judged.
"""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import shutil
import socket
import stat
import tempfile
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import StartError, WireError
from .files import written_whole
from .processes import Identity, end, identify, pid_namespace, running, user_id
from .wire import record

OWN_FOLDER = "remove it, or set LABKIT_RUN_ROOT to a folder of your own"
_PARTS = ("log", "security")


def run_root() -> Path:
    """The folder of all of this user's worlds; LABKIT_RUN_ROOT overrides it."""
    given = os.environ.get("LABKIT_RUN_ROOT")
    return Path(given).expanduser() if given else Path(tempfile.gettempdir()) / f"labkit-{user_id() or 0}"


def distrust(root: Path) -> str:
    """Why a folder of worlds can't be believed, or "". A link may stand for it only if we made the link."""
    try:
        status = root.lstat()
        if stat.S_ISLNK(status.st_mode):
            if user_id() is not None and status.st_uid != user_id():
                return f"{root} is a link that another user made"
            status = root.stat()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{root} can't be read: {error.strerror}"
    if not stat.S_ISDIR(status.st_mode):
        return f"{root} is not a folder"
    if user_id() is not None and status.st_uid != user_id():
        return f"{root} belongs to another user"
    if os.name == "posix" and status.st_mode & 0o077:
        return f"{root} is open to other users"
    return ""


class RunFolder:
    """One world's folder; made at start, removed at stop."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._processes: set[Identity] = set()
        self._lock = threading.Lock()

    @classmethod
    def create(cls) -> RunFolder:
        """A new private folder, and those of dead worlds removed; StartError if it can't be had."""
        root = run_root()
        try:
            root.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                root.mkdir(mode=0o700)
            why = distrust(root)
            if why:
                raise StartError(why, hint=OWN_FOLDER)
            for world in find_worlds(root).worlds:
                if world.state == "dead":  # its notebook was killed
                    remove_folder(world)
            made = cls(root / f"{os.getpid()}-{secrets.token_hex(4)}")
            made.path.mkdir(mode=0o700)  # fails if anything, a link included, has this name
            made.restore()
            return made
        except OSError as error:
            raise StartError(
                f"can't write in {root}: {error.strerror}", hint="free some space, or set LABKIT_RUN_ROOT to another folder"
            ) from None

    @property
    def world_id(self) -> str:
        """The folder's name: the owner's process number, and letters that tell its worlds apart."""
        return self.path.name

    def restore(self) -> None:
        """Make what is not there, because it is new or because somebody has deleted it."""
        for part in (self.path, *(self.path / name for name in _PARTS)):
            part.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._lock:
            self._write()

    def log(self, name: str) -> str:
        """Where a process of this world writes what it prints."""
        return str(self.path / "log" / f"{name}.log")

    def note(self, process: Identity) -> None:
        """Write down a process that we started. A full disk must not lose us the process: the note is for later runs only."""
        with self._lock, suppress(OSError):
            self._processes.add(process)
            self._write()

    def forget(self, process: Identity | None) -> None:
        """A process of ours has ended."""
        with self._lock:
            self._processes.discard(process)

    def _write(self) -> None:
        owner = identify(os.getpid())
        assert owner is not None
        document = {
            "owner_pid": owner.pid,
            "owner_start": owner.start_s,
            "pids": {str(process.pid): process.start_s for process in self._processes},
            "pid_ns": pid_namespace(),
        }
        with written_whole(self.path / "world.json") as part:
            part.write_text(json.dumps(document))

    def remove(self) -> None:
        """Take the folder away; what another process still writes in it is not an error."""
        shutil.rmtree(self.path, ignore_errors=True)


# ---- what ranks and the kernel say to each other through files of the folder
TWINS = "twins"  # the socket on which the kernel hears of twins


def kept_file(folder: Path, rank: int) -> Path:
    """Where a rank's twin writes what the rank knew."""
    return folder / f"rank-{rank}.kept"


def listen_in(folder: Path, name: str) -> socket.socket:
    """A listening socket of this name in a folder, however long the folder's path is (a socket's may have 107 letters)."""
    listener = socket.socket(socket.AF_UNIX)
    with _short(folder) as short:
        listener.bind(f"{short}/{name}")
    listener.listen(128)
    return listener


def connect_in(folder: Path, name: str, timeout_s: float) -> socket.socket:
    """A connection to it; OSError if nobody listens."""
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(timeout_s)
    try:
        with _short(folder) as short:
            line.connect(f"{short}/{name}")
    except OSError:
        line.close()
        raise
    return line


@contextmanager
def _short(folder: Path) -> Iterator[str]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


# ---- worlds that may have outlived their notebook
@record
class WorldEntry:
    """One world.json, as read."""

    world_id: str
    folder: str
    owner_pid: int
    owner_start: float
    pids: tuple[tuple[int, float], ...] = ()
    pid_namespace: str = ""

    @property
    def owner(self) -> Identity:
        """The notebook's kernel."""
        return Identity(self.owner_pid, self.owner_start)

    @property
    def processes(self) -> tuple[Identity, ...]:
        """All that was started for the world."""
        return tuple(Identity(pid, start_s) for pid, start_s in self.pids if pid != self.owner_pid)


@record
class WorldFound:
    """A world and what became of it.

    `state`: "owned" (its notebook lives), "stray" (the notebook is gone, `living` processes are not), "dead"
    (all gone, only the folder is left), "elsewhere" (made in another container: not ours to judge).
    """

    entry: WorldEntry
    state: str
    living: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class FoundWorlds:
    """What the run root holds; `damaged` folders have no readable world.json and are left alone."""

    worlds: tuple[WorldFound, ...] = ()
    damaged: tuple[str, ...] = ()
    distrust: str = ""


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


def judge_world(entry: WorldEntry, alive: Collection[Identity], namespace: str = "") -> WorldFound:
    """Pure: the world's state, given which of its processes run and the container that we are in."""
    if entry.pid_namespace != namespace:
        return WorldFound(entry, "elsewhere")
    living = tuple(process.pid for process in entry.processes if process in alive)
    if entry.owner in alive:
        return WorldFound(entry, "owned", living)
    return WorldFound(entry, "stray" if living else "dead", living)


def find_worlds(root: Path | None = None) -> FoundWorlds:
    """Every world under the run root, judged; reads only."""
    root = root or run_root()
    why = distrust(root)
    if why:
        return FoundWorlds(distrust=why)
    worlds, damaged = [], []
    for folder in sorted(root.iterdir()) if root.is_dir() else []:
        if folder.is_symlink() or not folder.is_dir():
            continue
        try:
            entry = parse_world((folder / "world.json").read_text(encoding="utf-8"), folder)
        except (OSError, WireError, UnicodeDecodeError):
            damaged.append(str(folder))
            continue
        worlds.append(judge_world(entry, running((entry.owner, *entry.processes)), pid_namespace()))
    return FoundWorlds(tuple(worlds), tuple(damaged))


def stop_world(found: WorldFound) -> tuple[int, ...]:
    """End the world's living processes, politely, then for good; returns the numbers of those that are gone now."""
    left = {process.pid for process in end(process for process in found.entry.processes if process.pid in found.living)}
    return tuple(pid for pid in found.living if pid not in left)


def remove_folder(found: WorldFound) -> bool:
    """Remove what a world left on disk, once nothing of it lives; True if it is gone."""
    folder = Path(found.entry.folder)
    if distrust(folder.parent) or folder.is_symlink():
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()
