"""The kernel's side of the fork server (which itself is rank/forkserver.py)."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import StartError
from ..processes import Child, ExitQueue, Identity, end_left

READY_TIMEOUT_S = 120.0
FORK_TIMEOUT_S = 30.0
_OTHER_WAY = 'try labkit.start(launcher="subprocess")'
# One thread, or no fork is safe: libraries that start a pool when they are imported must not. And see `processes.set_title`.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "", "SPT_NOENV": "1"}


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
                start_new_session=True, env={**os.environ, **ENVIRONMENT},
            )  # fmt: skip
        theirs.close()
        self._sock = ours
        self.ready: Future[None] = Future()
        self._replies: dict[int, Future[dict[str, Any]]] = {}
        self._children: dict[int, Child] = {}
        self._ended: dict[int, int] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._over = False
        self._exits = ExitQueue()
        self._reader = threading.Thread(
            target=self._read, args=(ours.makefile("rb"),), name="labkit-forkserver", daemon=True
        )  # fmt: skip
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can make children."""
        return not self._over and self._process.poll() is None

    def fork(self, child: Child, request: dict[str, Any]) -> dict[str, Any]:
        """Make `child` by a fork (see rank/forkserver.py for the request); the answer has a store's "port".

        `child.on_exit` is called when it ends. StartError if there is no answer in time; a child that comes later is ended.
        """
        reply: Future[dict[str, Any]] = Future()
        number = next(self._numbers)
        with self._lock:
            if self._over:
                raise StartError("the fork server has ended", hint=_OTHER_WAY)
            self._replies[number] = reply
        try:
            self._sock.sendall(json.dumps({**request, "seq": number}).encode() + b"\n")
            answer = reply.result(READY_TIMEOUT_S if not self.ready.done() else FORK_TIMEOUT_S)
        except (OSError, TimeoutError):
            reply.add_done_callback(_end_late)
            raise StartError(f"the fork server did not make the {request['kind']}", hint=_OTHER_WAY) from None
        except KeyboardInterrupt:
            reply.add_done_callback(_end_late)
            raise
        if "error" in answer:
            raise StartError(str(answer["error"]), hint=_OTHER_WAY)
        self._adopt(child, Identity(answer["pid"], answer["start"]))
        return answer

    def _adopt(self, child: Child, process: Identity) -> None:
        child.process = process
        with self._lock:
            exit_code = self._ended.pop(process.pid, -9 if self._over else None)
            if exit_code is None:
                self._children[process.pid] = child
        if exit_code is not None:
            self._exits.put(child, exit_code)

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
                child = self._children.pop(message["exit"], None)
                if child is None:  # it ended before whoever asked for it had its number
                    self._ended[message["exit"]] = message["status"]
            if child is not None:
                self._exits.put(child, message["status"])

    def _gone(self) -> None:
        """Nothing more comes from it, so it has to end; with it, by the system's rule, all of its children do, but not theirs."""
        self._process.kill()
        self._process.wait()  # nothing outlives SIGKILL
        with self._lock:
            self._over = True
            replies, self._replies = list(self._replies.values()), {}
            children, self._children = list(self._children.values()), {}
        error = StartError("the fork server has ended", hint=_OTHER_WAY)
        for reply in replies:
            reply.set_exception(error)
        if not self.ready.done():
            self.ready.set_exception(error)
        end_left(child.process for child in children if child.process)
        for child in children:
            self._exits.put(child, -9)

    def close(self, timeout_s: float = 5.0) -> None:
        """Hang up: the fork server ends its children and itself."""
        with suppress(OSError):  # hung up already
            self._sock.shutdown(socket.SHUT_WR)
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout_s)
        self._reader.join(timeout_s)
        self._exits.close(timeout_s)
        self._sock.close()


def _end_late(reply: Future[dict[str, Any]]) -> None:
    """End a child that nobody waits for any more: its number came too late to be told."""
    if reply.exception() is None and "pid" in reply.result():
        answer = reply.result()
        Child("late", process=Identity(answer["pid"], answer["start"])).kill()
