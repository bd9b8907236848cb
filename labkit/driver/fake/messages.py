"""The messages of schedules between fake ranks: who sends what to whom, and when it is through.

A message has no name either: the first one sent from a to b meets the first place b has made for one from a. It takes
alpha + beta a byte of the world's link from when both are there. As on gloo, a longer one than the place ends the process
that made the place, a shorter one fills a part of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy

from ...schedule.cost import Link

if TYPE_CHECKING:
    from .rank import FakeRank

LINK = Link.of(latency_us=50, gb_per_s=1)
CLOSED = "[fake] Connection closed by peer [127.0.0.1]:1"
ABORTED = -6


@dataclass(eq=False)
class Half:
    """One end of a message: what `rank` sends to `peer`, or the place it has made for what comes from there.

    `tensor` may be None where only the time counts.
    """

    rank: FakeRank
    peer: int
    sends: bool
    num_bytes: int
    tensor: Any = None
    due_s: float | None = None

    @property
    def matched(self) -> bool:
        return self.due_s is not None


class Messages:
    """All messages under way of one generation."""

    def __init__(self, ranks: Sequence[FakeRank], link: Link) -> None:
        self._ranks, self.link = ranks, link
        self._open: list[Half] = []
        self._notes: dict[tuple[int, int], dict[int, Any]] = {}

    def gather(self, rank: FakeRank, number: int, members: Sequence[int], note: Any = None) -> list[Any]:
        """Wait until all members have come here, in a request for the how-manieth time; what each has brought, in order."""
        brought = self._notes.setdefault((rank.request, number), {})
        brought[rank.rank] = note
        rank.wait_until(lambda: len(brought) == len(members))
        return [brought[member] for member in members]

    def exchange(self, rank: FakeRank, halves: Sequence[Half]) -> None:
        """Post these ends at once and wait until all are through; RuntimeError if a peer is gone."""
        self._open += halves
        for half in halves:
            self._meet(half)
        for half in halves:
            if not half.matched and self._ranks[half.peer].exit_code is not None:
                raise RuntimeError(CLOSED)
        rank.wait_until(lambda: all(half.matched for half in halves))
        left_s = max((half.due_s or 0.0 for half in halves), default=0.0) - rank.clock.now_s()
        if left_s > 0:
            rank.sleep(left_s)

    def _meet(self, half: Half) -> None:
        for other in self._open:
            if other.sends is half.sends or other.rank.rank != half.peer or other.peer != half.rank.rank:
                continue
            sender, receiver = (half, other) if half.sends else (other, half)
            self._open.remove(half)
            self._open.remove(other)
            if sender.num_bytes > receiver.num_bytes:
                receiver.rank.die(ABORTED)
                return
            if sender.tensor is not None and receiver.tensor is not None:
                _bytes(receiver.tensor)[: sender.num_bytes] = _bytes(sender.tensor)
            link = self.link
            due_s = half.rank.clock.now_s() + link.alpha_s + link.beta_s_per_byte * sender.num_bytes
            sender.due_s = receiver.due_s = due_s
            return

    def lost(self, rank: int) -> None:
        """A process has ended: those who wait for a message with it see their connection close."""
        for half in self._open:
            if half.peer == rank and not half.matched:
                half.rank.throw(RuntimeError(CLOSED))
        self._open = [half for half in self._open if half.rank.rank != rank]


def _bytes(tensor: Any) -> Any:
    return numpy.asarray(tensor).reshape(-1).view(numpy.uint8)
