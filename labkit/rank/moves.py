"""A rank's part of a schedule, executed: one move after another, on the backend of the world's group.

The moves do not pass through the tap. A ring is some dozens of messages, and an exchange of 1 KiB costs the calling
thread 61 to 78 µs of CPU time through the tap, 55 to 71 µs through `torch.distributed` without it, and 36 to 38 µs on
the backend; and the learner's calls would drown in the runner's. So each move leaves one line in the beacon instead,
which is what a diagnosis needs of it, and faults, which sit in the tap, leave the runner alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed import distributed_c10d as c10d

from ..wire import Call
from .context import RankContext
from .nccl import returns_at_once

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..schedule.program import Move, Program

TAG = 4712  # keeps a learner's own sends and receives apart
COMBINE: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
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

    def move(self, move: Move, itemsize: int) -> None:
        """Count what a move sends and receives."""
        if move.kind != "recv":
            self.sent_messages += 1
            self.sent_bytes += (move.send_stop - move.send_start) * itemsize
        if move.kind != "send":
            self.received_messages += 1
            self.received_bytes += (move.recv_stop - move.recv_start) * itemsize


class Wire:
    """Point-to-point on the backend of a group (the world's, or of `members` only), below the tap.

    Ranks of a wire are numbers in its group: `members[i]` is rank i's number in the world.
    """

    def __init__(self, context: RankContext, members: Sequence[int] = ()) -> None:
        self.context = context
        self.members = tuple(members) or tuple(range(context.world_size))
        group = context.groups.part(self.members) if len(self.members) < context.world_size else c10d._get_default_group()
        self.backend = group._get_backend(torch.device(context.device))
        self.queued = returns_at_once(context.backend)

    def send(self, tensor: torch.Tensor, to_rank: int) -> Any:
        return self.backend.send([tensor], to_rank, TAG)

    def recv(self, tensor: torch.Tensor, from_rank: int) -> Any:
        return self.backend.recv([tensor], from_rank, TAG)

    @contextmanager
    def at_once(self) -> Iterator[list[Any]]:
        """What is asked for in here starts together; the list holds what is to be waited for afterwards.

        NCCL runs one kernel for all of it: two separate ones could wait for each other on two ranks.
        """
        works: list[Any] = []
        if not self.queued:
            yield works
            return
        self.backend._start_coalescing()
        yield works
        works[:] = [self.backend._end_coalescing()]

    def settle(self) -> None:
        """Return when the device has done all that was enqueued; gloo's waits have seen to it already."""
        if self.queued:
            torch.cuda.synchronize()

    @contextmanager
    def noted(self, op: str, peer: int, num_elements: int, tensor: torch.Tensor) -> Iterator[None]:
        """A line in the beacon for what this rank waits for."""
        context = self.context
        context.tap._index += 1
        call = Call(
            index=context.tap._index, seq=0, op=op, group_ranks=self.members, shape=(num_elements,),
            dtype=str(tensor.dtype)[6:], num_bytes=num_elements * tensor.element_size(), root=self.members[peer],
            cell=context.cell, issued_s=time.monotonic(),
        )  # fmt: skip
        slot, state = context.ring.issue(call), "failed"
        try:
            yield
            state = "done"
        finally:
            context.ring.finish(slot, call.index, state, time.monotonic())


class Memory:
    """A rank's buffer for a program, and the copy it keeps apart where the algorithm sends from one."""

    def __init__(self, program: Program, num_elements: int, dtype: torch.dtype, device: str) -> None:
        self.program, self.layout = program, program.layout(num_elements)
        self.data = torch.zeros(program.buffer_elements(num_elements), dtype=dtype, device=device)
        self.apart = torch.empty_like(self.data) if program.apart else self.data

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

    def keep_apart(self) -> None:
        """Part of the algorithm, so it belongs to its time."""
        if self.apart is not self.data:
            self.apart.copy_(self.data)

    def outgoing(self, move: Move) -> torch.Tensor:
        return (self.data if move.send == "held" else self.apart)[move.send_start : move.send_stop]

    def arrive(self, move: Move, came: torch.Tensor, op: str) -> None:
        """Add or copy what came in for a move."""
        mine = self.data[move.recv_start : move.recv_stop]
        if move.reduce:
            COMBINE[op](mine, came)
        else:
            mine.copy_(came)
        if move.send == "handed":
            self.apart[move.recv_start : move.recv_stop] = came


def step_by_step(wire: Wire, memory: Memory, moves: list[Move], op: str, *, timed: bool = True) -> Tally:
    """Every move to its end before the next one starts, each timed.

    Without `timed`, a device that works through a queue is waited for at the end only.
    """
    tally, itemsize = Tally(), memory.data.element_size()
    memory.keep_apart()
    for move in moves:
        began = time.perf_counter()
        peer, size = (move.to_rank, len(memory.outgoing(move))) if move.kind == "send" else (move.from_rank, _incoming(move))
        with wire.noted("send" if move.kind == "send" else "recv", peer, size, memory.data):
            _one(wire, memory, move, op)
            if timed:
                wire.settle()
        tally.move(move, itemsize)
        tally.step_s[move.step] = tally.step_s.get(move.step, 0.0) + time.perf_counter() - began
    wire.settle()
    return tally


def _incoming(move: Move) -> int:
    return move.recv_stop - move.recv_start


def _one(wire: Wire, memory: Memory, move: Move, op: str) -> None:
    came = memory.data.new_empty(_incoming(move))
    with wire.at_once() as works:
        if move.kind != "send":
            works.append(wire.recv(came, move.from_rank))  # first, so that what comes early has a place
        if move.kind != "recv":
            works.append(wire.send(memory.outgoing(move), move.to_rank))
    for work in works:
        work.wait()
    if move.kind != "send":
        memory.arrive(move, came, op)
