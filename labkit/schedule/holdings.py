"""Whose contributions are in which chunk of which rank.

`Origins` keeps them exactly, a bit per rank. That grows with the square of the world, so `Tags` serves large
worlds: a count, and the sum of one random 64-bit tag per contribution. A wrong set has the right tag sum with a
chance of about 2**-64, so `Tags` finds the same faults, but can't say who is in a set.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import join_ranks
from .model import Schedule

Cells = NDArray[np.int64]  # rank * num_chunks + chunk
EXACT = 128  # ranks; in larger worlds exact sets would be the largest thing in memory


class Holdings(Protocol):
    """What the simulator asks of a way to keep contributions; `taken` is a copy of some cells."""

    def take(self, cells: Cells, *, handed: bool) -> NDArray[np.uint64]: ...
    def put(self, cells: Cells, taken: NDArray[np.uint64], reduce: NDArray[np.bool_]) -> None: ...
    def hand(self, cells: Cells, taken: NDArray[np.uint64]) -> None: ...
    def empty(self, taken: NDArray[np.uint64]) -> NDArray[np.bool_]: ...
    def overlap(self, cells: Cells, taken: NDArray[np.uint64]) -> NDArray[np.bool_]: ...
    def wrong(self, rank: int, chunks: Cells) -> Cells: ...
    def describe(self, cell: int) -> str: ...


class _Base:
    """`_state[cell]` is a row of words; a row of zeros is a chunk nobody has put anything in."""

    def __init__(self, schedule: Schedule, words: int) -> None:
        self.schedule, self.promise = schedule, schedule.promise
        self._state = np.zeros((schedule.world_size * schedule.num_chunks, words), dtype=np.uint64)
        for rank in range(schedule.world_size):
            for low, high in schedule.start(rank):
                base = rank * schedule.num_chunks
                self._state[base + low : base + high] = self._mark(rank)
        self._handed: NDArray[np.uint64] | None = None

    def _mark(self, rank: int) -> NDArray[np.uint64]:
        raise NotImplementedError

    def _everyone(self) -> NDArray[np.uint64]:
        raise NotImplementedError

    def take(self, cells: Cells, *, handed: bool) -> NDArray[np.uint64]:
        if handed and self._handed is None:
            self._handed = self._state.copy()
        source = self._handed if handed and self._handed is not None else self._state
        return source[cells]

    def hand(self, cells: Cells, taken: NDArray[np.uint64]) -> None:
        if self._handed is not None:
            self._handed[cells] = taken

    def empty(self, taken: NDArray[np.uint64]) -> NDArray[np.bool_]:
        return np.asarray(~taken.any(axis=1))

    def wrong(self, rank: int, chunks: Cells) -> Cells:
        """Those of a rank's chunks that don't hold what they must at the end."""
        held = self._state[rank * self.schedule.num_chunks + chunks]
        if self.promise.reduces:
            wanted = np.broadcast_to(self._everyone(), held.shape)
        else:
            owners = [self.promise.owner(int(chunk), self.schedule.world_size, self.schedule.root) for chunk in chunks]
            wanted = np.stack([self._mark(owner) for owner in owners]) if owners else held
        return np.asarray(chunks[(held != wanted).any(axis=1)])


class Origins(_Base):
    """Exact sets of ranks, as bits."""

    def __init__(self, schedule: Schedule) -> None:
        self._words = -(-schedule.world_size // 64)
        super().__init__(schedule, self._words)

    def _mark(self, rank: int) -> NDArray[np.uint64]:
        mark = np.zeros(self._words, dtype=np.uint64)
        mark[rank // 64] = np.uint64(1) << np.uint64(rank % 64)
        return mark

    def _everyone(self) -> NDArray[np.uint64]:
        return np.asarray(np.bitwise_or.reduce([self._mark(rank) for rank in range(self.schedule.world_size)]))

    def put(self, cells: Cells, taken: NDArray[np.uint64], reduce: NDArray[np.bool_]) -> None:
        self._state[cells] = np.where(reduce[:, None], self._state[cells] | taken, taken)

    def overlap(self, cells: Cells, taken: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Where something would be counted twice."""
        return np.asarray((self._state[cells] & taken).any(axis=1))

    def mask(self, cell: int) -> int:
        """The set in a cell as a number: bit r is rank r."""
        return sum(int(word) << (64 * index) for index, word in enumerate(self._state[cell]))

    def ranks(self, cell: int) -> list[int]:
        mask = self.mask(cell)
        return [rank for rank in range(self.schedule.world_size) if mask >> rank & 1]

    def describe(self, cell: int) -> str:
        held = self.ranks(cell)
        return f"the part of {join_ranks(held)}" if held else "nothing"


class Tags(_Base):
    """A count and a sum of random tags."""

    def __init__(self, schedule: Schedule) -> None:
        random = np.random.default_rng(20)
        self._tags = np.ones((schedule.world_size, 2), dtype=np.uint64)
        self._tags[:, 1] = random.integers(1, 1 << 63, schedule.world_size, dtype=np.uint64)
        super().__init__(schedule, 2)

    def _mark(self, rank: int) -> NDArray[np.uint64]:
        mark: NDArray[np.uint64] = self._tags[rank]
        return mark

    def _everyone(self) -> NDArray[np.uint64]:
        return np.asarray(self._tags.sum(axis=0, dtype=np.uint64))

    def put(self, cells: Cells, taken: NDArray[np.uint64], reduce: NDArray[np.bool_]) -> None:
        self._state[cells] = np.where(reduce[:, None], self._state[cells] + taken, taken)

    def overlap(self, cells: Cells, taken: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Where there are more contributions than ranks; a smaller double count shows at the end."""
        return np.asarray(self._state[cells, 0] + taken[:, 0] > self.schedule.world_size)

    def describe(self, cell: int) -> str:
        return f"{self._state[cell, 0]} contributions, not the right ones"


def holdings(schedule: Schedule) -> Holdings:
    """Exact sets where they are small, tags elsewhere."""
    return Origins(schedule) if schedule.world_size <= EXACT else Tags(schedule)
