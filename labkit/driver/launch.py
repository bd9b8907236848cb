"""How processes come to be: by the fork server, or as subprocesses of the kernel. One protocol for both."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from ..launching import engine_arguments
from .forkserver import ForkServer
from .rundir import RunDir

OnExit = Callable[[int], None]

CONTROLLER_ARGUMENTS = (
    "--ip=127.0.0.1",
    "--location=127.0.0.1",
    # a registration is complete after up to two heartbeats, 6 s with the default period
    "--HeartMonitor.period=30",
    # a stopped rank must not be unregistered for good; we learn of a death from its exit
    "--HeartMonitor.max_heartmonitor_misses=120000",
    "--nodb",
    "--TaskScheduler.scheme_name=none",
    "--IPController.use_threads=True",
    "--IPController.broadcast_scheduler_depth=0",
    "--log-level=ERROR",
)


class Launcher(Protocol):
    """Starts the controller, the store and ranks; each start returns a pid."""

    name: str

    def controller(self, on_exit: OnExit) -> int: ...
    def store(self, env: dict[str, str], on_exit: OnExit) -> tuple[int, int]:
        """(pid, port) of the store that outlives every rank."""
        ...

    def rank(self, rank: int, env: dict[str, str], on_exit: OnExit) -> int: ...
    def close(self) -> None: ...


class ForkLauncher:
    """Every process is a fork of one that has torch imported."""

    name = "fork"

    def __init__(self, server: Callable[[], ForkServer], folder: RunDir) -> None:
        self._server, self._folder = server, folder  # asked each time: a fork server may have been lost

    def _fork(self, kind: str, argv: list[str], env: dict[str, str], name: str, on_exit: OnExit) -> dict[str, Any]:
        answer = self._server().fork(
            kind, argv, {**os.environ, **env}, self._folder.log(name), on_exit, folder=str(self._folder.path)
        )
        self._folder.note(answer["pid"])
        return answer

    def controller(self, on_exit: OnExit) -> int:
        argv = [f"--profile-dir={self._folder.path}", *CONTROLLER_ARGUMENTS]
        return int(self._fork("controller", argv, {}, "controller", on_exit)["pid"])

    def store(self, env: dict[str, str], on_exit: OnExit) -> tuple[int, int]:
        answer = self._fork("store", [], env, "store", on_exit)
        return int(answer["pid"]), int(answer["port"])

    def rank(self, rank: int, env: dict[str, str], on_exit: OnExit) -> int:
        argv = engine_arguments(rank, str(self._folder.path))
        return int(self._fork("rank", argv, env, f"rank-{rank}", on_exit)["pid"])

    def close(self) -> None:
        """The fork server outlives a world: the next start is warm."""


class ProcessLauncher:
    """Every process is a fresh interpreter: slower, and works where forking does not."""

    name = "subprocess"

    def __init__(self, folder: RunDir) -> None:
        self._folder = folder
        self._lifelines: list[socket.socket] = []

    def _spawn(
        self, command: list[str], env: dict[str, str], name: str, on_exit: OnExit, **options: Any
    ) -> subprocess.Popen[bytes]:
        ours, theirs = socket.socketpair()
        self._lifelines.append(ours)  # its end of file, when this kernel dies, ends the process
        guarded = [sys.executable, "-m", "labkit.rank.lifeline", str(theirs.fileno()), *command]
        with Path(self._folder.log(name)).open("ab") as output:
            process = subprocess.Popen(
                guarded, stdin=subprocess.DEVNULL, stdout=options.pop("stdout", output), stderr=output,
                env={**os.environ, **env}, start_new_session=True, pass_fds=[theirs.fileno()], **options,
            )  # fmt: skip
        theirs.close()
        self._folder.note(process.pid)
        threading.Thread(target=lambda: on_exit(process.wait()), name=f"labkit-wait-{name}", daemon=True).start()
        return process

    def controller(self, on_exit: OnExit) -> int:
        command = ["-m", "ipyparallel.controller", f"--profile-dir={self._folder.path}", *CONTROLLER_ARGUMENTS]
        return self._spawn(command, {}, "controller", on_exit).pid

    def store(self, env: dict[str, str], on_exit: OnExit) -> tuple[int, int]:
        process = self._spawn(["-m", "labkit.rank.store"], env, "store", on_exit, stdout=subprocess.PIPE)
        assert process.stdout is not None
        with process.stdout as pipe:
            text = pipe.readline()
        return process.pid, int(text or 0)

    def rank(self, rank: int, env: dict[str, str], on_exit: OnExit) -> int:
        return self._spawn(["-m", "labkit.rank.engine"], env, f"rank-{rank}", on_exit).pid

    def close(self) -> None:
        for end in self._lifelines:
            end.close()
        self._lifelines.clear()


def kill(pid: int) -> None:
    """End a process that we started, with whatever it has started in its session; gone already is fine."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    except PermissionError:
        os.kill(pid, signal.SIGKILL)
