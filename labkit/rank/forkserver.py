"""The fork server: imports torch once, then makes ranks by forking, in a tenth of a second each.

`python -m labkit.rank.forkserver FD` talks JSON lines over the socket FD, whose other end only the kernel
holds. It serves three needs: torch is imported once and its pages are shared; a rank can be replaced
while the others live; and nothing outlives the kernel (end of file on FD ends every child, and a child
dies with the fork server).

    -> {"seq": 1, "kind": "rank" | "controller" | "store", "argv": [...], "env": {...}, "log": path, "cwd": path,
        "folder": path, "title": "labkit: rank 2 of world 2821", "short": "labkit rank 2"}
    <- {"seq": 1, "pid": 123, "start": 1700000000.5}  (when it was created; a store also gets {"port": 4567})
    <- {"seq": 1, "error": "why there is no child"}
    <- {"exit": 123, "status": -9}
    <- {"ready": "controller" | "rank"}

It stays single-threaded and never touches CUDA or zmq, so that a fork is safe; before each fork it looks whether that is so.
`folder` is removed when the kernel has died without having removed it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import shutil
import signal
import socket
import sys
import threading
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import psutil

from ..processes import end_session, identify, set_title
from . import place
from .pages import Collapse

STORE_TIMEOUT_S = 20.0
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(descriptor: int) -> None:
    """Serve until the kernel closes its end."""
    set_title(f"labkit: fork server of kernel {os.getppid()}", "labkit forks")
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # daemons of ranks come to us
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the kernel's Ctrl-C is not ours
    _Server(socket.socket(fileno=descriptor), wake, woken).serve()


class _Server:
    def __init__(self, sock: socket.socket, wake: int, woken: int) -> None:
        self.sock, self.wake, self.woken = sock, wake, woken
        self.children: set[int] = set()
        self.owners: dict[int, tuple[str, str]] = {}  # a rank's pid -> what marks its own children's environment
        self.folders: set[str] = set()
        self.buffer = b""
        self.waiting: list[dict[str, Any]] = []
        self.ready = False

    def serve(self) -> None:
        gc.disable()  # imports make only what stays, and a third of their time went into looking for garbage
        # every engine would import debugpy, a quarter of a second, for a debugger that ranks do not have
        sys.modules["debugpy"] = None  # type: ignore[assignment]
        import ipykernel.debugger  # noqa: F401 - once it is here without debugpy, no engine looks for it again
        import ipyparallel.controller.app
        import ipyparallel.engine.app  # noqa: F401

        del sys.modules["debugpy"]  # a learner may import it
        self.say(ready="controller")
        alive = self.step(0.0)  # the controller can start while torch is being imported
        self.import_torch()
        self.ready = True
        self.say(ready="rank")
        while alive:
            waiting, self.waiting = self.waiting, []
            for request in waiting:
                self.perform(request)
            alive = self.step(None)
        self.end()

    def import_torch(self) -> None:
        with Collapse():
            import ipykernel.ipkernel
            import ipykernel.zmqshell  # noqa: F401
            import numpy  # noqa: F401
            import torch
            import torch._dynamo  # a rank's first DDP and first stack trace would wait for it
            import torch.distributed

            from . import boot, dispatch  # noqa: F401

            dispatch.OPS.load()
            dispatch.CONTROL_OPS.load()
        torch.set_num_threads(1)  # a fork must find no thread pool
        gc.enable()
        gc.freeze()  # no look for garbage first: it takes as long as a rank's start, and imports leave little

    def step(self, timeout_s: float | None) -> bool:
        """Read what has come and reap who has ended; False when the kernel is gone."""
        sources: list[Any] = [self.sock, self.wake]
        readable, _, _ = select.select(sources, [], [], timeout_s)
        if self.wake in readable:
            os.read(self.wake, 4096)
        self.reap()
        if self.sock in readable:
            try:
                data = self.sock.recv(1 << 20)
            except OSError:  # the kernel was killed before it had read our answers
                return False
            if not data:
                return False
            self.buffer += data
            while b"\n" in self.buffer:
                line, self.buffer = self.buffer.split(b"\n", 1)
                request = json.loads(line)
                if request["kind"] == "controller" or self.ready:
                    self.perform(request)
                else:
                    self.waiting.append(request)
        return True

    def say(self, **message: Any) -> None:
        try:
            self.sock.sendall(json.dumps(message).encode() + b"\n")
        except OSError:  # the kernel is gone; the next read says so
            return

    def reap(self) -> None:
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            pid = ended.si_pid
            if pid in self.children:
                end_session(pid)
            _, status = os.waitpid(pid, 0)
            if pid in self.children:
                self.children.discard(pid)
                self.say(exit=pid, status=os.waitstatus_to_exitcode(status))
            if pid in self.owners:
                self.end_orphans(self.owners.pop(pid))

    def end_orphans(self, marks: tuple[str, str] | None = None) -> None:
        """End what a rank that is gone has left in sessions of its own; orphans become our children (see `main`)."""
        for child in psutil.Process().children():
            if child.pid in self.children:
                continue
            try:
                env = child.environ()
                if marks is None or (env.get("LABKIT_RUN_DIR"), env.get("LABKIT_RANK")) == marks:
                    child.kill()
            except psutil.Error:
                continue

    def perform(self, request: dict[str, Any]) -> None:
        """Fork one child; a store's port comes back through a pipe."""
        why = unsafe_to_fork()
        if why:
            self.say(seq=request["seq"], error=f"a fork is not safe: {why}")
            return
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            self.become(request, writer)
        os.close(writer)
        self.children.add(pid)
        if request["kind"] == "rank":
            self.owners[pid] = (request["env"].get("LABKIT_RUN_DIR", ""), request["env"].get("LABKIT_RANK", ""))
        if request.get("folder"):
            self.folders.add(request["folder"])
        answer: dict[str, Any] = {"pid": pid}
        with os.fdopen(reader) as pipe:
            if request["kind"] == "store":
                text = pipe.readline() if select.select([pipe], [], [], STORE_TIMEOUT_S)[0] else ""
                answer = {"pid": pid, "port": int(text)} if text.strip() else {"error": "the store could not start"}
        if "error" in answer:
            os.kill(pid, signal.SIGKILL)  # a child that we have not collected: the number is its own
        else:
            created = identify(pid)
            assert created is not None
            answer["start"] = created.start_s
        self.say(seq=request["seq"], **answer)

    def become(self, request: dict[str, Any], writer: int) -> None:
        """The child's side of the fork; never returns."""
        status = 1
        gc.enable()
        try:
            set_title(request["title"], request["short"])
            self.detach(request)
            if request["kind"] == "store":
                from .store import keep_store

                keep_store(writer)
            os.close(writer)
            sys.argv = [f"labkit-{request['kind']}", *request["argv"]]
            if request["kind"] == "controller":
                run_controller(request["argv"])
            else:
                from .engine import run

                run(request["argv"])
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:  # noqa: BLE001 - whatever it is goes to the log, and the child ends
            import traceback

            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def detach(self, request: dict[str, Any]) -> None:
        """Own session, own output file, own environment; dies with the fork server."""
        parent = os.getppid()
        os.setsid()
        _die_with(parent)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        self.sock.close()
        os.close(self.wake)
        os.close(self.woken)
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.close(log)
        os.close(null)
        sys.stdin = open(0)  # noqa: SIM115 - it lives as long as the process
        for name, descriptor in (("stdout", 1), ("stderr", 2)):
            stream = open(descriptor, "w", buffering=1, closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        os.environ.clear()
        os.environ.update(request["env"])
        if request.get("cwd"):
            os.chdir(request["cwd"])
        place.join_user()
        _die_with(parent)  # another user's process forgets it

    def end(self) -> None:
        """End every child, with whatever it has started in its session, by the pids we forked."""
        for pid in self.children:
            end_session(pid)
            with suppress(OSError):  # one that was forked just now has no session of its own yet
                os.kill(pid, signal.SIGKILL)
        while self.children and self.reaped():
            continue
        self.end_orphans()
        for folder in self.folders:  # a kernel that ended well has removed them itself
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)

    def reaped(self) -> bool:
        """Wait for one child that was ended; False if there is none left."""
        try:
            pid, _ = os.waitpid(-1, 0)
        except ChildProcessError:
            return False
        self.children.discard(pid)
        return True


def unsafe_to_fork() -> str:
    """Why a fork of this process could go wrong, "" if it can't.

    A lock that another thread holds stays locked in the child for ever, and CUDA does not survive a fork.
    """
    try:
        threads = len(os.listdir("/proc/self/task"))  # noqa: PTH208 - before each fork
    except OSError:
        threads = threading.active_count()
    if threads > 1:
        return f"the fork server has {threads} threads, and may have one only"
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized():
        return "the fork server has initialised CUDA, which a fork can't use"
    return ""


def run_controller(argv: list[str]) -> None:
    """Be a controller until told to stop."""
    from ipyparallel.controller import app

    # the only use that the module makes of `time` is a pause of 0.25 s after it has opened its database, and ours has none
    app.time = SimpleNamespace(sleep=lambda seconds: None)
    parent = os.getpid()
    os.register_at_fork(after_in_child=lambda: _die_with(parent))  # its monitor of heartbeats is a process of its own
    app.IPController.launch_instance(argv)


def _die_with(parent: int) -> None:
    """End when the parent does, however it does."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
