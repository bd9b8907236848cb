"""A rank's part of a schedule, executed: one move after another, on the backend of the world's group.

Where a fault is armed that applies to moves, each move passes it first, as a call of `torch.distributed` does in the
tap; on all other ranks a move costs nothing more. The beacon's line is then written before the faults act, as "begun",
so that a rank that ends there is known to have come this far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

import torch

from ..wire import Call
from .channel import P2PChannel
from .tap import PendingCall, pass_through

if TYPE_CHECKING:
    from ..faults.base import Interceptor
    from ..schedule.program import Move, Program

Combine = Callable[[torch.Tensor, torch.Tensor], Any]
Sizes = Sequence[tuple[int | None, int | None]]  # bytes sent and received by each message; None is no message
COMBINE: dict[str, Combine] = {
    "SUM": lambda mine, came: mine.add_(came),
    "AVG": lambda mine, came: mine.add_(came),
    "MAX": lambda mine, came: torch.maximum(mine, came, out=mine),
    "MIN": lambda mine, came: torch.minimum(mine, came, out=mine),
    "PRODUCT": lambda mine, came: mine.mul_(came),
}


@dataclass
class Tally:
    """What one run of a program came to on this rank; a message cut in pieces is one message."""

    sent_messages: int = 0
    received_messages: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    step_s: dict[int, float] = field(default_factory=dict)

    def message(self, sent_bytes: int | None, received_bytes: int | None) -> None:
        """Count a message out, one in, or both; None is no message."""
        if sent_bytes is not None:
            self.sent_messages += 1
            self.sent_bytes += sent_bytes
        if received_bytes is not None:
            self.received_messages += 1
            self.received_bytes += received_bytes


class Memory:
    """A rank's buffer for a program, and a copy of it where the algorithm sends from one."""

    def __init__(self, program: Program, num_elements: int, dtype: torch.dtype, device: str) -> None:
        self.program, self.layout = program, program.layout(num_elements)
        self.data = torch.zeros(program.buffer_elements(num_elements), dtype=dtype, device=device)
        self.copy = torch.empty_like(self.data) if program.needs_copy else self.data

    def spans(self, where: str) -> list[tuple[int, int]]:
        """Where the rank's tensor lies at the "start" or the "end"."""
        ranges = self.program.start if where == "start" else self.program.end
        return [self.layout.span(lo, hi) for lo, hi in ranges]

    def load(self, tensor: torch.Tensor) -> None:
        """Lay the rank's tensor into the buffer; the rest is zero."""
        self.data.zero_()
        at = 0
        for start, stop in self.spans("start"):
            self.data[start:stop] = tensor[at : at + stop - start]
            at += stop - start

    def result(self, data: torch.Tensor | None = None) -> torch.Tensor:
        """What the rank must have at the end, cut out of the buffer (or of `data`, which lies the same way)."""
        whole = self.data if data is None else data
        parts = [whole[start:stop] for start, stop in self.spans("end")]
        return torch.cat(parts) if parts else whole[:0]

    def make_copy(self) -> None:
        """Part of the algorithm, so it belongs to its time."""
        if self.copy is not self.data:
            self.copy.copy_(self.data)

    def source(self, send: str) -> torch.Tensor:
        """What a move with this `send` sends from."""
        return self.data if send == "held" else self.copy

    def outgoing(self, move: Move) -> torch.Tensor | None:
        """What a move sends; None if it only receives."""
        return self.source(move.send)[slice(*move.out)] if move.kind != "recv" else None

    def incoming(self, move: Move) -> torch.Tensor | None:
        """A new place for what a move receives; None if it only sends."""
        return self.data.new_empty(move.num_into) if move.kind != "send" else None

    def arrive(self, move: Move, came: torch.Tensor, op: str) -> None:
        """Add or copy what came for a move."""
        self.put(slice(*move.into), came, COMBINE[op] if move.reduce else torch.Tensor.copy_, handed=move.send == "handed")

    def put(self, span: slice, came: torch.Tensor, combine: Combine, *, handed: bool) -> None:
        combine(self.data[span], came)
        if handed:
            self.copy[span] = came


def line_of(channel: P2PChannel, memory: Memory, number: int, move: Move, op: str, *, sends: bool = False) -> Call:
    """What the beacon says of a move, number `number` of its program: whom this rank waits for, and how much travels.

    Of a move that sends and receives it is the receiving half, unless `sends`.
    """
    context, data = channel.context, memory.data
    sends = sends or move.kind == "send"
    count = move.num_out if sends else move.num_into
    line = object.__new__(Call)  # its own __init__ sets the frozen fields one by one, before every move
    line.__dict__.update(
        index=context.tap.next_index(), seq=0, op="send" if sends else "recv", group="world", group_ranks=channel.members,
        shape=(count,), dtype=str(data.dtype)[6:], num_bytes=count * data.element_size(),
        reduce_op=op.lower() if move.reduce and not sends else "",
        root=channel.members[move.to_rank if sends else move.from_rank], async_op=False, site=None, cell=context.cell,
        state="issued", issued_s=monotonic(), returned_s=0.0,
        algorithm=memory.program.name, step=move.step, move=number, request_id=channel.request_id, planned="",
    )  # fmt: skip
    return line


def step_by_step(channel: P2PChannel, memory: Memory, moves: list[Move], op: str, *, timed: bool = True) -> Callable[[], Tally]:
    """A function that makes every move, waits for it, and times it, through the armed faults if there are any.

    All that can be prepared is prepared here, so that a run's time is the moves' time. Without `timed`, a device that works
    through a queue is waited for at the end only.
    """
    faults = [each for each in channel.context.tap.interceptors if each.in_schedules]

    def make_armed(number: int, move: Move) -> Sizes:
        return ArmedMove(channel, memory, number, move, op).make(faults)

    make = make_armed if faults else partial(_make, channel, memory, op, synchronize=timed)
    return partial(_one_by_one, channel, memory, moves, make)


def _one_by_one(channel: P2PChannel, memory: Memory, moves: list[Move], make: Callable[[int, Move], Sizes]) -> Tally:
    """A step's time runs to the end of its moves from the end of what came before it, so the steps add up to the run."""
    tally = Tally()
    lap_s = perf_counter()
    memory.make_copy()
    for number, move in enumerate(moves, start=1):
        for sent_bytes, received_bytes in make(number, move):
            tally.message(sent_bytes, received_bytes)
        began_s, lap_s = lap_s, perf_counter()
        tally.step_s[move.step] = tally.step_s.get(move.step, 0.0) + lap_s - began_s
    channel.synchronize()
    return tally


def _make(channel: P2PChannel, memory: Memory, op: str, number: int, move: Move, *, synchronize: bool) -> Sizes:
    out, came = memory.outgoing(move), memory.incoming(move)
    with channel.noted(line_of(channel, memory, number, move, op)):
        channel.exchange(out, move.to_rank, came, move.from_rank)
        if came is not None:
            memory.arrive(move, came, op)
        if synchronize:
            channel.synchronize()
    return ((_num_bytes(out), _num_bytes(came)),)


class ArmedMove:
    """One move that passes armed faults: what was asked for, what was issued in the end, and its line in the beacon.

    A fault may let the move through, change it, drop it, or issue it more often.
    """

    def __init__(self, channel: P2PChannel, memory: Memory, number: int, move: Move, op: str) -> None:
        from ..schedule.program import call_arguments  # late: a rank that runs no schedule starts without them

        self._channel, self._memory, self._move, self._op = channel, memory, move, op
        self._came = memory.incoming(move)
        given = call_arguments(move, memory.outgoing(move), self._came, op)
        self._pending = PendingCall(move.kind, (), given, None, number, channel.context.cell)
        self._line = line_of(channel, memory, number, move, op)
        self._planned = self._line.carries
        self._sizes: list[tuple[int | None, int | None]] = []

    def make(self, faults: list[Interceptor]) -> Sizes:
        """Bytes sent and received by each message; what came is applied once, by the op of the call that brought it."""
        self._slot = self._channel.context.ring.issue(replace(self._line, state="begun"))
        pass_through(faults, self._pending, self._issue)
        if self._sizes and self._came is not None:
            self._memory.arrive(self._move, self._came, self._op)
        return self._sizes

    def _issue(self, call: PendingCall) -> None:
        from ..schedule.program import call_tensors

        context, out, into = self._channel.context, *call_tensors(call.op, call.kwargs)
        if self._sizes:  # once more: a line of its own
            self._line = replace(self._line, index=context.tap.next_index())
        self._op = _op_name(call.kwargs.get("op", self._op))
        line = self._line = self._changed_line(out if into is None else into)
        if self._sizes:
            self._slot = context.ring.issue(line)
        else:
            context.ring.issue_begun(self._slot, line)
        self._sizes.append((_num_bytes(out), _num_bytes(into)))
        state = "failed"
        try:
            self._channel.exchange(out, self._move.to_rank, into, self._move.from_rank)
            self._channel.synchronize()
            state = "done"
        finally:
            context.ring.finish(self._slot, line.index, state, monotonic())

    def _changed_line(self, tensor: Any) -> Call:
        """The line of what is really sent; it keeps what the program says if that is something else."""
        line = replace(
            self._line, issued_s=monotonic(), shape=(tensor.numel(),), dtype=str(tensor.dtype)[6:],
            num_bytes=_num_bytes(tensor) or 0, reduce_op=self._op.lower() if self._move.reduce else "",
        )  # fmt: skip
        return replace(line, planned=self._planned if line.carries != self._planned else "")


def _num_bytes(tensor: torch.Tensor | None) -> int | None:
    return None if tensor is None else tensor.numel() * tensor.element_size()


def _op_name(op: Any) -> str:
    """ "MAX" for a name or for one of torch's reduce ops."""
    return next((name for name in COMBINE if name in str(op)), str(op))
