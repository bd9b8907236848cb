"""`monitored_barrier`: the one call of a process group that tells no hook, so its method is wrapped.

It has a time limit of its own and names who has not come, so safe mode lets it go without a comparison: one that waited
for a late rank first would take the limit away.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import torch.distributed as dist

if TYPE_CHECKING:
    from .tap import Tap

OP = "monitored_barrier"


class Unhooked(NamedTuple):
    """What a hook would have been told."""

    name: str = OP
    input_tensors: tuple[Any, ...] = ()
    output_tensors: tuple[Any, ...] = ()
    root: int = -1
    async_op: bool = False
    op_id: int = -1


def install(tap: Tap) -> None:
    """Wrap the method of torch's class, for every group that is watched."""
    original = dist.ProcessGroup.monitored_barrier

    @functools.wraps(original)
    def monitored(group: dist.ProcessGroup, *args: Any, **kwargs: Any) -> Any:
        if not tap.in_call:  # asked of the group itself, not through torch.distributed
            return tap.make(OP, monitored, (group, *args), kwargs)
        tap.note(group, Unhooked())
        return original(group, *args, **kwargs)

    dist.ProcessGroup.monitored_barrier = monitored
