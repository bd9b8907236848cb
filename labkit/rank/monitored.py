"""`monitored_barrier`: the one call of a process group that tells no hook, so its method is wrapped.

It has a time limit of its own and names who has not come, so safe mode lets it go without a comparison: one that waited
for a late rank first would take the limit away.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch.distributed as dist

OP = "monitored_barrier"


class Unhooked(NamedTuple):
    """What a hook would have been told."""

    name: str = OP
    input_tensors: tuple[Any, ...] = ()
    output_tensors: tuple[Any, ...] = ()
    root: int = -1
    async_op: bool = False
    op_id: int = -1


class Notes(Protocol):
    """What is used of the tap."""

    @property
    def in_call(self) -> bool: ...
    def make(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def note(self, group: dist.ProcessGroup, seen: Any) -> None: ...


def install(tap: Notes) -> None:
    """Wrap the method of torch's class, for every group that is watched."""
    original = dist.ProcessGroup.monitored_barrier

    @functools.wraps(original)
    def monitored(group: dist.ProcessGroup, *args: Any, **kwargs: Any) -> Any:
        if not tap.in_call:  # asked of the group itself, not through torch.distributed
            return tap.make(OP, monitored, (group, *args), kwargs)
        tap.note(group, Unhooked())
        return original(group, *args, **kwargs)

    dist.ProcessGroup.monitored_barrier = monitored
