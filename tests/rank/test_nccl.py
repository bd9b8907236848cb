"""NCCL's paths as far as they can be proven without a GPU: pure parts, torch's own recorder on gloo, and the fork."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labkit.rank import nccl
from labkit.rank.nccl import Flight, family, parse_flights, returns_at_once, updates
from labkit.wire import Call


def entry(record: int, op: str, seq: int, state: str = "scheduled", *, retired: bool = False, **more: Any) -> dict[str, Any]:
    """One entry as torch 2.15 writes it."""
    return {
        "record_id": record, "profiling_name": f"nccl2:{op}", "collective_seq_id": seq, "p2p_seq_id": 0, "op_id": record,
        "pg_id": 0, "process_group": ["0", "default_pg"], "is_p2p": False, "input_sizes": [[4]], "input_dtypes": ["Float"],
        "output_sizes": [[4]], "output_dtypes": ["Float"], "state": state, "retired": retired, "time_created_ns": 5,
        "time_discovered_started_ns": 0, "time_discovered_completed_ns": 0, "timeout_ms": 120000, **more,
    }  # fmt: skip


def dump(*entries: dict[str, Any]) -> str:
    return json.dumps({"version": "2.10", "entries": list(entries), "pg_config": {}, "pg_status": {}, "nccl_comm_state": {}})


def call(seq: int, op: str = "all_reduce", group: str = "world", state: str = "issued") -> Call:
    return Call(index=seq, seq=seq, op=op, group=group, state=state)


# ---- the flight recorder's entries
@pytest.mark.parametrize(
    ("state", "retired", "name", "expected"),
    [
        ("scheduled", False, "nccl2:all_reduce", "issued"),
        ("started", False, "nccl2:all_reduce", "started"),
        ("completed", True, "nccl2:all_reduce", "done"),
        ("completed", False, "nccl:all_reduce", "done"),
        ("started", True, "nccl:all_reduce", "failed"),
        ("scheduled", True, "gloo:all_reduce", "done"),
        ("scheduled", False, "gloo:all_reduce", "issued"),
    ],
)
def test_states(state: str, retired: bool, name: str, expected: str) -> None:
    (flight,) = parse_flights(dump(entry(0, "all_reduce", 1, state, retired=retired, profiling_name=name)))
    assert flight == Flight("world", 0, 1, "all_reduce", expected, False, (4,), "float", 5, 0)


def test_only_the_newest_generation_counts() -> None:
    old = entry(0, "all_reduce", 1)
    sub = entry(1, "all_reduce", 1, pg_id=1, process_group=["1", "undefined"])
    new = entry(2, "broadcast", 1, pg_id=2)
    bare = {"input_sizes": [], "input_dtypes": [], "output_sizes": [], "output_dtypes": []}
    newer_sub = entry(3, "barrier", 1, pg_id=3, process_group=["1", "undefined"], **bare)
    flights = parse_flights(dump(newer_sub, old, new, sub))
    seen = [(flight.group, flight.op, flight.shape, flight.dtype) for flight in flights]
    assert seen == [("world", "broadcast", (4,), "float"), ("group 1", "barrier", (), "")]


def test_point_to_point_has_no_number() -> None:
    (flight,) = parse_flights(dump(entry(0, "send 0->1", 3, is_p2p=True)))
    assert (flight.op, flight.seq, flight.p2p) == ("send", 0, True)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"entries": 3}', '{"entries": [{}]}', '{"entries": [3]}'])
def test_damaged_text_is_no_evidence(text: str) -> None:
    assert parse_flights(text) == ()


def test_a_dump_without_entries() -> None:
    assert parse_flights('{"version":"2.10"}') == ()


# ---- what the beacon learns from them
def test_updates_match_by_group_and_number_and_skip_the_check() -> None:
    flights = parse_flights(
        dump(
            entry(0, "all_reduce", 1, "completed", retired=True),  # the check
            entry(1, "all_reduce", 2, "completed", retired=True),
            entry(2, "broadcast", 3, "started"),
            entry(3, "all_reduce", 4, "scheduled"),
            entry(4, "all_reduce", 1, "completed", retired=True, pg_id=1, process_group=["1", "undefined"]),
        )
    )
    calls = (call(1), call(2, "broadcast"), call(3), call(1, group="group 1 (0, 1)"), call(4))
    assert updates(calls, flights) == (call(1, state="done"), call(1, group="group 1 (0, 1)", state="done"))


def test_another_name_is_not_believed() -> None:
    flights = parse_flights(dump(entry(1, "broadcast", 2, "completed", retired=True)))
    assert updates((call(1),), flights) == ()
    assert updates((call(1, "broadcast"),), flights) == (call(1, "broadcast", state="done"),)


@pytest.mark.parametrize("state", ["done", "failed", "refused"])
def test_what_the_beacon_has_closed_stays_closed(state: str) -> None:
    flights = parse_flights(dump(entry(1, "all_reduce", 2, "started", retired=True)))
    assert updates((call(1, state=state),), flights) == ()
    assert updates((call(1),), flights) == (call(1, state="failed"),)


@pytest.mark.parametrize(
    ("recorded", "ours"),
    [
        ("_all_gather_base", "all_gather_into_tensor"),
        ("_reduce_scatter_base", "reduce_scatter_tensor"),
        ("allreduce_coalesced", "all_reduce_coalesced"),
        ("all_to_all_single", "all_to_all_single"),
        ("barrier", "barrier"),
    ],
)
def test_families(recorded: str, ours: str) -> None:
    assert family(recorded) == family(ours)


def test_which_backends_return_at_once() -> None:
    assert all(returns_at_once(name) for name in ("nccl", "nccl2", "nccl-legacy"))
    assert not any(returns_at_once(name) for name in ("gloo", "fake"))


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
def test_torchs_own_dump_is_read(alone: Any) -> None:
    import torch
    import torch.distributed as dist

    from labkit.ring import read_ring

    alone.tap.completes_on_return = False
    for _ in range(2):
        dist.all_reduce(torch.ones(2, 2))
        dist.all_gather_into_tensor(torch.ones(4), torch.ones(4))
        dist.barrier()
    flights = parse_flights(nccl.flight_json("gloo"))
    assert [flight.op for flight in flights] == ["all_reduce"] + ["all_reduce", "all_gather", "barrier"] * 2
    assert [flight.seq for flight in flights] == list(range(1, 8))
    assert flights[1].shape == (2, 2)
    ring = read_ring(alone.run_dir / "rank-0.beacon")
    assert ring is not None
    open_calls = [one for one in ring.calls if one.state == "issued"]
    assert {one.state for one in updates(open_calls, flights)} <= {"done"}
    assert len(updates(open_calls, flights)) == len(open_calls)


@pytest.mark.gloo
def test_a_second_generation_is_told_apart_in_torchs_own_dump(alone: Any) -> None:
    import torch.distributed as dist

    dist.barrier()
    port = alone.groups._store_at[1]
    alone.groups.form(2, "127.0.0.1", port, 10.0)
    assert [flight.op for flight in parse_flights(nccl.flight_json("gloo"))] == ["all_reduce"]


@pytest.mark.gloo
def test_abort_leaves_torchs_books_alone_so_that_the_groups_can_be_destroyed(alone: Any) -> None:
    import torch.distributed as dist

    dist.new_group([0])
    assert nccl.errors() == {}
    aborted: list[int] = []
    thread = threading.Thread(target=lambda: aborted.append(nccl.abort_groups(2.0)))
    thread.start()
    thread.join(5.0)
    assert aborted == [2]
    assert dist.is_initialized()
    port = alone.groups._store_at[1]
    assert alone.groups.form(2, "127.0.0.1", port, 10.0) == 1.0


@pytest.mark.gloo
def test_release_interrupts_before_it_aborts(alone: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait returns normally after an abort; the interrupt must be pending by then."""
    from labkit.rank.control import release

    order: list[str] = []
    monkeypatch.setattr(release.os, "kill", lambda pid, number: order.append("interrupt"))
    monkeypatch.setattr(release, "abort_groups", lambda: order.append("abort") or 1)
    alone.backend = "nccl"
    alone.main_busy_since_s = time.monotonic()
    assert release.release(alone) == {"cut": 1}
    assert order[:2] == ["interrupt", "abort"]
    alone.main_busy_since_s = 0.0
    order.clear()
    release.release(alone)
    assert order == ["abort"]
    alone.backend = "gloo"


def test_nothing_to_abort_without_groups() -> None:
    pytest.importorskip("torch")
    assert nccl.abort_groups() == 0


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
