"""What the world asks of a rank itself: form a generation, change the mode, run a cell, take a fault, prove that it is alive."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from ...faults import FAULTS
from ...registry import unknown
from ...wire import Shown
from ..cell import run_cell
from ..context import RankContext
from ..dispatch import OPS

REDUCE_OPS = ("sum", "avg", "max", "min", "product")


@OPS.register("form")
def form(context: RankContext, *, generation: int, host: str, port: int, timeout_s: float, mode: str) -> dict[str, Any]:
    """Join a generation; `value` is the all-reduce of rank + 1."""
    context.mode = mode
    return {"value": context.groups.form(generation, host, port, timeout_s), "pid": os.getpid()}


@OPS.register("mode")
def set_mode(context: RankContext, *, mode: str) -> None:
    """Go to "safe" or "raw" mode."""
    context.groups.set_mode(mode)


@OPS.register("ping")
def ping(context: RankContext) -> dict[str, Any]:
    """Who this rank is."""
    return {"rank": context.rank, "pid": os.getpid(), "device": context.device, "generation": context.generation}


@OPS.register("cell")
def cell(context: RankContext, *, shell: Any, code: str, cell: int) -> Shown | None:
    """Execute a learner's code as cell number `cell`."""
    return run_cell(context, shell, code, cell)


@OPS.register("all_reduce")
def all_reduce(context: RankContext, *, numel: int = 4, reduce_op: str = "sum", dtype: str = "float32") -> list[float]:
    """All-reduce a fresh tensor filled with rank + 1; the first elements of the result."""
    if reduce_op not in REDUCE_OPS:
        raise unknown("reduce op", reduce_op, REDUCE_OPS)
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise unknown("dtype", dtype, ("float32", "float64", "float16", "bfloat16", "int32", "int64"))
    tensor = torch.full((numel,), context.rank + 1, dtype=kind, device=context.device)
    dist.all_reduce(tensor, op=getattr(dist.ReduceOp, reduce_op.upper()))
    return [float(value) for value in tensor[:16].tolist()]


@dataclass
class RankFaultContext:
    """What an armed fault may know of its rank, and how it says that it has fired."""

    context: RankContext

    @property
    def rank(self) -> int:
        return self.context.rank

    @property
    def world_size(self) -> int:
        return self.context.world_size

    def fired(self) -> None:
        """Count it in the beacon, which outlives this process."""
        self.context.ring.fault_fired()


@OPS.register("arm")
def arm(context: RankContext, *, fault: str, params: dict[str, Any]) -> None:
    """Put a fault's interceptor in front of this rank's calls."""
    context.tap.interceptors.append(FAULTS[fault].arm(RankFaultContext(context), **params))


@OPS.register("disarm")
def disarm(context: RankContext) -> dict[str, int]:
    """Take every fault out, with the calls it holds back; how many faults have fired in this process."""
    context.tap.interceptors.clear()
    return {"fired": context.ring.fired}
