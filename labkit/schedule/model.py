"""A collective's algorithm as data: steps of transfers.

One schedule serves the simulator, the price, the run on live ranks and the animation, so they can't drift
apart. It has no sizes in it: chunks get their elements from a `Layout`, when there is a tensor.

All transfers of a step happen at once: every sender sends what it had before the step. Steps are arrays, made
when they are asked for, so that a thousand ranks cost no more memory than one step.

`count` tells what each step asks of each rank: messages and bytes sent and received, bytes reduced.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import UsageError
from ..plain import record
from ..registry import unknown
from .checks import check_int, check_world_size
from .collective import Collective, Layout, Ranges, collective

# What a sender sends: what it holds by now, its own original contribution, or what it was handed last.
SENDS = ("held", "own", "handed")


@record
class Transfer:
    """Chunks `chunk_lo` to `chunk_hi - 1` go from rank `src` to rank `dst`, which adds (`reduce`) or copies them."""

    src: int
    dst: int
    chunk_lo: int
    chunk_hi: int
    reduce: bool = False


@dataclass(frozen=True, eq=False)
class Step:
    """Transfers that happen at once, as arrays of one length; `phase` names the part of the algorithm.

    `send` is one of `SENDS`; with "handed", a rank keeps what arrives apart from its sum, to hand it on.
    """

    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    chunk_lo: NDArray[np.int32]
    chunk_hi: NDArray[np.int32]
    reduce: NDArray[np.bool_]
    phase: str = ""
    send: str = "held"

    def __len__(self) -> int:
        return len(self.src)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Step):
            return NotImplemented
        return self.send == other.send and self.transfers() == other.transfers()

    __hash__ = None  # type: ignore[assignment]  # compared by its arrays

    def transfers(self) -> tuple[Transfer, ...]:
        """The same as records."""
        columns = (self.src, self.dst, self.chunk_lo, self.chunk_hi, self.reduce)
        return tuple(Transfer(*row) for row in zip(*(column.tolist() for column in columns), strict=True))


def make_step(
    src: ArrayLike,
    dst: ArrayLike,
    chunk_lo: ArrayLike,
    chunk_hi: ArrayLike | None = None,
    *,
    reduce: ArrayLike,
    phase: str = "",
    send: str = "held",
) -> Step:
    """A step from anything that broadcasts to one length; `chunk_hi` is `chunk_lo + 1` unless given.

    >>> make_step([0, 1], [1, 0], 0, reduce=True).transfers()[1]
    Transfer(src=1, dst=0, chunk_lo=0, chunk_hi=1, reduce=True)
    """
    low = np.asarray(chunk_lo, dtype=np.int32)
    high = low + np.int32(1) if chunk_hi is None else chunk_hi
    numbers = [np.atleast_1d(np.asarray(column, dtype=np.int32)) for column in (src, dst, low, high)]
    adds = np.atleast_1d(np.asarray(reduce, dtype=np.bool_))
    sender, receiver, low, high, adds = np.broadcast_arrays(*numbers, adds)
    return Step(sender, receiver, low, high, adds, phase, send)


@dataclass(frozen=True, eq=False)
class Schedule:
    """One algorithm for one world: who sends which chunk to whom in which step.

    >>> swap = from_steps("swap", "all_reduce", 2, 1, [[Transfer(0, 1, 0, 1, True), Transfer(1, 0, 0, 1, True)]])
    >>> swap.num_steps, swap.num_transfers, swap.layout(10).sizes().tolist()
    (1, 2, [10])
    """

    name: str
    collective: str
    world_size: int
    num_chunks: int
    build: Callable[[], Iterable[Step]] = field(repr=False)
    root: int = 0
    params: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_world_size(self.world_size)
        check_int("num_chunks", self.num_chunks)
        self.promise.check_chunks(self.world_size, self.num_chunks)
        check_int("root", self.root, 0, below=self.world_size)

    @property
    def promise(self) -> Collective:
        """What the collective demands of the start and the end."""
        return collective(self.collective)

    def steps(self) -> Iterator[Step]:
        """The steps in order, made one by one."""
        return iter(self.build())

    def step(self, index: int) -> Step:
        """Step `index`, counted from 0."""
        place = check_int("index", index, 0, below=self.num_steps)
        return next(itertools.islice(self.build(), place, None))

    @property
    def num_steps(self) -> int:
        return sum(1 for _ in self.build())

    @property
    def num_transfers(self) -> int:
        return sum(len(step) for step in self.build())

    def start(self, rank: int) -> Ranges:
        """The chunks a rank has at the start, in the order of its tensor."""
        return self.promise.holds("start", rank, self.world_size, self.num_chunks, self.root)

    def end(self, rank: int) -> Ranges:
        """The chunks a rank must have at the end, in the order of its tensor."""
        return self.promise.holds("end", rank, self.world_size, self.num_chunks, self.root)

    def layout(self, num_elements: int) -> Layout:
        """Where the chunks lie in a tensor of `num_elements` = n elements."""
        return self.promise.layout(num_elements, self.world_size, self.num_chunks)


def from_steps(
    name: str, collective: str, world_size: int, num_chunks: int, steps: Sequence[Sequence[Transfer]], root: int = 0
) -> Schedule:
    """A schedule written out by hand, a list of transfers per step; UsageError for ranks and chunks that do not exist."""
    return from_arrays(name, collective, world_size, num_chunks, [_step_of(transfers) for transfers in steps if transfers], root)


def from_arrays(name: str, collective: str, world_size: int, num_chunks: int, steps: Sequence[Step], root: int = 0) -> Schedule:
    """A schedule of steps that are there already; checked like `from_steps`."""
    schedule = Schedule(name, collective, world_size, num_chunks, lambda: steps, root)
    for index, step in enumerate(steps):
        _check_step(step, index, world_size, num_chunks)
    return schedule


def compose(first: Schedule, second: Schedule, name: str = "", collective: str = "all_reduce") -> Schedule:
    """One schedule after the other: a reduce-scatter and an all-gather of its pieces make an all-reduce."""
    if (first.world_size, first.num_chunks) != (second.world_size, second.num_chunks):
        raise UsageError(f"{first.name} and {second.name} can't be composed", hint="both need the same world size and chunks")
    if any(first.end(rank) != second.start(rank) for rank in range(first.world_size)):
        raise UsageError(
            f"{second.name} does not start where {first.name} ends", hint="compose a reduce-scatter and an all-gather"
        )
    title = name or f"{first.name} + {second.name}"
    build = lambda: itertools.chain(first.build(), second.build())  # noqa: E731
    return Schedule(title, collective, first.world_size, first.num_chunks, build, first.root)


def _step_of(transfers: Sequence[Transfer]) -> Step:
    columns = zip(*((t.src, t.dst, t.chunk_lo, t.chunk_hi, t.reduce) for t in transfers), strict=True)
    src, dst, low, high, reduce = columns
    return make_step(src, dst, low, high, reduce=reduce)


def _check_step(step: Step, index: int, world_size: int, num_chunks: int) -> None:
    if step.send not in SENDS:
        raise unknown("kind of sending", step.send, SENDS)
    for each in step.transfers():
        if not (0 <= each.src < world_size and 0 <= each.dst < world_size and each.src != each.dst):
            raise UsageError(
                f"step {index}: rank {each.src} can't send to rank {each.dst}",
                hint=f"ranks are 0 to {world_size - 1}, and a rank sends to another one",
            )
        if not 0 <= each.chunk_lo < each.chunk_hi <= num_chunks:
            raise UsageError(
                f"step {index}: chunks {each.chunk_lo} to {each.chunk_hi - 1} do not exist",
                hint=f"chunks are 0 to {num_chunks - 1}, and a transfer has at least one",
            )


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
