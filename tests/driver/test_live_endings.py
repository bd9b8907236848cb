"""However a kernel ends, nothing of its world is left: no process, no folder, no port. And two kernels get along."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from labkit.processes import state_of_pid

pytestmark = pytest.mark.gloo

KERNEL = """
import json, os, psutil, sys, time
from labkit.driver.start import start
from labkit.driver.current import HOLDER
world = start(2, "gloo", launcher=sys.argv[1])
cluster = world.core.cluster
server = [] if HOLDER.running_server is None else [HOLDER.running_server.pid]
pids = sorted({child.pid for child in psutil.Process().children(recursive=True)} - set(server)) + server
assert set(cluster.pids.values()) < set(pids)  # the controller has a process of its own
print(json.dumps({"pids": pids, "folder": str(cluster.folder.path)}), flush=True)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""
GONE_WITHIN_S = 3.0


class Kernel:
    """A process that plays a notebook kernel with a world of two ranks."""

    def __init__(self, launcher: str, tmp_path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", KERNEL, launcher],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "LABKIT_RUN_ROOT": str(tmp_path / "runs")},
        )
        facts = json.loads(self.read())
        self.pids, self.folder = facts["pids"], Path(facts["folder"])

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def do(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()

    def left(self) -> list[int]:
        end = time.monotonic() + GONE_WITHIN_S
        while time.monotonic() < end and any(state_of_pid(pid) != "dead" for pid in self.pids):
            time.sleep(0.05)
        return [pid for pid in self.pids if state_of_pid(pid) != "dead"]


@pytest.fixture
def kernels(tmp_path: Path) -> Iterator[list[Kernel]]:
    made: list[Kernel] = []
    yield made
    for kernel in made:
        kernel.end()


STUCK = "world.try_fault('swapped-order', 1)"


@pytest.mark.parametrize(
    ("how", "stuck", "launcher"),
    [(how, stuck, "fork") for how in ("exit", "SIGTERM", "SIGKILL") for stuck in (False, True)]
    + [("exit", False, "subprocess"), ("SIGKILL", True, "subprocess")],
)
def test_a_kernel_that_ends_takes_all_with_it(
    kernels: list[Kernel], tmp_path: Path, how: str, stuck: bool, launcher: str
) -> None:
    kernel = Kernel(launcher, tmp_path)
    kernels.append(kernel)
    if stuck:
        kernel.do(STUCK)
        assert kernel.read() == "done\n"
    if how == "exit":
        kernel.do("sys.exit()")
    else:
        kernel.process.send_signal(getattr(signal, how))
    kernel.process.wait(10)
    assert kernel.left() == []
    end = time.monotonic() + GONE_WITHIN_S
    while kernel.folder.exists() and time.monotonic() < end:
        time.sleep(0.05)
    if launcher == "fork" or how == "exit":
        assert not kernel.folder.exists()


def test_two_kernels_at_once(kernels: list[Kernel], tmp_path: Path) -> None:
    first, second = Kernel("fork", tmp_path), Kernel("fork", tmp_path)
    kernels += [first, second]
    assert not set(first.pids) & set(second.pids)
    assert first.folder != second.folder
    first.do(STUCK)
    assert first.read() == "done\n"
    second.do("assert world.run('all_reduce').values == ((3.0,) * 4,) * 2")
    assert second.read() == "done\n"
    first.end()
    assert first.left() == []
    second.do("assert world.run('all_reduce').values == ((3.0,) * 4,) * 2")
    assert second.read() == "done\n"


def test_a_lost_fork_server_is_said_and_mended(kernels: list[Kernel], tmp_path: Path) -> None:
    kernel = Kernel("fork", tmp_path)
    kernels.append(kernel)
    os.kill(kernel.pids[-1], signal.SIGKILL)
    assert kernel.left() == []
    kernel.do("world.recover(); assert world.run('all_reduce').values == ((3.0,) * 4,) * 2")
    assert kernel.read() == "done\n"


def test_everything_listens_on_loopback_only_and_files_are_private(kernels: list[Kernel], tmp_path: Path) -> None:
    kernel = Kernel("fork", tmp_path)
    kernels.append(kernel)
    listening = [
        connection.laddr.ip
        for pid in kernel.pids
        for connection in psutil.Process(pid).net_connections()
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert set(listening) <= {"127.0.0.1", "::1"}
    assert (kernel.folder.stat().st_mode & 0o777) == 0o700
    assert (kernel.folder.parent.stat().st_mode & 0o777) == 0o700
    for file in (kernel.folder / "security").iterdir():
        assert (file.stat().st_mode & 0o077) == 0, file


STORE = """
import torch.distributed as dist
store = dist.TCPStore("127.0.0.1", cluster._port, None, is_master=False, wait_for_workers=False)
keys = [key for key in store.list_keys() if "generation-" in key]
assert keys and all(cluster._store_key in key for key in keys)
"""


def test_nobody_meets_the_ranks_in_the_store_by_chance(kernels: list[Kernel], tmp_path: Path) -> None:
    kernel = Kernel("fork", tmp_path)
    kernels.append(kernel)
    kernel.do(f"exec({STORE!r})")
    assert kernel.read() == "done\n"


def test_people_can_tell_the_processes_apart(kernels: list[Kernel], tmp_path: Path) -> None:
    kernel = Kernel("fork", tmp_path)
    kernels.append(kernel)
    seen = {psutil.Process(pid).cmdline()[0] for pid in kernel.pids}
    of = f"of world {kernel.process.pid}"
    server = f"labkit: fork server of kernel {kernel.process.pid}"
    assert seen == {f"labkit: {name} {of}" for name in ("rank 0", "rank 1", "controller", "store")} | {server}
    assert {psutil.Process(pid).name() for pid in kernel.pids} == {
        "labkit rank 0", "labkit rank 1", "labkit control", "labkit store", "labkit forks",
    }  # fmt: skip
    cell = "import sys; [name for name in sys.modules if 'pydevd' in name]"
    kernel.do(f"assert world.run_cell({cell!r}, [0]).outcomes[0].shown.text == '[]'")  # each rank would take 0.15 s for it
    assert kernel.read() == "done\n"
