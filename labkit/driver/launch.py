"""How processes come to be: by the fork server, or as subprocesses of the kernel. One protocol for both."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Protocol

from ..errors import StartError
from ..processes import Child, ExitQueue, end_session, identify
from ..runfolder import RunFolder
from ..vocabulary import engine_arguments
from .forkserver import ForkServer

STORE_TIMEOUT_S = 60.0  # of a fresh interpreter that imports torch
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
    # signatures of messages that were seen, so that none is taken twice: 2**16 of them, the default, take 10 MB
    "--Session.digest_history_size=1000",
    "--log-level=ERROR",
)


class Launcher(Protocol):
    """Starts the controller, the store and ranks, and tells of their ends by `child.on_exit`, in a thread of its own."""

    name: str

    def controller(self, child: Child) -> None: ...
    def store(self, child: Child, env: dict[str, str]) -> int:
        """Start the store that outlives every rank; its port."""
        ...

    def rank(self, child: Child, rank: int, env: dict[str, str]) -> None: ...
    def close(self) -> None: ...


class ForkLauncher:
    """Every process is a fork of one that has torch imported."""

    name = "fork"

    def __init__(self, server: Callable[[], ForkServer], folder: RunFolder) -> None:
        self._server, self._folder = server, folder  # asked each time: a fork server may have been lost

    def _fork(self, child: Child, kind: str, argv: list[str], env: dict[str, str]) -> dict[str, Any]:
        request = {
            "kind": kind, "argv": argv, "env": {**os.environ, **env}, "log": self._folder.log(log_name(child)),
            "cwd": str(Path.cwd()), "folder": str(self._folder.path), "title": title(child, self._folder), "short": short(child),
        }  # fmt: skip
        answer = self._server().fork(child, request)
        assert child.process is not None
        self._folder.note(child.process)
        return answer

    def controller(self, child: Child) -> None:
        self._fork(child, "controller", [f"--profile-dir={self._folder.path}", *CONTROLLER_ARGUMENTS], {})

    def store(self, child: Child, env: dict[str, str]) -> int:
        return int(self._fork(child, "store", [], env)["port"])

    def rank(self, child: Child, rank: int, env: dict[str, str]) -> None:
        self._fork(child, "rank", engine_arguments(rank, str(self._folder.path)), env)

    def close(self) -> None:
        """The fork server outlives a world: the next start is warm."""


class ProcessLauncher:
    """Every process is a fresh interpreter: slower, and works where forking does not."""

    name = "subprocess"

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._lifelines: list[socket.socket] = []
        self._waits: list[threading.Thread] = []
        self._exits = ExitQueue()

    def _spawn(self, child: Child, command: list[str], env: dict[str, str], stdout: int | None = None) -> IO[bytes] | None:
        ours, theirs = socket.socketpair()
        self._lifelines.append(ours)  # its end of file, when this kernel dies, ends the process
        guarded = [sys.executable, "-m", "labkit.rank.lifeline", str(theirs.fileno()), *command]
        names = {"SPT_NOENV": "1", "LABKIT_TITLE": title(child, self._folder), "LABKIT_SHORT_TITLE": short(child)}
        with Path(self._folder.log(log_name(child))).open("ab") as output:
            process = subprocess.Popen(
                guarded, stdin=subprocess.DEVNULL, stdout=output if stdout is None else stdout, stderr=output,
                env={**os.environ, **names, **env}, start_new_session=True, pass_fds=[theirs.fileno()],
            )  # fmt: skip
        theirs.close()
        child.process = identify(process.pid)  # nobody has collected it yet: it is this one
        assert child.process is not None
        self._folder.note(child.process)
        self._waits.append(threading.Thread(target=self._collect, args=(child, process), name="labkit-wait", daemon=True))
        self._waits[-1].start()
        return process.stdout

    def _collect(self, child: Child, process: subprocess.Popen[bytes]) -> None:
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            end_session(process.pid)
        self._exits.put(child, process.wait())

    def controller(self, child: Child) -> None:
        self._spawn(child, ["-m", "ipyparallel.controller", f"--profile-dir={self._folder.path}", *CONTROLLER_ARGUMENTS], {})

    def store(self, child: Child, env: dict[str, str]) -> int:
        stdout = self._spawn(child, ["-m", "labkit.rank.store"], env, subprocess.PIPE)
        assert stdout is not None
        with stdout as pipe:
            text = pipe.readline() if select.select([pipe], [], [], STORE_TIMEOUT_S)[0] else b""
        if not text.strip():
            child.kill()
            raise StartError(f"the store gave no port in {STORE_TIMEOUT_S:g} s", hint="`labkit doctor` looks for the reason")
        return int(text)

    def rank(self, child: Child, rank: int, env: dict[str, str]) -> None:
        self._spawn(child, ["-m", "labkit.rank.engine"], env)

    def close(self, timeout_s: float = 5.0) -> None:
        """Let go of all processes, which ends those that still run, and wait until that is told."""
        for lifeline in self._lifelines:
            lifeline.close()
        self._lifelines.clear()
        for thread in self._waits:
            thread.join(timeout_s)
        self._exits.close(timeout_s)


def log_name(child: Child) -> str:
    """The name of a process's log: "rank 2" writes to rank-2.log."""
    return child.name.replace(" ", "-")


def title(child: Child, folder: RunFolder) -> str:
    """What `ps` shows of a process: a world is known by its kernel's number, as its folder is."""
    return f"labkit: {child.name} of world {folder.world_id.partition('-')[0]}"


def short(child: Child) -> str:
    """What `top` shows: 15 letters at most."""
    return f"labkit {child.name}".replace("controller", "control")
