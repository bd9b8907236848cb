"""The one place through which a rank's collectives pass: seen, numbered, and open to faults.

Two layers, because neither sees everything. The Python functions of `torch.distributed` are wrapped:
there the reduce op, the learner's line and the return are visible, and a fault can hold a call back. The
process group's own hooks see every call that is really issued, also those that C++ makes (DDP's buckets);
there a call gets its number, goes to the beacon, and is compared with the other ranks' in safe mode.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ..diagnosis.standing import is_echo
from ..faults.base import Interceptor
from ..wire import Call, CallSite
from .cell import describe_error
from .context import RankContext
from .contract import Contract
from .open_calls import OpenCalls
from .samples import BeforeSamples
from .sites import find_chain

TAPPED = (
    "all_reduce reduce broadcast all_gather all_gather_into_tensor gather scatter reduce_scatter "
    "reduce_scatter_tensor all_to_all all_to_all_single barrier send recv isend irecv batch_isend_irecv "
    "all_gather_object broadcast_object_list gather_object scatter_object_list monitored_barrier"
).split()

_OP_NAMES = {
    "ALLREDUCE": "all_reduce", "ALLREDUCE_COALESCED": "all_reduce_coalesced", "ALLGATHER": "all_gather",
    "ALLGATHER_BASE": "all_gather_into_tensor", "ALLGATHER_COALESCED": "all_gather_coalesced",
    "ALLGATHER_INTO_TENSOR_COALESCED": "all_gather_into_tensor_coalesced",
    "REDUCE_SCATTER_BASE": "reduce_scatter_tensor",
    "REDUCE_SCATTER_TENSOR_COALESCED": "reduce_scatter_tensor_coalesced",
    "ALLTOALL": "all_to_all", "ALLTOALL_BASE": "all_to_all_single",
}  # fmt: skip
_P2P = frozenset({"send", "recv"})
_COMPARED_BY_IDENTITY = frozenset({"isend", "irecv"})  # P2POp takes only these two, and looks them up in its own module


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
    issued: list[tuple[int, int]] = field(default_factory=list)


class Tap:
    """Wraps `torch.distributed`, numbers calls, and writes them to the beacon."""

    def __init__(self, context: RankContext) -> None:
        self.context = context
        self.interceptors: list[Interceptor] = []
        self.contract: Contract | None = None
        self.in_contract = False  # waiting, in safe mode, for what the other ranks are about to do
        self.samples = BeforeSamples()
        self.completes_on_return = True  # NCCL's calls return when they are enqueued
        self._number_in_cell = 0
        self._index = 0
        self._here = threading.local()
        self.open_calls = OpenCalls(self._finish_line, context.backend.has_failed)
        self._slots: dict[tuple[int, int], tuple[int, int]] = {}
        self._originals: dict[str, Callable[..., Any]] = {}

    # ---- the Python layer
    def install(self) -> None:
        """Wrap the public functions, once."""
        for name in TAPPED:
            original = getattr(dist, name, None)
            if original is not None and name not in self._originals:
                self._originals[name] = original
                wrapped = self._wrap(name, original)
                setattr(dist, name, wrapped)
                if name in _COMPARED_BY_IDENTITY:
                    setattr(c10d, name, wrapped)

    def _wrap(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def tapped(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._here, "call", None) is not None:
                return original(*args, **kwargs)  # a collective made of collectives: the outer one counts
            chain = find_chain()
            if not self.interceptors:
                return self._issue(original, name, args, kwargs, chain)
            return self._intercepted(name, args, kwargs, chain)

        return tapped

    def _intercepted(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], chain: tuple[CallSite, ...]) -> Any:
        self._number_in_cell += 1
        site = chain[-1] if chain else None
        pending = PendingCall(name, args, kwargs, site, self._number_in_cell, self.context.cell, chain)
        return pass_through(
            self.interceptors,
            pending,
            lambda call: self._issue(self._originals[call.op], call.op, call.args, call.kwargs, call.chain),
        )

    def _issue(
        self, original: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any], chain: tuple[CallSite, ...]
    ) -> Any:
        here = _Here(name, chain, _reduce_op(name, args, kwargs))
        try:
            self._here.call = here
            self.samples.take(name, args, kwargs)
            result = original(*args, **kwargs)
        except BaseException as error:
            # what torch turns down before it waits for anyone (a dtype, an op) has cost no rank a partner
            self._finish(here.issued, "failed" if is_echo(describe_error(error)) else "invalid")
            raise
        finally:
            self._here.call = None  # an interrupt may come anywhere, and a call left here would hide all that follow
        if here.issued and self.completes_on_return:
            self._finish(here.issued, "done")
        return result

    def _finish(self, issued: list[tuple[int, int]], state: str) -> None:
        for slot, index in issued:
            self._finish_line(slot, index, state)

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

    def _before(self, seen: Any, group: str, ranks: tuple[int, ...], counter: list[int]) -> None:
        here: _Here | None = getattr(self._here, "call", None)
        op = _op_name(seen.name)
        tensors = seen.input_tensors or seen.output_tensors
        root = seen.root
        self._index += 1
        if op in _P2P:
            seq = 0
        else:
            counter[0] += 1
            seq = counter[0]
        if 0 <= root < len(ranks):
            root = ranks[root]
        first = tensors[0] if tensors else None
        context = self.context
        chain = here.chain if here else find_chain()
        # dist.send and dist.recv wait, though the process group is asked for an asynchronous operation
        is_async = seen.async_op and not (here is not None and here.name in _P2P)
        call = object.__new__(Call)  # its own __init__ sets eighteen frozen fields one by one, before every collective
        call.__dict__.update(
            index=self._index, seq=seq, op=op, group=group, group_ranks=ranks,
            shape=tuple(first.shape) if first is not None else (),
            dtype=_dtype_name(first.dtype) if first is not None else "",
            num_bytes=sum([t.numel() * t.element_size() for t in tensors]),
            reduce_op=here.reduce_op if here else "", root=root, async_op=is_async,
            site=chain[-1] if chain else None, chain=chain, cell=context.cell, issued_s=time.monotonic(),
        )  # fmt: skip
        slot = context.ring.issue(call)
        if here is not None and not is_async:
            here.issued.append((slot, call.index))
        if self.contract is not None and seq:
            self.in_contract = True
            try:
                self.contract(call)
            except BaseException:
                counter[0] -= 1  # not issued, so not counted: a rank that never came has not counted it either
                self.context.ring.finish(slot, call.index, "refused", time.monotonic())
                if here is not None:
                    here.issued.clear()
                raise
            finally:
                self.in_contract = False
        if here is None or is_async or not self.completes_on_return:
            self._slots[(id(counter), seen.op_id)] = (slot, call.index)
        if self.open_calls:
            self.open_calls.sweep(4)

    def _after(self, seen: Any, group_key: int) -> None:
        at = self._slots.pop((group_key, seen.op_id), None)
        if at is None or seen.work is None:
            return
        if self.context.backend.can_ask(_op_name(seen.name)):
            self.open_calls.add(seen.work, at)
        else:
            self.open_calls.add_unknown(at)

    # ---- the life of a cell and of a generation
    def begin_cell(self) -> None:
        """Calls are numbered from 1 in each cell."""
        self._number_in_cell = 0
        self._here.call = None
        self.samples.begin_cell()
        self.open_calls.begin_cell()

    def end_cell(self) -> None:
        """Let held-back calls go, and take note of what has completed."""
        for interceptor in list(self.interceptors):
            interceptor.end_of_cell()
        if self.completes_on_return:
            self.open_calls.sweep()
        else:
            self.open_calls.wait()

    def close_cell(self, ok: bool) -> None:
        """The cell is over: what can't be asked counts as done if the cell ended well."""
        self.open_calls.close(ok)

    def forget(self) -> None:
        """Drop what belongs to a generation that is over."""
        self.open_calls.clear()
        self._slots.clear()


_HOOK_ID = 4711


@functools.cache
def _op_name(name: Any) -> str:
    text = str(name).rsplit(".", 1)[-1]
    return _OP_NAMES.get(text, text.lower())


@functools.cache
def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype)[6:]


def _reduce_op(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The reduce op of a call as text ("sum"), "" where the collective has none."""
    place = _REDUCE_OP_AT.get(name)
    if place is None:
        return ""
    op = kwargs["op"] if "op" in kwargs else args[place] if len(args) > place else dist.ReduceOp.SUM
    found = _REDUCE_OP_TEXT.get(op) if isinstance(op, dist.ReduceOp.RedOpType) else None
    return found or str(op).rsplit(".", 1)[-1].strip("<>").lower()


_REDUCE_OP_AT = {"all_reduce": 1, "reduce": 2, "reduce_scatter": 2, "reduce_scatter_tensor": 2}
_REDUCE_OP_TEXT = {op: name.lower() for name, op in dist.ReduceOp.RedOpType.__members__.items()}
