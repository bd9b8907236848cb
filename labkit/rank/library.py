"""The library's own collectives, on the backend of the world's group: what schedules are held against.

Below the tap, as the schedules are: neither side pays for being watched, and a learner's calls keep their numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from .channel import P2PChannel

_OPS = {"SUM": "SUM", "AVG": "SUM", "MAX": "MAX", "MIN": "MIN", "PRODUCT": "PRODUCT"}  # AVG is divided once, at the end


def all_reduce(channel: P2PChannel, tensor: torch.Tensor, op: str) -> None:
    """The library's all-reduce, waited for."""
    options = c10d.AllreduceOptions()
    options.reduceOp = getattr(dist.ReduceOp, _OPS[op])
    channel.backend.allreduce([tensor], options).wait()
    channel.synchronize()


def barrier(channel: P2PChannel) -> None:
    """Return when all ranks have come here."""
    all_reduce(channel, torch.zeros(1, device=channel.context.device), "SUM")


def agreed(channel: P2PChannel, number: int) -> bool:
    """Whether all ranks give the same number; they must, before a message of that size is sent."""
    pair = torch.tensor([number, -number], dtype=torch.int64, device=channel.context.device)
    all_reduce(channel, pair, "MAX")
    return bool(pair[0] == -pair[1])


def timed(channel: P2PChannel, run: Callable[[], Any], calls: int = 1) -> tuple[float, float]:
    """When this rank began and ended `calls` runs, by the machine's one monotonic clock; all begin together."""
    barrier(channel)
    began_s = time.monotonic()
    for _ in range(calls):
        run()
    return began_s, time.monotonic()


def collective(channel: P2PChannel, name: str, num_elements: int, dtype: torch.dtype) -> Callable[[], None]:
    """One call of a library collective on fresh zeros; `num_elements` is the total as the field's tools count it."""
    size, backend = len(channel.members), channel.backend

    def tensor(count: int) -> torch.Tensor:
        return torch.zeros(count, dtype=dtype, device=channel.context.device)

    whole = tensor(num_elements)
    piece = tensor(num_elements // size) if name in ("all_gather", "reduce_scatter") else whole[:0]
    other = tensor(num_elements) if name == "all_to_all" else whole[:0]
    issue: dict[str, Callable[[], Any]] = {
        "all_reduce": lambda: backend.allreduce([whole], c10d.AllreduceOptions()),
        "broadcast": lambda: backend.broadcast([whole], c10d.BroadcastOptions()),
        "reduce": lambda: backend.reduce([whole], c10d.ReduceOptions()),
        "all_gather": lambda: backend._allgather_base(whole, piece, c10d.AllgatherOptions()),
        "reduce_scatter": lambda: backend._reduce_scatter_base(piece, whole, c10d.ReduceScatterOptions()),
        "all_to_all": lambda: backend.alltoall_base(other, whole, [], [], c10d.AllToAllOptions()),
    }

    def call() -> None:
        issue[name]().wait()
        channel.synchronize()

    return call
