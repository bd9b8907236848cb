"""A schedule's moves in front of the armed faults, as a call of `torch.distributed` passes them in the tap.

Only a rank that has a fault armed which applies to moves comes through here; on all others a move costs what it did. The
beacon's line is written before the faults act, as "begun", so that a rank that ends there is known to have come this far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

import torch

from ..schedule.program import Move, call_arguments, call_tensors
from .moves import COMBINE, Memory, Wire, exchange, incoming, line_of
from .tap import PendingCall, pass_through

if TYPE_CHECKING:
    from ..faults.base import Interceptor


def armed_for_moves(wire: Wire) -> list[Interceptor]:
    """The rank's armed faults that apply to the moves of a schedule."""
    return [each for each in wire.context.tap.interceptors if each.in_schedules]


Sizes = list[tuple[int | None, int | None]]


def mover(interceptors: list[Interceptor]) -> Callable[[Wire, Memory, int, Move, str], Sizes]:
    """What makes one move through these faults, and says how many bytes went out and came in: none, once, or more often."""
    return lambda wire, memory, number, move, op: ArmedMove(wire, memory, number, move, op).make(interceptors)


class ArmedMove:
    """One move: what was asked for, what was issued in the end (nothing, once, or more often), and its line."""

    def __init__(self, wire: Wire, memory: Memory, number: int, move: Move, op: str) -> None:
        self._wire, self._memory, self._move, self._op = wire, memory, move, op
        self._came = memory.data.new_empty(incoming(move))
        given = call_arguments(move, memory.outgoing(move), self._came, op)
        self._pending = PendingCall(move.kind, (), given, None, number, wire.context.cell)
        self._line = line_of(wire, memory, number, move, op)
        self._planned = self._line.carries
        self._sizes: Sizes = []

    def make(self, interceptors: list[Interceptor]) -> Sizes:
        """Pass the faults; what came in is applied once, by the op of the call that brought it."""
        ring = self._wire.context.ring
        self._slot = ring.issue(replace(self._line, state="begun"))
        pass_through(interceptors, self._pending, self._issue)
        if self._sizes and self._move.kind != "send":
            self._memory.arrive(self._move, self._came, self._op)
        return self._sizes

    def _issue(self, call: PendingCall) -> None:
        context, out, into = self._wire.context, *call_tensors(call.op, call.kwargs)
        if self._sizes:  # once more: a line of its own
            self._line = replace(self._line, index=context.tap.next_index())
        self._op = op_name(call.kwargs.get("op", self._op))
        line = replace(self._line, issued_s=monotonic(), **seen(out if into is None else into, self._move, self._op))
        line = self._line = replace(line, planned=self._planned if line.carries != self._planned else "")
        if self._sizes:
            self._slot = context.ring.issue(line)
        else:
            context.ring.issue_begun(self._slot, line)
        self._sizes.append((num_bytes(out), num_bytes(into)))
        state = "failed"
        try:
            exchange(self._wire, self._move, out, into)
            self._wire.settle()
            state = "done"
        finally:
            context.ring.finish(self._slot, line.index, state, monotonic())


def num_bytes(tensor: torch.Tensor | None) -> int | None:
    return None if tensor is None else tensor.numel() * tensor.element_size()


def op_name(op: Any) -> str:
    """ "MAX" for a name or for one of torch's reduce ops."""
    return next((name for name in COMBINE if name in str(op)), str(op))


def seen(tensor: torch.Tensor | None, move: Move, op: str) -> dict[str, Any]:
    """What a line says of the tensor that is really used."""
    assert tensor is not None
    return {
        "shape": (tensor.numel(),), "dtype": str(tensor.dtype)[6:], "num_bytes": tensor.numel() * tensor.element_size(),
        "reduce_op": op.lower() if move.reduce else "",
    }  # fmt: skip
