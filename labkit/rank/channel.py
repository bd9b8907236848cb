"""Point-to-point messages on the backend of a group, below the tap: what the moves of a schedule are sent through.

The moves do not pass through the tap. A ring is some dozens of messages, and an exchange of 1 KiB costs the calling
thread 61 to 78 µs of CPU time through the tap, 55 to 71 µs through `torch.distributed` without it, and 36 to 38 µs on
the backend; and a schedule's messages would hide the learner's own calls. So each move leaves one line in the beacon
instead, which is what a diagnosis needs of it.

The library's own collectives, against which schedules are held, go below the tap as well: neither side pays for being
watched, and a learner's calls keep their numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ..wire import Call
from .context import RankContext

TAG = 4712  # so that a message of a schedule never matches a learner's own send or receive


class P2PChannel:
    """Sends and receives between the ranks of a group: the world's, or one of `members` only.

    Ranks of a channel are numbers in its group: `members[i]` is rank i's number in the world. `request_id` is the request's
    number where a program is run once, so that its moves can be judged one by one.
    """

    request_id = 0

    def __init__(self, context: RankContext, members: Sequence[int] = ()) -> None:
        self.context = context
        self.members = tuple(members) or tuple(range(context.world_size))
        self.queued = context.backend.facts.returns_at_once
        self.backend = self._find_backend()

    def _find_backend(self) -> Any:
        part = len(self.members) < self.context.world_size
        group = self.context.groups.part(self.members) if part else c10d._get_default_group()
        return group._get_backend(torch.device(self.context.device))

    def send(self, tensor: torch.Tensor, to_rank: int) -> Any:
        return self.backend.send([tensor], to_rank, TAG)

    def recv(self, tensor: torch.Tensor, from_rank: int) -> Any:
        return self.backend.recv([tensor], from_rank, TAG)

    def exchange(self, out: torch.Tensor | None, to_rank: int, into: torch.Tensor | None, from_rank: int) -> None:
        """Send and receive at once, and wait for both; None is nothing to send or receive.

        NCCL runs one kernel for both: two separate ones could wait for each other on two ranks.
        """
        if self.queued:
            self.backend._start_coalescing()
        works = [] if into is None else [self.recv(into, from_rank)]  # first, so that what comes early has a place
        if out is not None:
            works.append(self.send(out, to_rank))
        if self.queued:
            works = [self.backend._end_coalescing()]
        try:
            for work in works:
                work.wait()
        except BaseException:
            self.keep(works)
            raise

    def synchronize(self) -> None:
        """Return when the device has done all that was enqueued; gloo's waits have seen to it already."""
        if self.queued:
            torch.cuda.synchronize()

    def keep(self, works: Iterable[Any]) -> None:
        """Keep messages alive that nobody waits for any more, since an interrupt came between.

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


_OPS = {"SUM": "SUM", "AVG": "SUM", "MAX": "MAX", "MIN": "MIN", "PRODUCT": "PRODUCT"}  # AVG is divided once, at the end


def all_reduce(channel: P2PChannel, tensor: torch.Tensor, op: str) -> None:
    """The library's all-reduce, waited for."""
    options = c10d.AllreduceOptions()
    options.reduceOp = getattr(dist.ReduceOp, _OPS[op])
    channel.backend.allreduce([tensor], options).wait()
    channel.synchronize()


def barrier(channel: P2PChannel) -> None:
    """Return when all ranks have come here."""
    all_reduce(channel, torch.zeros(1, device=channel.context.device), "SUM")


def agreed(channel: P2PChannel, number: int) -> bool:
    """Whether all ranks give the same number; they must, before a message of that size is sent."""
    pair = torch.tensor([number, -number], dtype=torch.int64, device=channel.context.device)
    all_reduce(channel, pair, "MAX")
    return bool(pair[0] == -pair[1])


def timed(channel: P2PChannel, run: Callable[[], Any], calls: int = 1) -> tuple[float, float]:
    """When this rank began and ended `calls` runs, by the machine's one monotonic clock; all begin together."""
    barrier(channel)
    began_s = time.monotonic()
    for _ in range(calls):
        run()
    return began_s, time.monotonic()


def collective(channel: P2PChannel, name: str, num_elements: int, dtype: torch.dtype) -> Callable[[], None]:
    """One call of a library collective on fresh zeros; `num_elements` is the total as the field's tools count it."""
    size, backend = len(channel.members), channel.backend

    def tensor(count: int) -> torch.Tensor:
        return torch.zeros(count, dtype=dtype, device=channel.context.device)

    whole = tensor(num_elements)
    piece = tensor(num_elements // size) if name in ("all_gather", "reduce_scatter") else whole[:0]
    other = tensor(num_elements) if name == "all_to_all" else whole[:0]
    issue: dict[str, Callable[[], Any]] = {
        "all_reduce": lambda: backend.allreduce([whole], c10d.AllreduceOptions()),
        "broadcast": lambda: backend.broadcast([whole], c10d.BroadcastOptions()),
        "reduce": lambda: backend.reduce([whole], c10d.ReduceOptions()),
        "all_gather": lambda: backend._allgather_base(whole, piece, c10d.AllgatherOptions()),
        "reduce_scatter": lambda: backend._reduce_scatter_base(piece, whole, c10d.ReduceScatterOptions()),
        "all_to_all": lambda: backend.alltoall_base(other, whole, [], [], c10d.AllToAllOptions()),
    }

    def call() -> None:
        issue[name]().wait()
        channel.synchronize()

    return call
