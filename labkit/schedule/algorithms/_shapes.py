"""Index arithmetic that several algorithms share: powers of two, folding, and who is whose neighbour."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


def floor_log2(number: int) -> int:
    """The largest k with 2**k <= number.

    >>> [floor_log2(p) for p in (1, 2, 3, 4, 7, 8)]
    [0, 1, 1, 2, 2, 3]
    """
    return number.bit_length() - 1


def ceil_log2(number: int) -> int:
    """The smallest k with 2**k >= number.

    >>> [ceil_log2(p) for p in (1, 2, 3, 4, 7, 8)]
    [0, 1, 2, 2, 3, 3]
    """
    return (number - 1).bit_length()


def ranks(world_size: int) -> NDArray[np.int32]:
    return np.arange(world_size, dtype=np.int32)


class Fold:
    """A world made a power of two: the first `extra` pairs of ranks act as one, the odd rank of a pair for both.

    The ranks that act are numbered anew; place v is rank 2v + 1 in the pairs and rank v + extra after them.

    >>> fold = Fold(6)
    >>> fold.size, fold.extra, fold.acting.tolist(), fold.resting.tolist(), [fold.place(r) for r in range(6)]
    (4, 2, [1, 3, 4, 5], [0, 2], [-1, 0, -1, 1, 2, 3])
    """

    def __init__(self, world_size: int) -> None:
        self.log = floor_log2(world_size)
        self.size = 1 << self.log
        self.extra = world_size - self.size
        places = ranks(self.size)
        self.acting = np.where(places < self.extra, 2 * places + 1, places + self.extra)
        self.resting = 2 * ranks(self.extra)

    def place(self, rank: int) -> int:
        """The place of a rank, or -1 if another acts for it."""
        if rank < 2 * self.extra:
            return rank // 2 if rank % 2 else -1
        return rank - self.extra

    def piece_start(self, places: NDArray[np.int32]) -> NDArray[np.int32]:
        """The first chunk a place answers for, if each rank has one: a pair's place has two."""
        return places + np.minimum(places, np.int32(self.extra))

    def group_chunks(self, place: int, mask: int) -> int:
        """How many chunks the `mask` places around `place` (a group aligned to `mask`) answer for."""
        first = place & ~(mask - 1)
        return mask + min(first + mask, self.extra) - min(first, self.extra)


def halvings(size: int) -> Iterator[int]:
    """size / 2, size / 4, ... 1.

    >>> list(halvings(8))
    [4, 2, 1]
    """
    mask = size // 2
    while mask:
        yield mask
        mask //= 2
