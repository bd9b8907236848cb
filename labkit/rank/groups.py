"""Process groups and their generations.

A generation is one set of process groups, from their making to their end. Each has its own prefix in the store, so that it
never reads the keys of a broken one, and an explicit timeout on every group, also on those the learner makes.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from .context import RankContext
from .contract import Contract
from .place import join_network, without_name_server
from .tap import Tap

STORE_TIMEOUT_S = 30.0
# torch's own, whatever a learner puts in their place later
_INIT, _DESTROY, _NEW_GROUP = c10d.init_process_group, c10d.destroy_process_group, c10d.new_group


class Groups:
    """Forms and dissolves this rank's process groups."""

    def __init__(self, context: RankContext, tap: Tap) -> None:
        self._context, self._tap = context, tap
        self._store: dist.Store | None = None
        self._store_at: tuple[str, int] | None = None
        self._originals: dict[str, Callable[..., Any]] = {}
        self._made = 0
        self._parts: dict[tuple[int, ...], Any] = {}

    def form(self, generation: int, host: str, port: int, timeout_s: float) -> float:
        """Join generation `generation` through the store at host:port; returns a checked all-reduce's value.

        Each rank contributes rank + 1, so the value is world_size (world_size + 1) / 2.
        """
        context = self._context
        join_network()  # not earlier: the engine's own connections, all made by now, stay where the kernel is
        self.dissolve()
        self._tap.interceptors.clear()  # a fault belongs to the generation it was armed in
        if self._store_at != (host, port):
            with without_name_server():
                self._store = dist.TCPStore(
                    host, port, None, is_master=False, timeout=timedelta(seconds=STORE_TIMEOUT_S), wait_for_workers=False
                )
            self._store_at = (host, port)
            context.backend.keep_port(port)
        secret = os.environ.get("LABKIT_STORE_KEY", "")  # so that nobody meets these ranks in the store by chance
        store = dist.PrefixStore(f"{secret}generation-{generation}", self._store)
        store.set_timeout(timedelta(seconds=STORE_TIMEOUT_S))
        context.generation, context.group_timeout_s, context.refusal = generation, timeout_s, ""
        context.store = store
        self._made = 0
        with context.backend.making_group():
            _INIT(
                context.backend.name, store=dist.PrefixStore("group", store), rank=context.rank,
                world_size=context.world_size, timeout=timedelta(seconds=timeout_s),
                **context.backend.group_options(context.device),
            )  # fmt: skip
            value = self._check()
        context.ring.clear()
        self._tap.completes_on_return = not context.backend.facts.returns_at_once
        self._tap.watch(c10d._get_default_group(), "world", tuple(range(context.world_size)))
        self.set_mode(context.mode)
        self._wrap_makers()
        context.leave()
        return value

    def _check(self) -> float:
        # before the tap watches: the check is ours, the learner's first call is #1
        value = torch.full((1,), float(self._context.rank + 1), device=self._context.device)
        c10d.all_reduce(value)
        return float(value.item())

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
        self._context.unfinished.clear()
        self._context.backend.after_destroy()
        self._parts.clear()

    def _wrap_makers(self) -> None:
        """Groups the learner makes get the generation's timeout and are watched as well."""
        if self._originals:
            return
        init = self._originals["init_process_group"] = dist.init_process_group

        @functools.wraps(init)
        def init_process_group(*args: Any, **kwargs: Any) -> None:
            with self._context.backend.making_group():
                init(*args, **kwargs)
            group = c10d._get_default_group()
            self._tap.watch(group, "world", tuple(range(group.size())))

        dist.init_process_group = init_process_group
        original = self._originals["new_group"] = c10d.new_group

        @functools.wraps(original)
        def new_group(ranks: Any = None, timeout: Any = None, *args: Any, **kwargs: Any) -> Any:
            limit = timeout if timeout is not None else timedelta(seconds=self._context.group_timeout_s)
            with self._context.backend.making_group():
                group = original(ranks, limit, *args, **kwargs)
            self._watch_new(group, ranks)
            return group

        c10d.new_group = dist.new_group = new_group

    def _watch_new(self, group: Any, ranks: Any) -> None:
        self._made += 1
        if isinstance(group, dist.ProcessGroup):  # else this rank is not a member
            members = tuple(dist.get_process_group_ranks(group))
            self._tap.watch(group, f"{self._made} ({', '.join(map(str, members))})", members)
