"""What each collective promises: which chunks a rank has at the start, and which it must have at the end.

`n` in every formula is the size that the field's tools print as S: the whole tensor for all-reduce, broadcast
and reduce; the *total* of all pieces for all-gather and reduce-scatter; one rank's row for all-to-all.

Chunks never pad: when the size does not divide, the first chunks are one element longer, so a tensor with fewer elements
than chunks leaves the last ones empty. All ranks compute the same layout, so nobody sends it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..plain import record
from ..registry import unknown
from .checks import check_int

Ranges = tuple[tuple[int, int], ...]


@record
class Layout:
    """`num_rows` rows of `num_elements` elements, each row cut into `num_chunks` chunks; chunks count through the rows.

    Only all-to-all has more rows than one: row r is what rank r starts with.

    >>> Layout(10, 4).sizes().tolist(), Layout(10, 4).span(1, 3), Layout(1, 3).sizes().tolist()
    ([3, 3, 2, 2], (3, 8), [1, 0, 0])
    """

    num_elements: int
    num_chunks: int
    num_rows: int = 1

    def __post_init__(self) -> None:
        check_int("num_elements", self.num_elements, 0)
        check_int("num_chunks", self.num_chunks)
        check_int("num_rows", self.num_rows)

    def start(self, chunk: int) -> int:
        """The first element of a chunk; for one past the last chunk, the end of the tensor."""
        row, column = divmod(chunk, self.num_chunks)
        size, longer = divmod(self.num_elements, self.num_chunks)
        return row * self.num_elements + column * size + min(column, longer)

    def span(self, chunk_lo: int, chunk_hi: int) -> tuple[int, int]:
        """First element of `chunk_lo` and first element after chunk `chunk_hi - 1`."""
        return self.start(chunk_lo), self.start(chunk_hi)

    def bounds(self) -> NDArray[np.int64]:
        """The starts of all chunks, and the end."""
        row, column = np.divmod(np.arange(self.num_rows * self.num_chunks + 1, dtype=np.int64), self.num_chunks)
        size, longer = divmod(self.num_elements, self.num_chunks)
        return np.asarray(row * self.num_elements + column * size + np.minimum(column, longer))

    def sizes(self) -> NDArray[np.int64]:
        """The number of elements in each chunk."""
        return np.diff(self.bounds())

    def elements(self, ranges: tuple[tuple[int, int], ...]) -> NDArray[np.int64]:
        """The elements of some ranges of chunks, in their order: how a rank's own tensor lies in the whole.

        >>> Layout(4, 2, 2).elements(((1, 2), (3, 4))).tolist()
        [2, 3, 6, 7]
        """
        spans = [np.arange(*self.span(lo, hi), dtype=np.int64) for lo, hi in ranges]
        return np.concatenate(spans) if spans else np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Collective:
    """One collective: `title` in plain words, `reduces` if contributions are put together.

    `start` and `end` name a rank's holdings: "all" chunks, its own "piece", its "row", its "column",
    "root" (all on the root, nothing elsewhere).
    """

    name: str
    title: str
    start: str
    end: str
    reduces: bool

    @property
    def rooted(self) -> bool:
        return "root" in (self.start, self.end)

    def holds(self, where: str, rank: int, world_size: int, num_chunks: int, root: int = 0) -> Ranges:
        """The chunks of a rank at its "start" or "end", in the order they have in its tensor.

        >>> COLLECTIVES["all_to_all"].holds("end", 1, 3, 9), COLLECTIVES["reduce_scatter"].holds("end", 1, 3, 3)
        (((1, 2), (4, 5), (7, 8)), ((1, 2),))
        """
        kind = self.start if where == "start" else self.end
        if kind == "root":
            kind = "all" if rank == root else "nothing"
        if kind == "all":
            return ((0, num_chunks),)
        if kind == "piece":
            return ((rank, rank + 1),)
        if kind == "row":
            return ((rank * world_size, (rank + 1) * world_size),)
        if kind == "column":
            return tuple((row * world_size + rank, row * world_size + rank + 1) for row in range(world_size))
        return ()

    def owner(self, chunk: int, world_size: int, root: int = 0) -> int:
        """Whose contribution a chunk is, where nothing is reduced."""
        if self.start == "root":
            return root
        return chunk // world_size if self.start == "row" else chunk

    def layout(self, num_elements: int, world_size: int, num_chunks: int) -> Layout:
        """The layout of `num_elements` = n elements."""
        if self.start == "row":
            return Layout(num_elements, world_size, world_size)
        return Layout(num_elements, num_chunks)

    def check_chunks(self, world_size: int, num_chunks: int) -> None:
        """Pieces are one chunk each, so that a piece ends where everybody expects it."""
        needed = {"piece": world_size, "row": world_size * world_size}
        for kind in (self.start, self.end):
            if kind in needed and num_chunks != needed[kind]:
                raise UsageError(
                    f"{self.name} on {world_size} ranks has {needed[kind]} chunks, not {num_chunks}",
                    hint="give each rank's piece one chunk",
                )


COLLECTIVES: dict[str, Collective] = {
    each.name: each
    for each in (
        Collective("all_reduce", "all-reduce", "all", "all", reduces=True),
        Collective("reduce_scatter", "reduce-scatter", "all", "piece", reduces=True),
        Collective("all_gather", "all-gather", "piece", "all", reduces=False),
        Collective("broadcast", "broadcast", "root", "all", reduces=False),
        Collective("reduce", "reduce", "all", "root", reduces=True),
        Collective("all_to_all", "all-to-all", "row", "column", reduces=False),
    )
}


def collective(name: str) -> Collective:
    """The collective of that name; UnknownName with the nearest one otherwise.

    >>> collective("all_reduce").title
    'all-reduce'
    """
    try:
        return COLLECTIVES[name]
    except KeyError:
        raise unknown("collective", name, COLLECTIVES) from None
