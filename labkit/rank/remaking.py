"""What belongs to a process group is made anew on the groups of the new generation: DDP wrappers, and handles of the group."""

from __future__ import annotations

import gc
from contextlib import suppress
from types import CellType
from typing import Any

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

_KEPT = (  # what nn.Module begins anew
    "training",
    "_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
    "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs",
)  # fmt: skip


def group_of(members: tuple[int, ...]) -> Any:
    """The group of these ranks in this generation; LookupError if it is one that the learner's code has to make."""
    if members == tuple(range(dist.get_world_size())):
        return dist.group.WORLD
    raise LookupError(f"a process group of ranks {', '.join(map(str, members))}; make it again on all ranks")


def ddp_options(wrapper: DistributedDataParallel) -> dict[str, Any]:
    """How a wrapper was made, as its attributes tell; LookupError for one that is made with more than they say."""
    if wrapper.mixed_precision is not None or wrapper._delay_all_reduce_params:
        raise LookupError("a DDP wrapper with mixed precision or delayed parameters; make it again on all ranks")
    cap_mb = None if wrapper.bucket_bytes_cap_default else wrapper.bucket_bytes_cap / 2**20
    same = ("find_unused_parameters", "static_graph", "gradient_as_bucket_view", "forward_sync_buffers", "dim")
    return {"process_group": wrapper.process_group, "bucket_cap_mb": cap_mb, **{name: getattr(wrapper, name) for name in same}}


def make_ddp(module: Any, options: dict[str, Any], hooks: list[tuple[Any, Any]], wrapper: Any = None) -> Any:
    """A wrapper on this generation's groups, or `wrapper` anew. It sends nothing: every rank keeps the numbers that it has."""
    if wrapper is None:
        wrapper = DistributedDataParallel(module, init_sync=False, **options)
    else:
        wrapper.__init__(module, init_sync=False, **options)
    for hook, state in hooks:
        wrapper.register_comm_hook(state, hook)
    return wrapper


def remake(old_world: Any) -> None:
    """Give whatever has a handle of the last generation's group of all ranks the new one, and renew DDP wrappers."""
    _remake_wrappers(old_world)
    for holder in gc.get_referrers(old_world):
        _exchange(holder, old_world, dist.group.WORLD)


def _exchange(holder: Any, old: Any, new: Any) -> None:
    """Put `new` where a dictionary, a list or a closure has `old`. (No comprehension here: it would be such a closure.)"""
    if isinstance(holder, CellType):
        holder.cell_contents = new
    elif isinstance(holder, dict | list):
        for place, value in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
            if value is old:
                holder[place] = new


def _remake_wrappers(old_world: Any) -> None:
    """Renew every DDP wrapper of this process that was made on `old_world`, in its place.

    It stays the same object, so whatever refers to it has the new one. Its reducer listens to the parameters' gradients until
    it is gone, so it goes first.
    """
    for wrapper in [each for each in gc.get_objects() if issubclass(type(each), DistributedDataParallel)]:
        if vars(wrapper).get("process_group") is not old_world or "reducer" not in vars(wrapper):
            continue
        with suppress(LookupError):
            options = {**ddp_options(wrapper), "process_group": dist.group.WORLD}
            kept = {name: vars(wrapper)[name] for name in _KEPT if name in vars(wrapper)}
            hooks = list(wrapper._comm_hooks)
            del wrapper.reducer, wrapper.logger
            make_ddp(wrapper.module, options, hooks, wrapper)
            vars(wrapper).update(kept)
