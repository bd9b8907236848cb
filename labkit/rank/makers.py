"""What makes and ends process groups, wrapped: groups the learner makes have a timeout, are watched, and are calls like others.

A making is written to the beacon before torch begins with it, with its members and its line, and in safe mode it is compared
across ranks first. torch itself compares nothing: a rank that makes a group with other members, or one more than the others, is
found by no check, and the ranks wait in the store for partners that never come.
"""

from __future__ import annotations

import functools
import operator
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ..diagnosis.standing import is_echo
from ..makings import BEGUN, ENDED, OF_ALL, OF_MEMBERS, takes_part
from ..wire import Call
from .cell import describe_error
from .context import RankContext
from .sites import find_site, is_users_file
from .tap import Tap


class GroupMakers:
    """The wrapped functions of this rank."""

    def __init__(self, context: RankContext, tap: Tap) -> None:
        self._context, self._tap = context, tap
        self._originals: dict[str, Callable[..., Any]] = {}

    def install(self) -> None:
        """Wrap them once, wherever a module of torch's holds them under their names."""
        if self._originals:
            return
        for name in ("new_group", "split_group", "init_process_group", "destroy_process_group"):
            original = self._originals[name] = getattr(c10d, name)
            wrapped = functools.wraps(original)(functools.partial(getattr(self, f"_{name}"), original))
            for module in [mod for key, mod in sys.modules.items() if key.startswith("torch.distributed")]:
                if module.__dict__.get(name) is original:
                    setattr(module, name, wrapped)

    def _new_group(self, original: Callable[..., Any], ranks: Any = None, timeout: Any = None, *args: Any, **kwargs: Any) -> Any:
        limit = timeout if timeout is not None else timedelta(seconds=self._context.group_timeout_s)
        local, sort = kwargs.get("use_local_synchronization", False), kwargs.get("sort_ranks", True)
        members = _numbers(ranks)
        members = tuple(sorted(members)) if sort and members is not None else members
        if members is None or (local and self._context.rank not in members):  # torch says what is wrong, or does nothing
            return original(ranks, limit, *args, **kwargs)
        call = self._call("new_group", members, OF_MEMBERS if local else OF_ALL)
        return self._make(call, lambda: original(ranks, limit, *args, **kwargs))

    def _split_group(
        self, original: Callable[..., Any], parent_pg: Any = None, split_ranks: Any = None, timeout: Any = None,
        *args: Any, **kwargs: Any,
    ) -> Any:  # fmt: skip
        limit = timeout if timeout is not None else timedelta(seconds=self._context.group_timeout_s)
        parent = dist.get_process_group_ranks(parent_pg or c10d._get_default_group())
        mine = next((part for part in split_ranks or () if self._context.rank in [parent[at] for at in part]), None)
        if mine is None:
            return original(parent_pg, split_ranks, limit, *args, **kwargs)
        call = self._call("split_group", tuple(parent[at] for at in mine), OF_MEMBERS)
        return self._make(call, lambda: original(parent_pg, split_ranks, limit, *args, **kwargs))

    def _call(self, op: str, members: tuple[int, ...], group: str, number: int | None = None) -> Call:
        context = self._context
        seq = c10d._world.group_count if number is None else number
        return Call(
            self._tap.next_index(), seq, op, group, members, site=find_site(), cell=context.cell,
            issued_s=time.monotonic(), **_asked(op),
        )  # fmt: skip

    def _make(self, call: Call, make: Callable[[], Any]) -> Any:
        context = self._context
        slot, state = context.ring.issue(call), "failed"
        try:
            self._compare(call)
            with context.backend.making_group():
                group = make()
            state = "done"
        except ContractRefused as refused:
            state = "refused"
            raise refused.error from None
        except Exception as error:
            state = "failed" if is_echo(describe_error(error)) else "invalid"  # torch turned it down, nobody was asked
            raise
        finally:
            context.ring.finish(slot, call.index, state, time.monotonic())
        if isinstance(group, dist.ProcessGroup):  # else this rank is not a member
            self._tap.watch(group, f"{call.seq} ({', '.join(map(str, call.group_ranks))})", call.group_ranks)
        return group

    def _compare(self, call: Call) -> None:
        """In safe mode: let the ranks that take part agree first."""
