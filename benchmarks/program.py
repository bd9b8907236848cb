"""A program under measurement: a fresh process with a channel, a deadline for every answer, and an end by its pid."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from .channel import CHANNEL
from .core import BenchError

ROOT = Path(__file__).resolve().parent.parent
MARK = "LABKIT_BENCH_RUN"  # in the environment of all that a run starts, orphans included
ANSWER_S = 120.0
STOP_S = 30.0


def environment(mark: str, folder: Path) -> dict[str, str]:
    """The same for both sides: byte code may be cached, gloo stays on loopback, profiles go to a folder that is removed."""
    env = {**os.environ, MARK: mark, "IPYTHONDIR": str(folder / "ipython"), "PYTHONPATH": str(ROOT)}
    env.setdefault("GLOO_SOCKET_IFNAME", "lo")
    for name in ("PYTHONDONTWRITEBYTECODE", "LABKIT_RANKS", "LABKIT_BACKEND", "OMP_NUM_THREADS"):
        env.pop(name, None)
    return env


class Program:
    """A started program; `age_s` is the time since its process was asked for.

    Everything it says within a deadline comes back from `hear` and `ask`; else BenchError with the end of its log.
    """

    def __init__(self, command: list[str], env: dict[str, str], folder: Path, name: str) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        path = folder / f"{name}.socket"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(1)
        self._socket: socket.socket | None = None
        self._buffer = b""
        with self._log.open("ab") as log:
            self.started_s = time.monotonic()
            self._process = subprocess.Popen(
                [sys.executable, *command], env={**env, CHANNEL: str(path)}, cwd=ROOT,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.started_s

    @property
    def pid(self) -> int:
        return self._process.pid

    def hear(self, deadline_s: float = ANSWER_S) -> dict[str, Any]:
        """The next message of the program."""
        end = time.monotonic() + deadline_s
        while b"\n" not in self._buffer:
            left = end - time.monotonic()
            if left <= 0:
                raise self._error(f"said nothing for {deadline_s:g} s")
            self._more(min(left, 1.0))
        line, self._buffer = self._buffer.split(b"\n", 1)
        message: dict[str, Any] = json.loads(line)
        return message

    def _more(self, wait_s: float) -> None:
        try:
            if self._socket is None:
                self._listener.settimeout(wait_s)
                self._socket = self._listener.accept()[0]
            self._socket.settimeout(wait_s)
            data = self._socket.recv(1 << 16)
        except TimeoutError:
            if self._process.poll() is None:
                return
            data = b""
        if not data:
            raise self._error("ended")
        self._buffer += data

    def ask(self, op: str, deadline_s: float = ANSWER_S, **payload: Any) -> Any:
        """Have the program do `op`; what it answers."""
        if self._socket is None:
            raise self._error("was asked before it had said anything")
        try:
            self._socket.sendall(json.dumps({"op": op, **payload}).encode() + b"\n")
        except OSError:
            raise self._error("ended") from None
        return self.hear(deadline_s)["value"]

    def _error(self, what: str) -> BenchError:
        return BenchError(f"{self.name} {what}; its last words: {last_words(self._log)}")

    def close(self) -> None:
        """Ask it to stop; end it by its pid if it does not within `STOP_S`."""
        if self._socket is not None:
            try:
                self._socket.sendall(b'{"op": "stop"}\n')
                self._process.wait(STOP_S)
            except (OSError, subprocess.TimeoutExpired):
                pass
            self._socket.close()
        self._listener.close()
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(STOP_S)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class Completed:
    """How a program came to its end."""

    seconds: float
    status: int
    last_words: str


def complete(command: list[str], env: dict[str, str], log: Path, limit_s: float) -> Completed:
    """Run a program to its end, in a session of its own; ended by its pid, and BenchError, if that takes too long."""
    began_s = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=env, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        status = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{log.stem} took more than {limit_s:g} s; its last words: {last_words(log)}") from None
    finally:
        if process.poll() is None:
            end(process)
    return Completed(time.monotonic() - began_s, status, last_words(log))


def end(process: subprocess.Popen[bytes], patience_s: float = 5.0) -> None:
    """Asked first: a launcher such as mpiexec has ranks in sessions of their own, and ends them when it is asked to end."""
    process.terminate()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(STOP_S)


def last_words(log: Path) -> str:
    """The end of a log."""
    return log.read_text(errors="replace").strip()[-600:] or "none"


def left_behind(mark: str) -> Iterator[psutil.Process]:
    """Living processes that carry a run's mark, whoever their parent is by now."""
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                yield process
        except psutil.Error:
            continue


def sweep(mark: str, patience_s: float = 5.0) -> list[str]:
    """End what a run has left behind, each by its pid; what it was."""
    left = lingering(mark, patience_s)
    told = []
    for process in left:
        try:
            told.append(f"{process.pid} {' '.join(process.cmdline())[:100]}")
            process.kill()
        except psutil.Error:
            continue
    if told:
        lingering(mark, STOP_S)  # a kill takes a moment
    return told


def lingering(mark: str, patience_s: float) -> list[psutil.Process]:
    """What is still there when `patience_s` is over, or none as soon as all have gone."""
    over_s = time.monotonic() + patience_s
    while (left := list(left_behind(mark))) and time.monotonic() < over_s:
        time.sleep(0.05)
    return left
