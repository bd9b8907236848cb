"""The call forms of `torch.distributed`: where each function takes which argument.

A learner may write `dist.all_reduce(x, dist.ReduceOp.MAX)` or name everything; a fault sees one form.
"""

from __future__ import annotations

import dataclasses
from typing import Any, cast

from .base import PendingCall

_NAMES: dict[str, tuple[str, ...]] = {
    "all_reduce": ("tensor", "op", "group", "async_op"),
    "reduce": ("tensor", "dst", "op", "group", "async_op", "group_dst"),
    "broadcast": ("tensor", "src", "group", "async_op", "group_src"),
    "all_gather": ("tensor_list", "tensor", "group", "async_op"),
    "all_gather_into_tensor": ("output_tensor", "input_tensor", "group", "async_op"),
    "gather": ("tensor", "gather_list", "dst", "group", "async_op", "group_dst"),
    "scatter": ("tensor", "scatter_list", "src", "group", "async_op", "group_src"),
    "reduce_scatter": ("output", "input_list", "op", "group", "async_op"),
    "reduce_scatter_tensor": ("output", "input", "op", "group", "async_op"),
    "all_to_all": ("output_tensor_list", "input_tensor_list", "group", "async_op"),
    "all_to_all_single": ("output", "input", "output_split_sizes", "input_split_sizes", "group", "async_op"),
    "barrier": ("group", "async_op", "device_ids"),
    "send": ("tensor", "dst", "group", "tag", "group_dst"),
    "recv": ("tensor", "src", "group", "tag", "group_src"),
    "isend": ("tensor", "dst", "group", "tag", "group_dst"),
    "irecv": ("tensor", "src", "group", "tag", "group_src"),
    "new_group": ("ranks", "timeout", "backend"),
    "sendrecv": ("input_tensor", "output_tensor", "dst", "src"),  # a move of a schedule; torch has no such function
}
# the arguments through which data goes in or out; what a fault replaces, it replaces in all of them
DATA = frozenset(
    "tensor tensor_list output_tensor input_tensor gather_list scatter_list output input input_list "
    "output_tensor_list input_tensor_list".split()
)
P2P = frozenset({"send", "recv", "isend", "irecv", "batch_isend_irecv"})


def arguments(call: PendingCall) -> dict[str, Any]:
    """The given arguments by name; for a function not in the table only the named ones."""
    return {**dict(zip(_NAMES.get(call.op, ()), call.args, strict=False)), **call.kwargs}


def group_members(call: PendingCall, world_size: int) -> list[int]:
    """The ranks of the call's group, in the group's order."""
    group = arguments(call).get("group")
    if group is None:
        return list(range(world_size))
    import torch.distributed as dist

    return list(dist.get_process_group_ranks(group))


def is_async(call: PendingCall) -> bool:
    """Whether the caller expects a Work that it will wait for."""
    return call.op in ("isend", "irecv") or bool(arguments(call).get("async_op"))


def changed(call: PendingCall, **changes: Any) -> PendingCall:
    """A copy of the call, made at the same line, with some arguments changed or added."""
    names = _NAMES.get(call.op, ())
    args = tuple(changes.get(name, value) for name, value in zip(names, call.args, strict=False))
    args += call.args[len(args) :]
    placed = set(names[: len(call.args)])
    kwargs = {**call.kwargs, **{name: value for name, value in changes.items() if name not in placed}}
    return cast(PendingCall, dataclasses.replace(cast(Any, call), args=args, kwargs=kwargs))


class DoneWork:
    """Stands in for the Work of a call that was never issued: to its caller it looks finished."""

    def wait(self, timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self) -> None:
        return None
