"""The twins of a world's ranks, as the kernel knows them: who is there, and what a dead rank's twin has written.

A twin is a fork of its rank at rest, made by the rank itself (rank/twin.py). The kernel holds the other end of its line. So
a twin ends when the kernel does, and when a newer one has come. The world's folder knows each of them as a process of ours.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..processes import Identity, identify, running, send
from ..runfolder import TWINS, RunFolder, kept_file, listen_in

WRITE_S = 10.0  # a gigabyte takes a second or two
END_S = 2.0
OFF = "LABKIT_KEEP=no"
NEVER = "it had no twin yet"
SILENT = f"its twin wrote nothing in {WRITE_S:g} s"
ENDED = "its twin had ended"


@dataclass(frozen=True)
class Kept:
    """What a rank's twin has left: the file, and the cell after which it is; or why there is nothing."""

    path: Path | None = None
    cell: int = 0
    why: str = ""


@dataclass(eq=False)
class _Line:
    """The line to one twin, or to a rank that says why there is none."""

    sock: socket.socket
    rank: int = -1
    cell: int = 0
    why: str = ""
    process: Identity | None = None
    unread: bytes = b""
    written: Future[dict[str, Any]] = field(default_factory=Future)

    def say(self, word: bytes) -> None:
        with suppress(OSError):  # it has ended, which is read from the line
            self.sock.sendall(word)


class Twins:
    """Listens for the twins of one world, in a thread of its own; with LABKIT_KEEP=no there are none."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._off = os.environ.get("LABKIT_KEEP") == "no"
        self._lock = threading.Lock()
        self._newest: dict[int, _Line] = {}
        self._asked: dict[int, _Line] = {}
        self._selector = selectors.DefaultSelector()
        self._wake, woken = socket.socketpair()
        self._selector.register(woken, selectors.EVENT_READ, None)
        self._woken = woken
        self._listener: socket.socket | None = None
        self._thread = threading.Thread(target=self._serve, name="labkit-twins", daemon=True)
        self._closing = False
        if not self._off:
            self.listen()
            self._thread.start()

    def listen(self) -> None:
        """Listen in the folder, also where it was deleted and has been made again."""
        if self._off or (self._listener is not None and (self._folder.path / TWINS).exists()):
            return
        self._listener = listen_in(self._folder.path, TWINS)
        self._selector.register(self._listener, selectors.EVENT_READ, self._listener)

    @property
    def processes(self) -> dict[int, Identity]:
        """The newest twin of each rank that has one."""
        with self._lock:
            return {rank: line.process for rank, line in self._newest.items() if line.process is not None}

    # ---- what recovery asks
    def ask(self, ranks: Iterable[int]) -> None:
        """Have these ranks' twins write what they know; `take` has it."""
        for rank in ranks:
            with self._lock:
                line = self._newest.get(rank)
            if rank not in self._asked and line is not None and not line.why:
                self._asked[rank] = line
                line.say(b"w")

    def take(self, rank: int) -> Kept:
        """What the twin that was asked has written; waits for it, and gives it up after a while."""
        if self._off:
            return Kept(why=OFF)
        self.ask([rank])
        line = self._asked.pop(rank, None)
        if line is None:
            with self._lock:
                silent = self._newest.get(rank)
            return Kept(why=silent.why if silent is not None else NEVER)
        try:
            answer = line.written.result(WRITE_S)
        except TimeoutError:
            if line.process is not None:
                send(line.process, signal.SIGKILL)
            return Kept(why=SILENT)
        if "error" in answer:
            return Kept(why=answer["error"])
        return Kept(kept_file(self._folder.path, rank), line.cell)

    # ---- the thread that listens
    def _serve(self) -> None:
        while not self._closing:
            for key, _ in self._selector.select():
                if isinstance(key.data, _Line):
                    self._read(key.data)
                elif key.data is not None:
                    with suppress(OSError):  # whoever it was is gone again
                        line = _Line(key.data.accept()[0])
                        self._selector.register(line.sock, selectors.EVENT_READ, line)

    def _read(self, line: _Line) -> None:
        try:
            data = line.sock.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._drop(line)
            return
        *whole, line.unread = (line.unread + data).split(b"\n")
        for text in whole:
            self._take(line, json.loads(text))

    def _take(self, line: _Line, message: dict[str, Any]) -> None:
        if "rank" in message:
            line.rank, line.cell, line.why = message["rank"], message["cell"], message.get("why", "")
            with self._lock:
                older = self._newest.get(line.rank)
                self._newest[line.rank] = line
            if older is not None and older is not self._asked.get(line.rank):
                self._drop(older)
        elif "pid" in message:
            line.process = identify(message["pid"])
            if line.process is not None:
                self._folder.note(line.process)
        else:
            line.written.set_result(message)

    def _drop(self, line: _Line) -> None:
        """Hang up, which ends a twin that waits."""
        with suppress(KeyError, ValueError):  # dropped before
            self._selector.unregister(line.sock)
        line.sock.close()
        self._folder.forget(line.process)
        with self._lock:
            if self._newest.get(line.rank) is line and not line.why:
                line.why = ENDED
        if not line.written.done():
            line.written.set_result({"error": ENDED})

    def close(self) -> None:
        """End every twin, and wait until they are gone."""
        if self._closing:
            return
        self._closing = True
        self._wake.close()
        if self._thread.ident is not None:
            self._thread.join(END_S)
        lines = [key.data for key in list(self._selector.get_map().values()) if isinstance(key.data, _Line)]
        for line in lines:
            self._drop(line)
        if self._listener is not None:
            self._listener.close()
        self._woken.close()
        self._selector.close()
        left = [line.process for line in lines if line.process is not None]
        for process in left:
            send(process, signal.SIGKILL)
        until_s = time.monotonic() + END_S
        while (left := running(left)) and time.monotonic() < until_s:
            time.sleep(0.005)
