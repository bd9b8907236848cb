"""What a step asks of each rank: messages and bytes sent and received, bytes reduced."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .checks import check_int
from .model import Schedule, Step

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Load:
    """Counts by rank, of one step or added up over steps."""

    sent_messages: Counts
    received_messages: Counts
    sent_bytes: Counts
    received_bytes: Counts
    reduced_bytes: Counts

    def __add__(self, other: Load) -> Load:
        mine, theirs = vars(self).values(), vars(other).values()
        return Load(*(one + two for one, two in zip(mine, theirs, strict=True)))

    @staticmethod
    def nothing(world_size: int) -> Load:
        return Load(*(np.zeros(world_size, dtype=np.int64) for _ in range(5)))


@dataclass(frozen=True)
class Totals:
    """A schedule's counts: by rank, and along the critical path (the busiest rank of each step).

    A rank has one port that sends and receives at once: what it sends in a step goes out one after another.
    """

    by_rank: Load
    num_steps: int
    messages: int
    num_bytes: int
    reduced_bytes: int


def step_load(step: Step, starts: Counts, itemsize: int, world_size: int) -> Load:
    """The load of one step; `starts` are the chunks' starts, `Layout.bounds()`."""
    num_bytes = (starts[step.chunk_hi] - starts[step.chunk_lo]) * itemsize

    def by(rank: NDArray[np.int32], weights: Counts | None = None) -> Counts:
        return np.bincount(rank, weights, world_size).astype(np.int64)  # exact: below 2**53

    return Load(
        by(step.src), by(step.dst), by(step.src, num_bytes), by(step.dst, num_bytes), by(step.dst, num_bytes * step.reduce)
    )


class Counter:
    """Adds up the loads of steps as they come."""

    def __init__(self, world_size: int) -> None:
        self._total, self._path, self._steps = Load.nothing(world_size), np.zeros(3, dtype=np.int64), 0

    def add(self, load: Load) -> None:
        self._total += load
        self._steps += 1
        self._path += (
            max(load.sent_messages.max(), load.received_messages.max()),
            max(load.sent_bytes.max(), load.received_bytes.max()),
            load.reduced_bytes.max(),
        )

    def totals(self) -> Totals:
        return Totals(self._total, self._steps, *(int(part) for part in self._path))


def count(schedule: Schedule, num_elements: int, itemsize: int = 4) -> Totals:
    """A schedule's messages and bytes for a tensor of `num_elements`, without running it.

    >>> from .algorithm import ALGORITHMS
    >>> totals = count(ALGORITHMS["ring"].schedule(4), 10)
    >>> totals.by_rank.sent_bytes.tolist(), totals.messages, totals.num_bytes
    ([56, 60, 64, 60], 6, 72)
    """
    counter, starts = Counter(schedule.world_size), schedule.layout(num_elements).bounds()
    itemsize = check_int("itemsize", itemsize)
    for step in schedule.steps():
        counter.add(step_load(step, starts, itemsize, schedule.world_size))
    return counter.totals()
