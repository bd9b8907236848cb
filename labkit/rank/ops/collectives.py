"""Collectives on fresh tensors, for a quick look: the value each rank ends with."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from ...registry import unknown
from ..context import RankContext
from ..dispatch import OPS

REDUCE_OPS = ("sum", "avg", "max", "min", "product")


@OPS.register("all_reduce")
def all_reduce(
    context: RankContext, *, shell: Any, buffers: list[Any], numel: int = 4, reduce_op: str = "sum", dtype: str = "float32"
) -> list[float]:
    """All-reduce a tensor filled with rank + 1; the first elements of the result."""
    if reduce_op not in REDUCE_OPS:
        raise unknown("reduce op", reduce_op, REDUCE_OPS)
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise unknown("dtype", dtype, ("float32", "float64", "float16", "bfloat16", "int32", "int64"))
    tensor = torch.full((numel,), context.rank + 1, dtype=kind, device=context.device)
    dist.all_reduce(tensor, op=getattr(dist.ReduceOp, reduce_op.upper()))
    return [float(value) for value in tensor[:16].tolist()]
