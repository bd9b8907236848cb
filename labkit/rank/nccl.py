"""What is different with NCCL: a call returns when it is enqueued, and only an abort frees the GPU.

Three needs. The beacon must tell the truth about calls that have returned and are not done: their works
are swept, and torch's flight recorder is a second witness. A cell must not end before its collectives
have, or a hang would show in the next one. And a main thread that waits for the GPU comes free when the
control thread aborts the communicators.

The readers of the flight recorder are pure; torch is imported where it is needed.
"""

from __future__ import annotations

import dataclasses
import json
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..wire import Call

CHECKS = 1  # collectives of a generation before the tap watches: Groups' own check
ABORT_WAIT_S = 0.3
NAMES = ("nccl", "nccl2", "nccl-legacy", "nccl-lazy")

# The recorder's names where they are not ours, and gloo's habit of making one collective out of another.
_FAMILIES = {
    "_all_gather_base": "all_gather", "all_gather_into_tensor": "all_gather", "_allgather_base": "all_gather",
    "_reduce_scatter_base": "reduce_scatter", "reduce_scatter_tensor": "reduce_scatter",
    "all_to_all_single": "all_to_all", "alltoall_base": "all_to_all", "alltoall": "all_to_all",
    "allreduce": "all_reduce", "allgather": "all_gather", "allreduce_coalesced": "all_reduce_coalesced",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Flight:
    """One entry of the flight recorder. `group` is "world" or "group 1", as the tap counts them.

    `state`: "issued", "started" (its kernel runs), "done", or "failed" (given up without having been seen to end).
    """

    group: str
    group_id: int
    seq: int
    op: str
    state: str
    p2p: bool = False
    shape: tuple[int, ...] = ()
    dtype: str = ""
    created_ns: int = 0
    completed_ns: int = 0


def returns_at_once(backend: str) -> bool:
    """Whether a collective of this backend returns when it is enqueued, not when it is done.

    >>> returns_at_once("nccl"), returns_at_once("gloo")
    (True, False)
    """
    return backend in NAMES


# ---- its log
def name_log(run_dir: Path, rank: int) -> None:
    """Have NCCL write its log into the world's folder, unless the user has named a file.

    It must be called before NCCL starts in this process. NCCL puts the pid in place of %p, so a rank that was replaced
    does not write over what the one before it has left.
    """
    if os.environ.get("LABKIT_NCCL_LOG") == "1":
        folder = str(run_dir / "log").replace("%", "%%")
        os.environ.setdefault("NCCL_DEBUG_FILE", f"{folder}/nccl-{rank}.%p.log")


# ---- the flight recorder
def flight_json(backend: str) -> str:
    """torch's flight recorder as JSON; may be called from any thread while the main thread is stuck."""
    from torch._C import _distributed_c10d

    dumps: Any = _distributed_c10d  # a build without NCCL lacks the first
    if backend == "nccl-legacy" or (backend == "nccl" and os.environ.get("TORCH_DIST_USE_NCCL2") == "0"):
        return str(dumps._dump_nccl_trace_json(), "utf-8")
    return str(dumps._dump_fr_trace_json(backend="nccl2" if backend == "nccl" else backend), "utf-8")


def parse_flights(text: str) -> tuple[Flight, ...]:
    """The entries of a dump, oldest first; those of the newest generation only. Damaged text is no evidence.

    A group's id is new in each life of it, and the world comes first in a generation.
    """
    try:
        entries = json.loads(text).get("entries", [])
        flights = [_flight(entry) for entry in sorted(entries, key=lambda entry: int(entry["record_id"]))]
    except (ValueError, KeyError, TypeError, AttributeError):
        return ()
    newest = max((flight.group_id for flight in flights if flight.group == "world"), default=0)
    return tuple(flight for flight in flights if flight.group_id >= newest)


def _flight(entry: dict[str, Any]) -> Flight:
    library, _, op = str(entry["profiling_name"]).partition(":")
    name, description = (*entry["process_group"], "", "")[:2]
    sizes = entry.get("input_sizes") or entry.get("output_sizes") or [[]]
    dtypes = entry.get("input_dtypes") or entry.get("output_dtypes") or [""]
    p2p = bool(entry.get("is_p2p", False))
    return Flight(
        group="world" if description == "default_pg" or name == "0" else f"group {name}",
        group_id=int(entry.get("pg_id", 0)), seq=0 if p2p else int(entry["collective_seq_id"]), op=family(op.split(" ")[0]),
        state=_state(entry, library), p2p=p2p, shape=tuple(int(size) for size in sizes[0]), dtype=str(dtypes[0]).lower(),
        created_ns=int(entry.get("time_created_ns", 0)), completed_ns=int(entry.get("time_discovered_completed_ns") or 0),
    )  # fmt: skip


def _state(entry: dict[str, Any], library: str) -> str:
    state = str(entry.get("state", ""))
    if state == "completed":
        return "done"
    if entry.get("retired"):
        # gloo keeps no times: retired is all it tells, also of an operation that timed out. Elsewhere an
        # entry that was given up before it was seen to end has failed.
        return "done" if library == "gloo" else "failed"
    return "started" if state == "started" else "issued"


def family(op: str) -> str:
    """An op's name without what differs between the recorder, the hooks and the Python functions.

    >>> family("_all_gather_base"), family("all_reduce")
    ('all_gather', 'all_reduce')
    """
    return _FAMILIES.get(op, op)


def updates(calls: Sequence[Call], flights: Sequence[Flight]) -> tuple[Call, ...]:
    """The calls whose state the flight recorder knows better, with that state.

    Matched by group and number; where the names differ nothing is said. A call that is done or refused stays
    so: the recorder may lag behind.
    """
    known = {(flight.group, flight.seq): flight for flight in flights if not flight.p2p}
    found = []
    for call in calls:
        if call.p2p or call.state != "issued":
            continue
        group = call.group.split(" (")[0]
        flight = known.get((group, call.seq + (CHECKS if group == "world" else 0)))
        if flight is not None and flight.op == family(call.op) and flight.state in ("done", "failed"):
            found.append(dataclasses.replace(call, state=flight.state))
    return tuple(found)


# ---- the abort
def abort_groups(wait_s: float = ABORT_WAIT_S) -> int:
    """Abort every group's communicator, from a thread that is not the main one; how many were aborted in time.

    One thread per group, all at once: a communicator's abort waits for its kernels, which may be queued
    behind another's. Nothing of torch's own books is touched, so that the main thread can still destroy the
    groups; an abort that takes longer goes on by itself.
    """
    from torch.distributed import distributed_c10d as c10d

    if not c10d.is_initialized():
        return 0
    ended: list[int] = []

    def abort(group: Any) -> None:
        group.abort()
        ended.append(1)

    threads = [threading.Thread(target=abort, args=(group,), daemon=True) for group in list(c10d._world.pg_map)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + wait_s
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return len(ended)


def errors() -> dict[str, str]:
    """What each group's watchdog has noted, by the group's name; empty when all is well."""
    from torch.distributed import distributed_c10d as c10d

    noted = {}
    for group, name in list(c10d._world.pg_names.items()):
        for device in group._device_types:
            error = str(group._get_backend(device).get_error()).rsplit(".", 1)[-1]
            if error != "SUCCESS":
                noted[str(name)] = error.lower()
    return noted
