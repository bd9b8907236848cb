"""Process groups and their generations.

A generation is one set of process groups, from their making to their end. Each has its own prefix in the store, so that it
never reads the keys of a broken one, and an explicit timeout on every group, also on those the learner makes.
"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from .context import RankContext
from .contract import Contract
from .makers import GroupMakers, name_of
from .place import join_network, without_name_server
from .remaking import Made, agree, remake
from .tap import Tap

STORE_TIMEOUT_S = 30.0
# torch's own, whatever a learner puts in their place later
_INIT, _DESTROY, _NEW_GROUP, _ALL_REDUCE = c10d.init_process_group, c10d.destroy_process_group, c10d.new_group, c10d.all_reduce


class Groups:
    """Forms and dissolves this rank's process groups."""

    def __init__(self, context: RankContext, tap: Tap) -> None:
        self._context, self._tap = context, tap
        self._store: dist.Store | None = None
        self._store_at: tuple[str, int] | None = None
        self._makers = GroupMakers(context, tap)
        self._parts: dict[tuple[int, ...], Any] = {}

    def form(self, generation: int, host: str, port: int, timeout_s: float) -> float:
        """Join generation `generation` through the store at host:port; returns a checked all-reduce's value.

        Each rank contributes rank + 1, so the value is world_size (world_size + 1) / 2.
        """
        context = self._context
        join_network()  # not earlier: the engine's own connections, all made by now, stay where the kernel is
        old_world = dist.group.WORLD if dist.is_initialized() else None
        made = context.made
        self.dissolve()
        context.restore_names()
        self._tap.interceptors.clear()  # a fault belongs to the generation it was armed in
        if self._store_at != (host, port):
            self._store, self._store_at = _join_store(host, port), (host, port)
        secret = os.environ.get("LABKIT_STORE_KEY", "")  # so that nobody meets these ranks in the store by chance
        prefix = f"{secret}generation-{generation}"
        store = dist.PrefixStore(prefix, self._store)
        store.set_timeout(timedelta(seconds=STORE_TIMEOUT_S))
        context.generation, context.group_timeout_s = generation, timeout_s
        context.refuse("")
        context.store = store
        with context.backend.making_group():
            # a client of their own: a rank that waits in it while it makes a group is freed by cutting it
            groups_store = dist.PrefixStore("group", dist.PrefixStore(prefix, _join_store(host, port)))
            _INIT(
                context.backend.name, store=groups_store, rank=context.rank,
                world_size=context.world_size, timeout=timedelta(seconds=timeout_s),
                **context.backend.group_options(context.device),
            )  # fmt: skip
            value = self._check()
            self._tap.watch(c10d._get_default_group(), "world", tuple(range(context.world_size)))
            renewed = self._make_again(store, made if old_world is not None else None) if generation > 1 else []
            remake([(old_world, dist.group.WORLD), *renewed])
        if context.rank == 0 and generation > 1:
            forget_others(self._store, prefix)
        context.ring.clear()
        self._tap.completes_on_return = not context.backend.facts.returns_at_once
        self.set_mode(context.mode)
        self._makers.install()
        context.leave()
        return value

    def _check(self) -> float:
        # torch's own, before the tap watches: the check is ours, the learner's first call is #1
        value = torch.full((1,), float(self._context.rank + 1), device=self._context.device)
        _ALL_REDUCE(value)
        return float(value.item())

    def _make_again(self, store: dist.Store, made: list[Made] | None) -> list[tuple[Any, Any]]:
        """The groups that the learner's code had made, on this generation: pairs of the old one and the new one."""
        context, pairs = self._context, []
        for one in agree(store, context.rank, context.world_size, made):
            c10d._world.group_count = one.number  # torch names it by this count: a DeviceMesh finds its groups by name
            group = _NEW_GROUP(list(one.members), timedelta(seconds=one.timeout_s), group_desc=one.desc)
            context.made.append(replace(one, group=group))
            if isinstance(group, dist.ProcessGroup):
                self._tap.watch(group, name_of(one.number, one.members), one.members)
            pairs.append((one.group, group))
        return pairs

    def part(self, members: tuple[int, ...]) -> Any:
        """The group of some ranks, for measuring; made once a generation, by all ranks, and not watched by the tap."""
        if members not in self._parts:
            limit = timedelta(seconds=self._context.group_timeout_s)
            with self._context.backend.making_group():
                self._parts[members] = _NEW_GROUP(list(members), limit)
        return self._parts[members]

    def set_mode(self, mode: str) -> None:
        """ "safe": compare every collective across ranks before it is issued; "raw": only watch."""
        self._context.mode = mode
        self._tap.contract = Contract(self._context, self._context.store) if mode == "safe" else None

    def dissolve(self) -> None:
        """Destroy what groups there are; a wait in one of them must have been cut before."""
        self._tap.contract = None
        self._tap.forget()
        if dist.is_initialized():
            self._context.backend.before_destroy()
            _DESTROY()
        self._context.made = []
        self._context.unfinished.clear()
        self._context.backend.after_destroy()
        self._parts.clear()


def forget_others(store: Any, prefix: str) -> None:
    """Delete what other generations have left in the store: nobody reads it any more."""
    for key in store.list_keys():
        if not key.startswith(f"{prefix}/"):
            store.delete_key(key)


def _join_store(host: str, port: int) -> dist.Store:
    with without_name_server():
        return dist.TCPStore(
            host, port, None, is_master=False, timeout=timedelta(seconds=STORE_TIMEOUT_S), wait_for_workers=False
        )
