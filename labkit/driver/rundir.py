"""A world's private folder, and the note in it of which processes are whose.

    <temp>/labkit-<uid>/<world id>/world.json   owner and every pid we started, each with its start time
                                  rank-N.beacon, rank-N.stack, log/, security/

Only the user may read it: the key that signs messages lies in it. A later run (`labkit stop`) can tell a
stray process of a dead owner from another process that got the same pid, by the start time.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
import threading
from contextlib import nullcontext, suppress
from pathlib import Path

import psutil

from ..errors import StartError


def run_root() -> Path:
    """The folder of all of this user's worlds; LABKIT_RUN_ROOT overrides it."""
    given = os.environ.get("LABKIT_RUN_ROOT")
    return Path(given).expanduser() if given else Path(tempfile.gettempdir()) / f"labkit-{os.getuid()}"


def sweep(root: Path) -> None:
    """Remove the folders of worlds whose owner and processes are all gone (a kernel that was killed)."""
    for note in root.glob("*/world.json"):
        try:
            document = json.loads(note.read_text())
            known = {int(document["owner_pid"]): float(document["owner_start"])}
            known |= {int(pid): float(start) for pid, start in document["pids"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # not whole, or not ours to judge: `labkit stop` names it
        if not any(_lives(pid, start) for pid, start in known.items()):
            shutil.rmtree(note.parent, ignore_errors=True)


def _lives(pid: int, start_s: float) -> bool:
    try:
        return bool(abs(psutil.Process(pid).create_time() - start_s) < 1.5)
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True


class RunDir:
    """One world's folder; made at start, removed at stop."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pids: dict[int, float] = {}
        self._lock = threading.Lock()

    @classmethod
    def create(cls) -> RunDir:
        """A new private folder; StartError if it can't be had."""
        root = run_root()
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            owner = root.stat()
            if owner.st_uid != os.getuid() or owner.st_mode & 0o077:
                raise StartError(
                    f"{root} is open to other users", hint="remove it, or set LABKIT_RUN_ROOT to a folder of your own"
                )
            sweep(root)
            path = root / f"{os.getpid()}-{secrets.token_hex(4)}"
            path.mkdir(mode=0o700)
            for part in ("log", "security"):
                (path / part).mkdir(mode=0o700)
            made = cls(path)
            made.note()
            return made
        except OSError as error:
            raise StartError(
                f"can't write in {root}: {error.strerror}", hint="free some space, or set LABKIT_RUN_ROOT to another folder"
            ) from None

    def restore(self) -> None:
        """Make what somebody has deleted anew."""
        for part in (self.path, self.path / "log", self.path / "security"):
            part.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.note()

    def log(self, name: str) -> str:
        """Where a process of this world writes what it prints."""
        return str(self.path / "log" / f"{name}.log")

    def note(self, pid: int | None = None) -> None:
        """Write down a process that we started. A full disk must not lose us the pid: the note is for later runs only."""
        with suppress(OSError) if pid is not None else nullcontext():
            self._note(pid)

    def _note(self, pid: int | None) -> None:
        with self._lock:
            if pid is not None:
                try:
                    self._pids[pid] = psutil.Process(pid).create_time()
                except psutil.Error:
                    return
            document = {
                "owner_pid": os.getpid(),
                "owner_start": psutil.Process().create_time(),
                "pids": {str(pid): start for pid, start in self._pids.items()},
            }
            part = self.path / "world.json.part"
            part.write_text(json.dumps(document))
            part.replace(self.path / "world.json")

    def forget(self, pid: int) -> None:
        """A process of ours has ended."""
        with self._lock:
            self._pids.pop(pid, None)

    def remove(self) -> None:
        """Take the folder away; what another process still writes in it is not an error."""
        shutil.rmtree(self.path, ignore_errors=True)
