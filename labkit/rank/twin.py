"""A rank's twin: a fork of the rank at rest, which holds what the rank knew, and writes it down when the rank is gone.

It is made after the answer to a request that may have changed a variable, as soon as the rank has nothing to do, and before
the next request at the latest. So it always knows what the rank knew when the newest cell began. Making it costs the rank
milliseconds: the system copies a page only when one of the two writes to it.

The twin sits at one end of a socket, and the kernel at the other (driver/twins.py). It does nothing but wait for one word:

    -> {"rank": 2, "cell": 6}            before the fork; {"rank": 2, "cell": 6, "why": "..."} if there will be no twin
    -> {"pid": 123}                      the twin is there
    <- "w"                               write all variables to rank-2.kept in the world's folder
    -> {"names": 14}  or  {"error": "..."}

At the end of the file it ends: the kernel has closed its end, because there is a newer twin or no need for one, or is gone.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import socket
import sys
import traceback
import warnings
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NoReturn

import torch

from ..machine import free_memory_bytes
from ..processes import set_title
from ..runfolder import TWINS, connect_in, kept_file
from ..units import format_bytes
from .context import RankContext
from .saving import save

CHANGES = ("cell", "push", "schedule", "restore")  # ops after which a rank may know something new
REST_S = 0.004  # a rank that has answered gives its other threads so long to send that it is idle
COLLECT_S = 0.02  # between two looks at whether an older twin has ended
CONNECT_S = 0.25
LIMIT_BYTES = 2**30  # a rank that has grown by more has no twin; nor has one that has grown by its share of a quarter
SMALL_BYTES = 64 * 2**20  # of the free memory, which is not even asked for below this
_HIDDEN = ("_", "__", "___", "_i", "_ii", "_iii", "_ih", "_oh", "_dh", "_sh", "In", "Out")


class TwinMaker:
    """Keeps one twin of this rank, and a newer one instead when there is something new to know."""

    def __init__(self, context: RankContext) -> None:
        self._context = context
        self._first = dict(context.namespace)
        self._first_bytes = own_bytes()
        self._off = os.environ.get("LABKIT_KEEP") == "no" or not hasattr(os, "fork") or sys.platform != "linux"
        self._stale = False
        self._twin = 0
        self._ended: list[int] = []

    def changed(self, op: str) -> None:
        """A variable may be another after this op."""
        if op in CHANGES:
            self._stale = not self._off
        if op == "cell":
            self._context.knows_cell = self._context.cell

    def refresh(self) -> None:
        """Make a twin if there is none that knows all; only in the main thread, and while it runs no code of a learner."""
        if not self._stale:
            return
        self._stale = False
        context, why = self._context, self._why_not()
        hello = {"rank": context.rank, "cell": context.knows_cell, **({"why": why} if why else {})}
        with suppress(OSError), closing(connect_in(context.run_dir, TWINS, CONNECT_S)) as line:  # else the kernel is gone
            line.sendall(json.dumps(hello).encode() + b"\n")
            if not why:
                self._fork(line)

    def _fork(self, line: socket.socket) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside other threads: see `_be_twin`
            pid = os.fork()
        if pid == 0:
            _be_twin(self._context, self.names(), line)
        if self._twin and self._is_ours(self._twin):
            os.kill(self._twin, signal.SIGKILL)
            self._ended.append(self._twin)
        self._twin = pid

    def names(self) -> list[str]:
        """What is the learner's of the namespace: all that was not there at first, or is another thing now."""
        return [
            name
            for name, value in self._context.namespace.items()
            if type(name) is str and name not in _HIDDEN and (name not in self._first or self._first[name] is not value)
        ]

    def collect(self) -> bool:
        """Collect twins that have ended; whether one is still about to."""
        self._ended = [pid for pid in self._ended if self._is_ours(pid)]
        return bool(self._ended)

    @staticmethod
    def _is_ours(pid: int) -> bool:
        """Whether this is still a child of ours that runs; one that has ended is collected."""
        try:
            return os.waitpid(pid, os.WNOHANG)[0] == 0
        except ChildProcessError:  # a learner's own `os.wait` has collected it
            return False

    def _why_not(self) -> str:
        """Why this rank can't have a twin now; "" if it can."""
        if self._context.device.startswith("cuda") or torch.cuda.is_initialized():
            return "CUDA is in use on it, and a process that uses CUDA can't be forked"
        size = own_bytes() - self._first_bytes
        if size > SMALL_BYTES and size > (limit := min(LIMIT_BYTES, free_memory_bytes() // 4 // self._context.world_size)):
            return f"it takes {format_bytes(size)} of memory, and a twin is made up to {format_bytes(limit)}"
        return ""


def own_bytes() -> int:
    """Memory of this process that is no file's."""
    pages = Path("/proc/self/statm").read_text().split()
    return (int(pages[1]) - int(pages[2])) * resource.getpagesize()


def _be_twin(context: RankContext, names: list[str], line: socket.socket) -> NoReturn:
    """The child's side of the fork; never returns.

    Only this thread has come along. The others may have held locks, so nothing that they use is touched: not zmq, not gloo,
    not what prints. Nothing is collected and nobody's destructor runs. The connections are closed: as long as the twin had
    them, nobody would hear that the rank has gone.
    """
    try:
        gc.disable()
        os.setsid()  # what ends the rank's session must not end its twin
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.closerange(3, line.fileno())
        os.closerange(line.fileno() + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        sys.stdout = sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 - it lives as long as the process
        os.environ["SPT_NOENV"] = "1"
        world = context.run_dir.name.partition("-")[0]
        set_title(f"labkit: twin of rank {context.rank} of world {world}", f"labkit twin {context.rank}")
        del os.environ["SPT_NOENV"]
        line.settimeout(None)
        line.sendall(json.dumps({"pid": os.getpid()}).encode() + b"\n")
        if line.recv(1) == b"w":
            line.sendall(json.dumps(_write(context, names)).encode() + b"\n")
    except BaseException:  # noqa: BLE001 - into the rank's log; the kernel sees that the line has ended
        traceback.print_exc()
    finally:
        os._exit(0)


def _write(context: RankContext, names: list[str]) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)  # the threads of torch's pool have stayed behind
    try:
        saved = save(context.namespace, names, kept_file(context.run_dir, context.rank))
    except BaseException as error:  # noqa: BLE001 - told to the kernel, which tells the learner
        return {"error": f"{type(error).__name__}: {error}"[:200]}
    return {"names": len(saved.names)}
