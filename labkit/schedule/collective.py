"""What each collective promises (which chunks a rank has at the start, and which it must have at the end), how its bandwidth
is counted, and the reduce ops.

`n` in every formula is the size that the field's tools print as S: the whole tensor for all-reduce, broadcast
and reduce; the *total* of all pieces for all-gather and reduce-scatter; one rank's row for all-to-all.

Chunks never pad: when the size does not divide, the first chunks are one element longer, so a tensor with fewer elements
than chunks leaves the last ones empty. All ranks compute the same layout, so nobody sends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..plain import record
from ..registry import unknown
from ..units import algbw_gb_per_s
from .checks import check_int, check_number, check_world_size

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


# ---- algorithm and bus bandwidth
# Source: nccl-tests, doc/PERFORMANCE.md and GetBw in src/*.cu (gather, scatter, hypercube and alltoallv are in the
# code only). algbw = S / t and busbw = algbw * factor, in GB/s of 1e9 bytes.
#
# The commonest mistake is S: for all-gather, reduce-scatter, all-to-all, gather and scatter it is the *total*, the size
# that one rank gives or gets from one other times the number of ranks.
@dataclass(frozen=True)
class Factor:
    """How a collective is counted: S = count * `times`, and busbw = algbw * `moved` * (n - 1)/n (or * 1 if `flat`).

    `times` is "1", "n" or "n - 1"; `count` is what one call of the collective takes as its count, in bytes.
    """

    moved: int
    times: str = "1"
    flat: bool = False
    note: str = ""


FACTORS: dict[str, Factor] = {
    "all_reduce": Factor(2, note="assumes a flat fabric of point-to-point links"),
    "reduce_scatter": Factor(1, "n", note="S is the whole input, not the piece a rank gets"),
    "all_gather": Factor(1, "n", note="S is the whole output, not the piece a rank gives"),
    "all_to_all": Factor(1, "n", note="S is one rank's row of blocks"),
    "gather": Factor(1, "n"),
    "scatter": Factor(1, "n"),
    "all_to_all_v": Factor(1, note="S is the largest row of all ranks"),
    "broadcast": Factor(1, flat=True, note="the root's link is the bottleneck"),
    "reduce": Factor(1, flat=True, note="the root's link is the bottleneck"),
    "send_recv": Factor(1, flat=True),
    "hypercube": Factor(1, "n - 1", flat=True),
}


def busbw_factor(collective: str, world_size: int) -> float:
    """busbw over algbw; 0 on one rank, which sends nothing.

    >>> busbw_factor("all_reduce", 4), busbw_factor("all_gather", 4), busbw_factor("broadcast", 4)
    (1.5, 0.75, 1.0)
    """
    check_world_size(world_size)
    factor = _factor(collective)
    return 1.0 if factor.flat else factor.moved * (world_size - 1) / world_size


def total_bytes(collective: str, count_bytes: float, world_size: int) -> float:
    """S from the bytes of one count: of a rank's piece where pieces are gathered or scattered.

    >>> total_bytes("all_gather", 1000, 4), total_bytes("all_reduce", 1000, 4)
    (4000, 1000)
    """
    check_world_size(world_size)
    times = {"1": 1, "n": world_size, "n - 1": world_size - 1}
    check_number("count_bytes", count_bytes)
    return count_bytes * times[_factor(collective).times]


def busbw_gb_per_s(collective: str, num_bytes: float, seconds: float, world_size: int) -> float:
    """Bus bandwidth of S = `num_bytes` moved in `seconds`.

    >>> busbw_gb_per_s("all_reduce", 1e9, 0.1, 4)
    15.0
    """
    return algbw_gb_per_s(check_number("num_bytes", num_bytes), seconds) * busbw_factor(collective, world_size)


def _factor(collective: str) -> Factor:
    try:
        return FACTORS[collective]
    except KeyError:
        raise unknown("collective", collective, FACTORS) from None


@dataclass(frozen=True)
class ReduceOp:
    """`combine` puts two contributions together; `kinds` are numpy's letters of the dtypes it makes sense for.

    AVG adds, and every rank divides once at the very end, so that all divide the same sum.
    """

    name: str
    combine: np.ufunc
    kinds: str
    divides: bool = False

    def check(self, dtype: np.dtype[Any]) -> None:
        """UsageError for a dtype the op makes no sense for."""
        if dtype.kind not in self.kinds:
            hint = "use SUM, or a dtype of floats" if self.divides else "use a dtype of numbers"
            raise UsageError(f"{self.name} of {dtype} is not defined", hint=hint)

    def finish(self, total: NDArray[Any], world_size: int) -> NDArray[Any]:
        """What is done once, when everything has come together."""
        return (total / total.dtype.type(world_size)).astype(total.dtype, copy=False) if self.divides else total


OPS: dict[str, ReduceOp] = {
    each.name: each
    for each in (
        ReduceOp("SUM", np.add, "iufc"),
        ReduceOp("AVG", np.add, "fc", divides=True),
        ReduceOp("MAX", np.maximum, "biuf"),
        ReduceOp("MIN", np.minimum, "biuf"),
        ReduceOp("PRODUCT", np.multiply, "iufc"),
    )
}


def reduce_op(op: Any) -> ReduceOp:
    """The op of that name, in upper or lower case; torch's `ReduceOp.SUM` has its name.

    >>> reduce_op("sum").combine(2, 3)
    np.int64(5)
    """
    name = op if isinstance(op, str) else getattr(op, "name", None)
    if not isinstance(name, str) or name.upper() not in OPS:
        raise unknown("reduce op", op, OPS)
    return OPS[name.upper()]
