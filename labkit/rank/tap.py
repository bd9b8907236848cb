"""The one place through which a rank's collectives pass: seen, numbered, and open to faults.

Two layers, because neither sees everything. The Python functions of `torch.distributed` are wrapped:
there the reduce op, the learner's line and the return are visible, and a fault can hold a call back. The
process group's own hooks see every call that is really issued, also those that C++ makes (DDP's buckets);
there a call gets its number, goes to the beacon, and is compared with the other ranks' in safe mode.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch.distributed as dist

from ..calls import JOINED
from ..diagnosis.standing import is_echo
from ..faults.base import Interceptor
from ..frames import is_users_file
from ..makings import OUTSIDE
from ..wire import Call, CallSite
from . import messages, monitored, torch_calls
from .buckets import Buckets
from .context import RankContext
from .contract import Contract
from .notes import Notes
from .open_calls import Line, OpenCalls
from .parts import NOTHING, Named, find_part
from .raised import describe_error
from .samples import BeforeSamples
from .sites import chain_here


@dataclass
class PendingCall:
    """A call on its way: what the learner asked for, before it is issued."""

    op: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    site: CallSite | None
    number: int
    cell: int
    chain: tuple[CallSite, ...] = ()


def pass_through(interceptors: Sequence[Interceptor], call: PendingCall, issue: Callable[[PendingCall], Any]) -> Any:
    """Hand a call to the first interceptor, which hands it on to the next, and so on; the last one issues it."""
    if not interceptors:
        return issue(call)
    return interceptors[0].around(call, lambda inner: pass_through(interceptors[1:], inner, issue))


@dataclass
class _Here:
    """What the wrapper knows and the hook needs, for the call a thread is making."""

    name: str
    chain: tuple[CallSite, ...]
    reduce_op: str
    named: Named = NOTHING
    issued: list[Line] = field(default_factory=list)
    arguments: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
    tags: list[int] = field(default_factory=list)  # of the messages that are still to come, the next one last

    def tell_more(self, call: Call) -> None:
        """Add what only the arguments say: the tag of a message, or an all-to-all's splits."""
        if self.tags and call.p2p:
            call.__dict__["tag"] = self.tags.pop()
        elif self.name in messages.SPLIT:
            call.__dict__["splits"] = messages.splits(self.name, *self.arguments, len(call.group_ranks))


class _Thread(threading.local):
    """What each thread is at: the wrapped call it makes, and its synchronous calls below the wrappers, which have no return."""

    def __init__(self) -> None:
        self.call: _Here | None = None
        self.loose: list[Line] = []


class Tap:
    """Wraps `torch.distributed`, numbers calls, and writes them to the beacon."""

    def __init__(self, context: RankContext) -> None:
        self.context = context
        self.interceptors: list[Interceptor] = []
        self.contract: Contract | None = None
        self.in_contract = False  # waiting, in safe mode, for what the other ranks are about to do
        self.samples = BeforeSamples()
        self.notes = Notes(context)
        self.completes_on_return = True  # NCCL's calls return when they are enqueued
        self._number_in_cell = 0
        self._index = 0
        self._here = _Thread()
        self.buckets = Buckets()
        self.open_calls = OpenCalls(self._finish_line, context.backend.has_failed)
        self._slots: dict[tuple[int, int], Line] = {}
        self._watched: dict[str, tuple[str, tuple[int, ...], list[int]]] = {}
        self._originals: dict[str, Callable[..., Any]] = {}

    # ---- the Python layer
    def install(self) -> None:
        """Wrap the public functions, once."""
        if not self._originals:
            self._originals = torch_calls.install(self._wrap)
            self.buckets.install()
            monitored.install(self)

    def _wrap(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def tapped(*args: Any, **kwargs: Any) -> Any:
            if self._here.call is not None:
                return original(*args, **kwargs)  # a collective made of collectives: the outer one counts
            return self.make(name, original, args, kwargs)

        return tapped

    @property
    def in_call(self) -> bool:
        """This thread is inside of a wrapped function."""
        return self._here.call is not None

    def make(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call for whoever has called the wrapper of `function`."""
        caller = sys._getframe(2)
        chain = chain_here(caller)
        named = NOTHING if is_users_file(caller.f_code.co_filename) else find_part(caller)
        if not self.interceptors:
            return self._issue(function, name, args, kwargs, chain, named)
        return self._intercepted(name, args, kwargs, chain, named)

    def _intercepted(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], chain: tuple[CallSite, ...], named: Named
    ) -> Any:
        self._number_in_cell += 1
        site = chain[-1] if chain else None
        pending = PendingCall(name, args, kwargs, site, self._number_in_cell, self.context.cell, chain)
        return pass_through(
            self.interceptors,
            pending,
            lambda call: self._issue(self._originals[call.op], call.op, call.args, call.kwargs, call.chain, named),
        )

    def _issue(
        self, original: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
        chain: tuple[CallSite, ...], named: Named,
    ) -> Any:  # fmt: skip
        here = _Here(name, chain, torch_calls.reduce_op(name, args, kwargs), named, arguments=(args, kwargs))
        here.tags.extend(reversed(messages.tags(name, args, kwargs)))
        before = self._index
        try:
            self._here.call = here
            self.samples.take(name, args, kwargs)
            result = original(*args, **kwargs)
        except BaseException as error:
            # what torch turns down before it waits for anyone (a dtype, an op) has cost no rank a partner
            self._finish(here.issued, "failed" if is_echo(describe_error(error, alone=True)) else "invalid")
            raise
        finally:
            self._here.call = None  # an interrupt may come anywhere, and a call left here would hide all that follow
        if here.issued and self.completes_on_return:
            self._finish(here.issued, "done")
        if self._index == before and torch_calls.is_outside(args, kwargs):
            self._outside(name, chain)
        self.notes.after(name, args, kwargs, result)
        return result

    def _outside(self, name: str, chain: tuple[CallSite, ...]) -> None:
        """Keep a call on a group that this rank is not in: torch has done nothing, and others may wait for it elsewhere."""
        now_s, site = time.monotonic(), chain[-1] if chain else None
        self.context.ring.issue(
            Call(self.next_index(), 0, name, OUTSIDE, site=site, chain=chain, cell=self.context.cell, state="invalid",
                 issued_s=now_s, returned_s=now_s)
        )  # fmt: skip

    def _finish(self, issued: list[Line], state: str) -> None:
        for line in issued:
            self._finish_line(line.slot, line.number, state)
            if state == "done":
                self.open_calls.passed(line)
        issued.clear()

    def _passed_before(self, here: _Here | None) -> None:
        """A thread that makes a call is out of its synchronous calls before."""
        if here is not None and here.issued:
            self._finish(here.issued, "done")
        if self._here.loose:
            self.open_calls.returned(self._here.loose)
            self._here.loose.clear()

    def _finish_line(self, slot: int, index: int, state: str) -> None:
        self.context.ring.finish(slot, index, state, time.monotonic())

    def compare(self, call: Call, among: tuple[int, ...]) -> None:
        """In safe mode: let the ranks `among` agree on a call that is no collective of one group; ContractError if they don't."""
        if self.contract is None:
            return
        self.in_contract = True
        try:
            self.contract(call, among)
        finally:
            self.in_contract = False

    def before_wait(self, work: object) -> None:
        """Someone is about to wait for a work: in safe mode the ranks see for whom."""
        if self.contract is not None and self.open_calls:
            line = self.open_calls.line_of(work)
            if line is not None and not line.seq:
                self.contract.before_wait(line.number)

    def next_index(self) -> int:
        """The next number of a line in the beacon, for calls that are issued below the tap."""
        self._index += 1
        return self._index

    # ---- the hook layer
    def watch(self, group: dist.ProcessGroup, name: str, ranks: tuple[int, ...]) -> None:
        """See every call of a process group; `ranks` are the global ranks of its members."""
        counter = [0]
        group.register_pre_hook(_HOOK_ID, lambda seen: self._before(seen, name, ranks, counter))
        group.register_post_hook(_HOOK_ID, lambda seen: self._after(seen, id(counter)))
        self._slots.clear()
        self._watched[group.group_name] = name, ranks, counter

    def note(self, group: dist.ProcessGroup, seen: Any) -> None:
        """A call of a watched group that tells no hook."""
        if group.group_name in self._watched:
            self._before(seen, *self._watched[group.group_name])

    def _before(self, seen: Any, group: str, ranks: tuple[int, ...], counter: list[int]) -> None:
        here = self._here.call
        op = torch_calls.op_name(seen.name)
        if self.completes_on_return:
            self._passed_before(here)
        tensors = seen.input_tensors or seen.output_tensors
        root = seen.root
        self._index += 1
        if op in torch_calls.P2P:
            seq = 0
        else:
            counter[0] += 1
            seq = counter[0]
        if 0 <= root < len(ranks):
            root = ranks[root]
        first = tensors[0] if tensors else None
        context = self.context
        if here is not None:
            chain, (asked, part), step = here.chain, here.named, 0
            asked = asked or (here.name if here.name != op else "")
        else:
            chain, asked, part, step = self._from_below(sys._getframe(1), op, first)
        # dist.send and dist.recv wait, though the process group is asked for an asynchronous operation
        is_async = seen.async_op and not (here is not None and here.name in torch_calls.WAITING)
        call = object.__new__(Call)  # its own __init__ sets eighteen frozen fields one by one, before every collective
        call.__dict__.update(
            index=self._index, seq=seq, op=op, group=group, group_ranks=ranks,
            shape=tuple(first.shape) if first is not None else (),
            dtype=torch_calls.dtype_name(first.dtype) if first is not None else "",
            num_bytes=sum([t.numel() * t.element_size() for t in tensors]),
            reduce_op=here.reduce_op if here else "", root=root, async_op=is_async,
            site=chain[-1] if chain else None, chain=chain, cell=context.cell, issued_s=time.monotonic(),
            asked=asked, part=part, step=step,
        )  # fmt: skip
        if here is not None and (here.tags or here.name in messages.SPLIT):
            here.tell_more(call)
        slot = context.ring.issue(call)
        line = Line(slot, call.index, group, seq)
        if not is_async and (here is not None or self.completes_on_return):
            (self._here.loose if here is None else here.issued).append(line)
        if self.contract is not None and op != monitored.OP:
            self.in_contract = True
            try:
                self.contract(call)
            except BaseException:
                counter[0] -= seq > 0  # not issued, so not counted: a rank that never came has not counted it either
                self.context.ring.finish(slot, call.index, "refused", time.monotonic())
                (self._here.loose if here is None else here.issued).clear()
                raise
            finally:
                self.in_contract = False
        if here is None or is_async or not self.completes_on_return:
            self._slots[(id(counter), seen.op_id)] = line
        if self.open_calls:
            self.open_calls.sweep(4)

    def _from_below(self, caller: FrameType, op: str, first: Any) -> tuple[tuple[CallSite, ...], str, str, int]:
        """Chain, name, part and step of a call that no wrapper has seen."""
        asked, part = find_part(caller)
        own = op == "all_reduce" and not asked and first is not None and part not in JOINED  # Join's may be as large as a bucket
        bucket, step = self.buckets.part(first.numel()) if own else ("", 0)
        return chain_here(caller), asked, bucket or part, step

    def _after(self, seen: Any, group_key: int) -> None:
        at = self._slots.pop((group_key, seen.op_id), None)
        if at is None or seen.work is None:
            return
        if self.context.backend.can_ask(torch_calls.op_name(seen.name)):
            self.open_calls.add(seen.work, at)
        else:
            self.open_calls.add_unknown(seen.work, at)

    # ---- the life of a cell and of a generation
    def begin_cell(self) -> None:
        """Calls are numbered from 1 in each cell."""
        self._number_in_cell = 0
        self._here.call = None
        self._here.loose.clear()
        self.samples.begin_cell()
        self.notes.begin_cell()
        self.open_calls.begin_cell()

    def end_cell(self) -> None:
        """Let held-back calls go, and take note of what has completed."""
        for interceptor in list(self.interceptors):
            interceptor.end_of_cell()
        self._passed_before(None)
        if self.completes_on_return:
            self.open_calls.sweep()
        else:
            self.open_calls.wait()

    def close_cell(self, ok: bool) -> None:
        """The cell is over: what can't be asked counts as done if the cell ended well."""
        self.open_calls.close(ok)
        self.notes.close(ok)

    def forget(self) -> None:
        """Drop what belongs to a generation that is over."""
        self.open_calls.clear()
        self._slots.clear()
        self._watched.clear()
        self.notes.forget()


_HOOK_ID = 4711
