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
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from types import FrameType
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ..diagnosis.standing import is_echo
from ..errors import ContractError
from ..frames import is_users_file
from ..makings import BEGUN, ENDED, MAKERS, OF_ALL, OF_MEMBERS, OWN, takes_part
from ..wire import Call
from .context import RankContext
from .raised import describe_error
from .remaking import Made
from .sites import find_chain
from .tap import PendingCall, Tap, pass_through


class GroupMakers:
    """The wrapped functions of this rank."""

    def __init__(self, context: RankContext, tap: Tap) -> None:
        self._context, self._tap = context, tap
        self._originals: dict[str, Callable[..., Any]] = {}
        self._notes = self._number = self._cell = 0

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
        members = tuple(range(self._context.world_size)) if ranks is None else _numbers(ranks)
        members = tuple(sorted(members)) if sort and members is not None else members
        if members is None or (local and self._context.rank not in members):  # torch says what is wrong, or does nothing
            return original(ranks, limit, *args, **kwargs)

        def make(_: PendingCall | None = None) -> Any:
            call = self._call("new_group", members, OF_MEMBERS if local else OF_ALL, c10d._world.group_count)
            group = self._make(call, lambda: original(ranks, limit, *args, **kwargs))
            desc = kwargs.get("group_desc")
            if sort and not any(args) and not any(value for name, value in kwargs.items() if name not in _PLAIN):
                self._context.made.append(Made(call.seq, members, limit.total_seconds(), desc, group))
            return group

        armed = [each for each in self._tap.interceptors if each.in_makings]
        if not armed:
            return make()
        self._number = self._number + 1 if self._cell == self._context.cell else 1
        self._cell, chain = self._context.cell, find_chain()
        site = chain[-1] if chain else None
        pending = PendingCall("new_group", (ranks, limit, *args), kwargs, site, self._number, self._cell, chain)
        return pass_through(armed, pending, make)

    def _split_group(
        self, original: Callable[..., Any], parent_pg: Any = None, split_ranks: Any = None, timeout: Any = None,
        *args: Any, **kwargs: Any,
    ) -> Any:  # fmt: skip
        limit = timeout if timeout is not None else timedelta(seconds=self._context.group_timeout_s)
        parent = dist.get_process_group_ranks(parent_pg or c10d._get_default_group())
        mine = next((part for part in split_ranks or () if self._context.rank in [parent[at] for at in part]), None)
        if mine is None:
            return original(parent_pg, split_ranks, limit, *args, **kwargs)
        call = self._call("split_group", tuple(parent[at] for at in mine), OF_MEMBERS, c10d._world.group_count)
        return self._make(call, lambda: original(parent_pg, split_ranks, limit, *args, **kwargs))

    def _destroy_process_group(self, original: Callable[..., Any], group: Any = None) -> None:
        everything = group is None or group == dist.group.WORLD
        original(group)
        self._context.made = [] if everything else [made for made in self._context.made if made.group is not group]
        if everything:
            self._note(ENDED)

    def _init_process_group(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        with self._context.backend.making_group():
            original(*args, **kwargs)
        group = c10d._get_default_group()
        self._tap.watch(group, "world", tuple(range(group.size())))
        self._note(BEGUN)

    def _note(self, op: str) -> None:
        """A line for what has been done to all groups at once."""
        self._notes += 1
        now_s = time.monotonic()
        call = replace(self._call(op, (), OWN, self._notes), state="done", returned_s=now_s)
        self._context.ring.issue(call)

    def _call(self, op: str, members: tuple[int, ...], group: str, number: int) -> Call:
        chain = find_chain()
        return Call(
            self._tap.next_index(), number, op, group, members, site=chain[-1] if chain else None, chain=chain,
            cell=self._context.cell, issued_s=time.monotonic(), asked=_asked(),
        )  # fmt: skip

    def _make(self, call: Call, make: Callable[[], Any]) -> Any:
        context = self._context
        slot, state = context.ring.issue(call), "failed"
        try:
            self._tap.compare(call, takes_part(call, context.world_size))
            with context.backend.making_group():
                group = make()
            state = "done"
        except ContractError:
            state = "refused"
            raise
        except Exception as error:
            state = "failed" if is_echo(describe_error(error)) else "invalid"  # turned down by torch, before any wait
            raise
        finally:
            context.ring.finish(slot, call.index, state, time.monotonic())
        if isinstance(group, dist.ProcessGroup):  # else this rank is not a member
            self._tap.watch(group, name_of(call.seq, call.group_ranks), call.group_ranks)
        return group


def name_of(number: int, members: tuple[int, ...]) -> str:
    """A group's name in the beacon: "2 (0, 1)"."""
    return f"{number} ({', '.join(map(str, members))})"


def _numbers(ranks: Any) -> tuple[int, ...] | None:
    """The ranks of a new group as numbers; None where torch will refuse them."""
    try:
        return tuple(operator.index(rank) for rank in ranks)
    except TypeError:
        return None


def _asked() -> str:
    """The library function that makes the groups, where that is not new_group itself: "new_subgroups", "init_device_mesh"."""
    frame: FrameType | None = sys._getframe(1)
    found = ""
    while frame is not None and not is_users_file(frame.f_code.co_filename):
        code = frame.f_code
        if "torch/distributed/" in code.co_filename and code.co_name not in _NO_NAMES:
            found = type(frame.f_locals["self"]).__name__ if code.co_name == "__init__" else code.co_name
        frame = frame.f_back
    return "" if found in MAKERS else found


_PLAIN = ("group_desc", "sort_ranks")
_NO_NAMES = ("wrapper", "inner", "_time_logger")
