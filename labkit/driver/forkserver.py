"""The kernel's hand on the fork server (which itself is rank/forkserver.py)."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import StartError

READY_TIMEOUT_S = 120.0
FORK_TIMEOUT_S = 30.0


class ForkServer:
    """Starts the fork server at once and asks it for children; every wait has a deadline.

    `ready` resolves when torch is imported; a controller can be had before that.
    """

    def __init__(self, log: str = os.devnull) -> None:
        ours, theirs = socket.socketpair()
        with Path(log).open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "labkit.rank.forkserver", str(theirs.fileno())],
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True, env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": ""},
            )  # fmt: skip
        theirs.close()
        self._sock = ours
        self.ready: Future[None] = Future()
        self._replies: dict[int, Future[dict[str, Any]]] = {}
        self._watchers: dict[int, Callable[[int], None]] = {}
        self._ended: dict[int, int] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._over = False
        threading.Thread(target=self._read, args=(ours.makefile("rb"),), name="labkit-forkserver", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def fork(
        self, kind: str, argv: list[str], env: dict[str, str], log: str, on_exit: Callable[[int], None], *, folder: str = ""
    ) -> dict[str, Any]:
        """Fork a child; returns {"pid": ...} (and a store's "port"). `on_exit(status)` is called when it ends.

        `folder` is removed by the fork server if this kernel dies without having removed it.
        """
        reply: Future[dict[str, Any]] = Future()
        number = next(self._numbers)
        request = {"seq": number, "kind": kind, "argv": argv, "env": env, "log": log, "cwd": str(Path.cwd()), "folder": folder}
        with self._lock:
            if self._over:
                raise StartError("the fork server has ended", hint='try labkit.start(launcher="subprocess")')
            self._replies[number] = reply
        try:
            self._sock.sendall(json.dumps(request).encode() + b"\n")
            answer = reply.result(READY_TIMEOUT_S if not self.ready.done() else FORK_TIMEOUT_S)
        except (OSError, TimeoutError):
            raise StartError(f"the fork server did not make a {kind}", hint='try labkit.start(launcher="subprocess")') from None
        except KeyboardInterrupt:
            reply.add_done_callback(_end_orphan)  # the child may be there already, and nobody would know its pid
            raise
        if "error" in answer:
            raise StartError(str(answer["error"]), hint='try labkit.start(launcher="subprocess")')
        self._watch(answer["pid"], on_exit)
        return answer

    def _watch(self, pid: int, on_exit: Callable[[int], None]) -> None:
        with self._lock:
            status = self._ended.pop(pid, -9 if self._over else None)
            if status is None:
                self._watchers[pid] = on_exit
        if status is not None:
            on_exit(status)

    def _read(self, lines: BinaryIO) -> None:
        try:
            for line in lines:
                self._take(json.loads(line))
        except (OSError, ValueError):
            return
        finally:
            self._gone()

    def _take(self, message: dict[str, Any]) -> None:
        if message.get("ready") == "rank":
            self.ready.set_result(None)
        elif "seq" in message:
            with self._lock:
                reply = self._replies.pop(message["seq"], None)
            if reply is not None:
                reply.set_result(message)
        elif "exit" in message:
            with self._lock:
                on_exit = self._watchers.pop(message["exit"], None)
                if on_exit is None:  # it ended before whoever asked for it had its pid
                    self._ended[message["exit"]] = message["status"]
            if on_exit is not None:
                on_exit(message["status"])

    def _gone(self) -> None:
        """The fork server has ended, and with it, by the kernel's own rule, all of its children."""
        with self._lock:
            self._over = True
            replies, self._replies = list(self._replies.values()), {}
            watchers, self._watchers = list(self._watchers.values()), {}
        error = StartError("the fork server has ended", hint='try labkit.start(launcher="subprocess")')
        for reply in replies:
            reply.set_exception(error)
        if not self.ready.done():
            self.ready.set_exception(error)
        for on_exit in watchers:
            on_exit(-9)

    def close(self, timeout_s: float = 5.0) -> None:
        """Hang up: the fork server ends its children and itself."""
        with suppress(OSError):  # hung up already
            self._sock.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout_s)
        self._sock.close()


def _end_orphan(reply: Future[dict[str, Any]]) -> None:
    """End a child whose maker was interrupted before it knew the pid."""
    if reply.exception() is None and "pid" in reply.result():
        with suppress(OSError):
            os.killpg(reply.result()["pid"], signal.SIGKILL)
