"""Ranks as threads: a channel whose messages are buffered in queues, and a context that keeps the beacon's lines in a list."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from labkit.rank.channel import P2PChannel
from labkit.wire import Call

WAIT_S = 20.0


class Sent:
    def wait(self) -> None:
        """Buffered: a send is complete at once."""


class Received:
    def __init__(self, box: queue.Queue[torch.Tensor], into: torch.Tensor) -> None:
        self.box, self.into = box, into

    def wait(self) -> None:
        came = self.box.get(timeout=WAIT_S)
        assert len(came) == len(self.into)
        self.into.copy_(came)


class QueueBackend:
    """What P2PChannel uses of a process group's backend; `boxes[src, dst]` holds the messages on their way."""

    def __init__(self, rank: int, boxes: dict[tuple[int, int], queue.Queue[torch.Tensor]]) -> None:
        self.rank, self.boxes = rank, boxes
        self.num_sends = 0

    def send(self, tensors: list[torch.Tensor], to_rank: int, tag: int) -> Sent:
        self.num_sends += 1
        self.boxes[self.rank, to_rank].put(tensors[0].clone())
        return Sent()

    def recv(self, tensors: list[torch.Tensor], from_rank: int, tag: int) -> Received:
        return Received(self.boxes[from_rank, self.rank], tensors[0])


class Lines:
    """A beacon in a list: `made` are the lines as they were issued, `states` how each ended."""

    def __init__(self) -> None:
        self.made: list[Call] = []
        self.states: dict[int, str] = {}

    def issue(self, line: Call) -> int:
        self.made.append(line)
        return len(self.made) - 1

    def issue_begun(self, slot: int, line: Call) -> None:
        assert self.made[slot].state == "begun"
        self.made[slot] = line

    def finish(self, slot: int, index: int, state: str, returned_s: float) -> None:
        assert self.made[slot].index == index
        self.states[index] = state


class Channel(P2PChannel):
    def _find_backend(self) -> Any:
        return self.context.groups


def channels(world_size: int, faults: dict[int, list[Any]] | None = None) -> list[Channel]:
    """One channel for each rank of a world; `faults` are those armed on a rank."""
    boxes = {(src, dst): queue.Queue[torch.Tensor]() for src in range(world_size) for dst in range(world_size)}
    made = []
    for rank in range(world_size):
        numbers = iter(range(1, 1 << 20))
        tap = SimpleNamespace(next_index=numbers.__next__, interceptors=(faults or {}).get(rank, []))
        backend = SimpleNamespace(facts=SimpleNamespace(returns_at_once=False))
        context: Any = SimpleNamespace(
            rank=rank, world_size=world_size, backend=backend, device="cpu", cell=3, unfinished=[], ring=Lines(),
            groups=QueueBackend(rank, boxes), tap=tap,
        )  # fmt: skip
        made.append(Channel(context))
    return made


def on_all(run: list[Callable[[], Any]]) -> list[Any]:
    """Each rank's function in a thread of its own: what they return, or the first error."""
    results: list[Any] = [None] * len(run)
    errors: list[BaseException] = []

    def work(rank: int) -> None:
        try:
            results[rank] = run[rank]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(len(run))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * WAIT_S)
    if errors:
        raise errors[0]
    return results
