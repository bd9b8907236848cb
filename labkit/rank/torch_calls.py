"""What torch offers to move bytes between ranks: which functions the tap wraps, and how calls are named.

A function that is not here is seen all the same if it ends in a process group's call: the group's own hook sees it. What a
wrapped function adds is its name, its line, its reduce op, when it returns, and the faults. A test walks torch's own tables
and fails when torch offers something that is in none of these lists.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

TAPPED = (
    "all_reduce all_reduce_coalesced reduce broadcast all_gather all_gather_into_tensor all_gather_single "
    "all_gather_coalesced _all_gather_base gather gather_into_tensor gather_single scatter reduce_scatter "
    "reduce_scatter_tensor reduce_scatter_single _reduce_scatter_base all_to_all all_to_all_single barrier send recv isend "
    "irecv batch_isend_irecv all_gather_object broadcast_object_list gather_object scatter_object_list send_object_list "
    "recv_object_list monitored_barrier"
).split()
WAITING = frozenset({"send", "recv", "send_object_list", "recv_object_list"})  # they wait, though the group's call does not
P2P = frozenset({"send", "recv"})

_OP_NAMES = {
    "ALLREDUCE": "all_reduce", "ALLREDUCE_COALESCED": "all_reduce_coalesced", "ALLGATHER": "all_gather",
    "ALLGATHER_BASE": "all_gather_into_tensor", "ALLGATHER_COALESCED": "all_gather_coalesced",
    "ALLGATHER_INTO_TENSOR_COALESCED": "all_gather_into_tensor_coalesced",
    "REDUCE_SCATTER_BASE": "reduce_scatter_tensor",
    "REDUCE_SCATTER_TENSOR_COALESCED": "reduce_scatter_tensor_coalesced",
    "ALLTOALL": "all_to_all", "ALLTOALL_BASE": "all_to_all_single",
}  # fmt: skip


def install(wrap: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Put `wrap(name, function)` in the place of each function, also for torch's own callers; the functions by name.

    torch compares some functions by identity (`P2POp`, the coalescing manager), so both modules get the same one.
    """
    originals = {name: getattr(c10d, name) for name in TAPPED if hasattr(c10d, name)}
    for name, original in originals.items():
        wrapped = wrap(name, original)
        for module in (c10d, dist):
            if hasattr(module, name):
                setattr(module, name, wrapped)
    return originals


@functools.cache
def op_name(name: Any) -> str:
    """labkit's name of a hook's op."""
    text = str(name).rsplit(".", 1)[-1]
    return _OP_NAMES.get(text, text.lower())


@functools.cache
def dtype_name(dtype: torch.dtype) -> str:
    """A dtype without its module.

    >>> dtype_name(torch.float32)
    'float32'
    """
    return str(dtype)[6:]


def reduce_op(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The reduce op of a call as text ("sum"), "" where the collective has none."""
    place = REDUCE_OP_AT.get(name)
    if place is None:
        return ""
    op = kwargs["op"] if "op" in kwargs else args[place] if len(args) > place else dist.ReduceOp.SUM
    found = _REDUCE_OP_TEXT.get(op) if isinstance(op, dist.ReduceOp.RedOpType) else None
    return found or str(op).rsplit(".", 1)[-1].strip("<>").lower()


def is_outside(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """A call was given what new_group returns to a rank that is no member."""
    none = dist.GroupMember.NON_GROUP_MEMBER
    return any(each is none for each in (*args, *kwargs.values()))


REDUCE_OP_AT = {
    "all_reduce": 1, "all_reduce_coalesced": 1, "reduce": 2, "reduce_scatter": 2, "reduce_scatter_tensor": 2,
    "reduce_scatter_single": 2, "_reduce_scatter_base": 2,
}  # fmt: skip
_REDUCE_OP_TEXT = {op: name.lower() for name, op in dist.ReduceOp.RedOpType.__members__.items()}
