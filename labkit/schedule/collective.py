"""What each collective promises: which chunks a rank has at the start, and which it must have at the end.

`n` in every formula is the size that the field's tools print as S: the whole tensor for all-reduce, broadcast
and reduce; the *total* of all pieces for all-gather and reduce-scatter; one rank's row for all-to-all.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UsageError
from ..registry import unknown
from .layout import Layout

Ranges = tuple[tuple[int, int], ...]


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
