"""For tests of labkit, of labs and of extensions: worlds whose ranks follow a script, recordings, a check for leaks.

world = Script(ranks=4).world()      the real World; the test says what each rank answers, nothing is started
world = record(world, "run.jsonl")   the same world, and every result it gives is written down
again = replay("run.jsonl")          gives those results once more, or judges the evidence anew
save_record("sweep.json", sweep)     one run, comparison or sweep, for a machine where it can't be made
sweep = load_record("sweep.json")    the same record, which says where it was recorded
with leak_check(): ...               nothing stays behind: no process, folder, port or descriptor
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

import psutil

from .driver.acts import Act, call, dies, late, ok, raises
from .driver.current import HOLDER
from .driver.replay import Change, Recorder, Replay
from .driver.scripted import Script
from .driver.world import World
from .runfolder import run_root
from .schedule.recording import load_record, save_record
from .schedule.records import Source

__all__ = [
    "Act", "Change", "Recorder", "Replay", "Script", "Source", "call", "dies", "late", "leak_check", "load_record", "ok",
    "raises", "record", "replay", "save_record",
]  # fmt: skip

MARK = "LABKIT_LEAK_CHECK"  # in the environment of all that is started inside, orphans included


def record(world: World, path: str | Path, note: str = "") -> Recorder:
    """The world, with every result it gives written to a new file that only the user may read."""
    return Recorder(world, Path(path), note)


def replay(path: str | Path) -> Replay:
    """A recording: asked like the world, it gives the same results in the same order; `rejudge` judges them anew."""
    return Replay.read(Path(path))


@dataclass(frozen=True)
class Belongings:
    """What a process holds of the system: numbers may only be compared with its own later ones."""

    processes: frozenset[int]
    folders: frozenset[str]
    ports: frozenset[int]
    descriptors: int

    @classmethod
    def now(cls, mark: str) -> Belongings:
        """Of this process, its descendants, and processes that carry the mark."""
        own = psutil.Process()
        found = {child.pid for child in own.children(recursive=True) if _lives(child)} | set(_marked(mark))
        root = run_root()
        folders = {path.name for path in root.iterdir() if path.name.startswith(f"{own.pid}-")} if root.is_dir() else set()
        listening = {c.laddr.port for c in own.net_connections("inet") if c.status == psutil.CONN_LISTEN}
        return cls(frozenset(found), frozenset(folders), frozenset(listening), own.num_fds())

    def beyond(self, before: Belongings, slack: int) -> list[str]:
        """What is there now and was not before, in words."""
        new = []
        for field in fields(self)[:3]:
            more = sorted(getattr(self, field.name) - getattr(before, field.name))
            new += [f"{field.name}: {', '.join(map(str, more))}"] if more else []
        if self.descriptors > before.descriptors + slack:
            new.append(f"descriptors: {before.descriptors} before, {self.descriptors} now")
        return new


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _marked(mark: str) -> Iterator[int]:
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(MARK) == mark and _lives(process):
                yield process.pid
        except psutil.Error:
            continue


@contextmanager
def leak_check(wait_s: float = 5.0, *, slack: int = 0) -> Iterator[None]:
    """AssertionError if something that was started inside is still there `wait_s` after the end.

    A fork server that was started inside, and is meant to outlive its world, is given up first. `slack` descriptors
    more are no leak.
    """
    server = HOLDER.running_server
    mark, kept = uuid.uuid4().hex, os.environ.get(MARK)
    before = Belongings.now(mark)
    os.environ[MARK] = mark
    try:
        yield
    finally:
        os.environ.pop(MARK)
        if kept is not None:
            os.environ[MARK] = kept
    if HOLDER.running_server is not server:
        HOLDER.drop_server()
    end_s = time.monotonic() + wait_s
    while (left := Belongings.now(mark).beyond(before, slack)) and time.monotonic() < end_s:
        time.sleep(0.05)
    if left:
        raise AssertionError("left behind: " + "; ".join(left))
