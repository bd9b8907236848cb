"""What belongs to a process group is made anew on the groups of the new generation: DDP wrappers, and handles of the group."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import CellType
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.nn.parallel import DistributedDataParallel

_KEPT = (  # what nn.Module begins anew
    "training",
    "_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
    "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs",
)  # fmt: skip


@dataclass(frozen=True)
class Made:
    """A process group as the learner's code has made it; `number` is the same on all ranks."""

    number: int
    members: tuple[int, ...]
    timeout_s: float
    desc: str | None
    group: Any  # torch's sign for "not a member" on the other ranks


def agree(store: dist.Store, rank: int, world_size: int, made: Sequence[Made] | None) -> list[Made]:
    """Which of the last generation's groups to make again, in order: those that every rank knows that was there.

    `made` is None on a rank that was not. All ranks ask at once, and all get the same.
    """
    own = None if made is None else [(one.number, one.members, one.timeout_s, one.desc) for one in made]
    store.set(f"made/{rank}", json.dumps(own))
    told = [json.loads(text) for text in store.multi_get([f"made/{other}" for other in range(world_size)])]
    known = [{number: tuple(rest) for number, *rest in one} for one in told if one is not None]
    plan = [number for number in sorted(known[0]) if all(one.get(number) == known[0][number] for one in known)] if known else []
    groups = {one.number: one.group for one in made or ()}
    fields = {number: known[0][number] for number in plan}
    return [
        Made(number, tuple(members), timeout_s, desc, groups.get(number)) for number, (members, timeout_s, desc) in fields.items()
    ]


def group_of(members: tuple[int, ...], nth: int = 0) -> Any:
    """The `nth` group of these ranks in this generation; LookupError if it is one that the learner's code has to make."""
    found = [group for group in c10d._world.pg_map if tuple(dist.get_process_group_ranks(group)) == members]
    if nth < len(found):
        return found[nth]
    raise LookupError(f"a process group of ranks {', '.join(map(str, members))}; make it again on all ranks")


def place_of(group: dist.ProcessGroup) -> tuple[tuple[int, ...], int]:
    """What `group_of` finds this group again by; LookupError if it is of a generation that is over."""
    if group not in c10d._world.pg_map:
        raise LookupError("a process group that is over; make it again on all ranks")
    members = tuple(dist.get_process_group_ranks(group))
    alike = [one for one in c10d._world.pg_map if tuple(dist.get_process_group_ranks(one)) == members]
    return members, alike.index(group)


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


def remake(renewed: Iterable[tuple[Any, Any]]) -> None:
    """Give whatever has a handle of a group of the last generation the new one, and renew DDP wrappers.

    `renewed` are pairs of groups, the old one and the new one.
    """
    pairs = [(old, new) for old, new in renewed if isinstance(old, dist.ProcessGroup)]
    _remake_wrappers(lambda group: next((new for old, new in pairs if old is group), None))
    for old, new in pairs:
        for holder in gc.get_referrers(old):
            if holder is not pairs:
                _exchange(holder, old, new)


def _exchange(holder: Any, old: Any, new: Any) -> None:
    """Put `new` where a dictionary, a list, an object or a closure has `old`. (No comprehension: it would be such a closure.)"""
    if isinstance(holder, CellType):
        holder.cell_contents = new
        return
    places = holder if isinstance(holder, dict | list) else getattr(holder, "__dict__", None)
    if not isinstance(places, dict | list):
        return
    for place, value in list(places.items() if isinstance(places, dict) else enumerate(places)):
        if value is old:
            places[place] = new


def _remake_wrappers(newer: Callable[[Any], Any]) -> None:
    """Renew every DDP wrapper of this process that was made on a group that has a newer one, in its place.

    It stays the same object, so whatever refers to it has the new one. Its reducer listens to the parameters' gradients until
    it is gone, so it goes first.
    """
    for wrapper in [each for each in gc.get_objects() if issubclass(type(each), DistributedDataParallel)]:
        group = newer(vars(wrapper).get("process_group"))
        if group is None or "reducer" not in vars(wrapper):
            continue
        with suppress(LookupError):
            options = {**ddp_options(wrapper), "process_group": group}
            kept = {name: vars(wrapper)[name] for name in _KEPT if name in vars(wrapper)}
            hooks = list(wrapper._comm_hooks)
            del wrapper.reducer, wrapper.logger
            make_ddp(wrapper.module, options, hooks, wrapper)
            vars(wrapper).update(kept)
