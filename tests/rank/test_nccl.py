"""NCCL's paths as far as they can be tested without a GPU: pure parts, aborts of gloo's groups, and the fork."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labkit.rank.backends import make_backend
from labkit.rank.backends.nccl import NcclRank


# ---- with torch, in this process: a world of one
@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A rank context of a world of one rank, on gloo."""
    import torch.distributed as dist

    from labkit.rank.context import RankContext
    from labkit.rank.groups import Groups
    from labkit.rank.tap import Tap

    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    context = RankContext(0, 1, tmp_path, {})
    store = dist.TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)
    c10d = dist.distributed_c10d
    before = [(module, dict(vars(module))) for module in (dist, c10d)]  # without what the tap and the groups wrap
    context.tap = Tap(context)
    context.tap.install()
    context.groups = Groups(context, context.tap)
    context.groups.form(1, "127.0.0.1", store.port, 10.0)
    yield context
    context.groups.dissolve()
    for module, names in before:
        vars(module).update(names)


def states(context: Any) -> list[tuple[str, str]]:
    from labkit.ring import read_ring

    ring = read_ring(context.run_dir / "rank-0.beacon")
    assert ring is not None
    return [(one.op, one.state) for one in ring.calls]


@pytest.mark.gloo
def test_a_call_that_returns_at_once_is_done_when_its_work_is(alone: Any) -> None:
    import torch
    import torch.distributed as dist

    alone.tap.completes_on_return = False
    dist.all_reduce(torch.ones(3))
    dist.broadcast(torch.ones(3), 0)
    assert [state for _, state in states(alone)] in (["issued", "issued"], ["done", "issued"])
    alone.tap.end_cell()
    assert states(alone) == [("all_reduce", "done"), ("broadcast", "done")]


@pytest.mark.gloo
def test_a_call_that_could_not_be_issued_is_failed(alone: Any) -> None:
    import torch
    import torch.distributed as dist

    alone.tap.completes_on_return = False
    with pytest.raises((RuntimeError, ValueError)):
        dist.all_reduce(torch.ones(3), op=dist.ReduceOp.BAND)
    assert states(alone) in ([("all_reduce", "failed")], [("all_reduce", "invalid")])


@pytest.mark.gloo
def test_an_abort_leaves_torchs_records_so_that_the_groups_can_be_destroyed(alone: Any) -> None:
    import torch.distributed as dist

    dist.new_group([0])
    alone.backend, counts = NcclRank("nccl"), []
    thread = threading.Thread(target=lambda: counts.append(alone.backend.abort_groups(2.0)))
    thread.start()
    thread.join(5.0)
    assert counts == [2]
    assert dist.is_initialized()
    alone.backend.before_destroy()  # as dissolve does it: what was aborted is not aborted twice
    assert len(alone.backend._aborts) == 2
    alone.backend.after_destroy()
    alone.backend = make_backend("gloo")
    assert alone.groups.form(2, "127.0.0.1", alone.groups._store_at[1], 10.0) == 1.0


@pytest.mark.gloo
def test_release_interrupts_before_it_aborts(alone: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait returns normally after an abort; the interrupt must be pending by then."""
    from labkit.rank.control import waits

    order: list[str] = []
    monkeypatch.setattr(waits.os, "kill", lambda pid, number: order.append("interrupt"))
    monkeypatch.setattr(NcclRank, "abort_groups", lambda self: order.append("abort") or 1)
    monkeypatch.setattr(alone, "backend", NcclRank("nccl"))
    alone.main_busy_since_s = time.monotonic()
    assert waits.release(alone) == {"cut": 1}
    assert order == ["interrupt", "abort", "interrupt"]  # it was not free after the time that it gets
    order.clear()
    assert waits.release(alone, interrupt=False) == {"cut": 1}
    alone.main_busy_since_s = 0.0
    waits.release(alone)
    assert order == ["abort", "abort"]


def test_an_abort_that_takes_long_is_waited_for_again_and_not_started_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    c10d = pytest.importorskip("torch.distributed").distributed_c10d
    kernel, started = threading.Event(), []

    class Group:
        def abort(self) -> None:
            started.append(self)
            kernel.wait(5.0)

    group = Group()
    monkeypatch.setattr(c10d, "is_initialized", lambda: True)
    monkeypatch.setattr(c10d, "_world", SimpleNamespace(pg_map={group: None}))
    backend = NcclRank("nccl")
    assert backend.release(lambda: None) == 0
    kernel.set()
    assert backend.abort_groups(5.0) == 1
    assert started == [group]


def test_nothing_to_abort_without_groups() -> None:
    pytest.importorskip("torch")
    assert NcclRank("nccl").abort_groups() == 0


# ---- the fork server and CUDA
FORK = """
import json, os, sys
import torch
touched = []
for module, names in ((torch._C, ("_cuda_getDeviceCount", "_cuda_init", "_cuda_getDevice", "_cuda_setDevice")),
                      (torch.cuda, ("_lazy_init", "device_count", "is_available", "_device_count_nvml"))):
    for name in names:
        original = getattr(module, name, None)
        if original is not None:
            setattr(module, name, lambda *a, _n=name, _o=original, **k: (touched.append(_n), _o(*a, **k))[1])
os.environ["CUDA_VISIBLE_DEVICES"] = "0,1,2,3"
before = torch.cuda._parse_visible_devices()
from labkit.rank.forkserver import _Server
_Server.import_torch(None)
maps = open("/proc/self/maps").read()
files = [os.path.realpath("/proc/self/fd/" + fd) for fd in os.listdir("/proc/self/fd")]
told = {
    "touched": touched, "initialized": torch.cuda.is_initialized(), "count_cached": torch.cuda._cached_device_count,
    "libcuda": "libcuda.so" in maps, "before": before, "children": [],
    "devices": [path for path in files if path.startswith("/dev/nvidia")],
}
for value in ("2", "GPU-aaaa-bbbb", "MIG-cccc", "", "-1", None):
    reader, writer = os.pipe()
    if os.fork() == 0:
        env = dict(os.environ)
        env.pop("CUDA_VISIBLE_DEVICES")
        if value is not None:
            env["CUDA_VISIBLE_DEVICES"] = value
        os.environ.clear()  # as the fork server does it
        os.environ.update(env)
        seen = torch.cuda._parse_visible_devices()
        bad = torch.cuda._is_in_bad_fork()
        os.write(writer, json.dumps([value, seen if value is not None else len(seen), bad]).encode())
        os._exit(0)
    os.close(writer)
    told["children"].append(json.loads(os.read(reader, 4096)))
    os.wait()
print(json.dumps(told), flush=True)
os._exit(0)
"""


@pytest.mark.slow
def test_the_fork_server_leaves_cuda_alone_and_a_fork_sees_its_own_devices(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60, check=False, cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["touched"], told["initialized"], told["count_cached"], told["libcuda"]) == ([], False, None, False)
    assert told["devices"] == []
    assert told["before"] == [0, 1, 2, 3]
    assert told["children"] == [
        ["2", [2], False],
        ["GPU-aaaa-bbbb", ["GPU-aaaa-bbbb"], False],
        ["MIG-cccc", ["MIG-cccc"], False],
        ["", [], False],
        ["-1", [], False],
        [None, 64, False],
    ]
