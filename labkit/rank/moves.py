"""A rank's part of a schedule, executed: one move after another, on the backend of the world's group.

The moves do not pass through the tap. A ring is some dozens of messages, and an exchange of 1 KiB costs the calling
thread 61 to 78 µs of CPU time through the tap, 55 to 71 µs through `torch.distributed` without it, and 36 to 38 µs on
the backend; and the learner's calls would drown in the runner's. So each move leaves one line in the beacon instead,
which is what a diagnosis needs of it. Only where a fault is armed do the moves pass it first (`armed.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed import distributed_c10d as c10d

from ..wire import Call
from .context import RankContext

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
        self.message(
            (move.send_stop - move.send_start) * itemsize if move.kind != "recv" else None,
            incoming(move) * itemsize if move.kind != "send" else None,
        )

    def message(self, sent_bytes: int | None, received_bytes: int | None) -> None:
        """Count a message out, one in, or both; None is no message."""
        if sent_bytes is not None:
            self.sent_messages += 1
            self.sent_bytes += sent_bytes
        if received_bytes is not None:
            self.received_messages += 1
            self.received_bytes += received_bytes


class Wire:
    """Point-to-point on the backend of a group (the world's, or of `members` only), below the tap.

    Ranks of a wire are numbers in its group: `members[i]` is rank i's number in the world. `turn` is the request's number
    where a program is run once, so that its moves can be judged one by one.
    """

    turn = 0

    def __init__(self, context: RankContext, members: Sequence[int] = ()) -> None:
        self.context = context
        self.members = tuple(members) or tuple(range(context.world_size))
        group = context.groups.part(self.members) if len(self.members) < context.world_size else c10d._get_default_group()
        self.backend = group._get_backend(torch.device(context.device))
        self.queued = context.backend.facts.returns_at_once

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

    def leave(self, works: Iterable[Any]) -> None:
        """Keep messages that are not waited for any more, since an interrupt came between.

        gloo sends on as long as a message's memory lives, and breaks off in its middle when that goes. A receiver that
        has half of a message can't even be freed by cutting its connection: 3 of 120 were lost so, and 0 of 300 since.
        """
        self.context.unfinished += works

    @contextmanager
    def noted(self, line: Call) -> Iterator[None]:
        """A line in the beacon for what this rank waits for."""
        slot, state = self.context.ring.issue(line), "failed"
        try:
            yield
            state = "done"
        finally:
            self.context.ring.finish(slot, line.index, state, time.monotonic())


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


def line_of(wire: Wire, memory: Memory, number: int, move: Move, op: str, *, sends: bool = False) -> Call:
    """What the beacon says of a move, number `number` of its program: whom this rank waits for, and how much travels.

    Of a move that sends and receives it is the receiving half, unless `sends`.
    """
    context, data = wire.context, memory.data
    sends = sends or move.kind == "send"
    count = move.send_stop - move.send_start if sends else incoming(move)
    line = object.__new__(Call)  # its own __init__ sets the frozen fields one by one, before every move
    line.__dict__.update(
        index=context.tap.next_index(), seq=0, op="send" if sends else "recv", group="world", group_ranks=wire.members,
        shape=(count,), dtype=str(data.dtype)[6:], num_bytes=count * data.element_size(),
        reduce_op=op.lower() if move.reduce and not sends else "",
        root=wire.members[move.to_rank if sends else move.from_rank], async_op=False, site=None, cell=context.cell,
        state="issued", issued_s=time.monotonic(), returned_s=0.0,
        algorithm=memory.program.name, step=move.step, move=number, turn=wire.turn, planned="",
    )  # fmt: skip
    return line


def step_by_step(wire: Wire, memory: Memory, moves: list[Move], op: str, *, timed: bool = True) -> Callable[[], Tally]:
    """What makes every move to its end before the next one, each timed, and through the armed faults if there are any.

    All that is made ready is made ready now, so that a run's time is the moves' time. Without `timed`, a device that works
    through a queue is waited for at the end only.
    """
    from .armed import armed_for_moves, mover

    interceptors = armed_for_moves(wire)
    make = mover(interceptors) if interceptors else partial(_make, settle=timed)
    return partial(_one_by_one, wire, memory, moves, op, make)


def _one_by_one(wire: Wire, memory: Memory, moves: list[Move], op: str, make: Callable[..., Any]) -> Tally:
    """A step's time runs to the end of its moves from the end of what came before it, so the steps add up to the run."""
    tally, itemsize = Tally(), memory.data.element_size()
    lap_s = time.perf_counter()
    memory.keep_apart()
    for number, move in enumerate(moves, start=1):
        made = make(wire, memory, number, move, op)
        if made is None:
            tally.move(move, itemsize)
        else:
            for sizes in made:  # what a fault has made of it
                tally.message(*sizes)
        began_s, lap_s = lap_s, time.perf_counter()
        tally.step_s[move.step] = tally.step_s.get(move.step, 0.0) + lap_s - began_s
    wire.settle()
    return tally


def incoming(move: Move) -> int:
    return move.recv_stop - move.recv_start


def _make(wire: Wire, memory: Memory, number: int, move: Move, op: str, *, settle: bool) -> None:
    came = memory.data.new_empty(incoming(move))
    with wire.noted(line_of(wire, memory, number, move, op)):
        exchange(wire, move, memory.outgoing(move), came)
        if move.kind != "send":
            memory.arrive(move, came, op)
        if settle:
            wire.settle()


def exchange(wire: Wire, move: Move, out: torch.Tensor | None, came: torch.Tensor | None) -> None:
    """Send and receive what a move does, at once, and wait for it."""
    with wire.at_once() as works:
        if came is not None and move.kind != "send":
            works.append(wire.recv(came, move.from_rank))  # first, so that what comes early has a place
        if out is not None and move.kind != "recv":
            works.append(wire.send(out, move.to_rank))
    try:
        for work in works:
            work.wait()
    except BaseException:
        wire.leave(works)
        raise
