"""Ranks' numbers side by side: who differs, where, and by how much.

Serves one need: "the loss is wrong" has to become "rank 2 differs in 3 of 8 elements, first at [5], by 0.1".
Ranks are grouped into sides; the largest is taken for the reference, which says who is alone and not who
is right. Works on arrays, and on the samples a TensorTable holds, where "alike" is as good as its digest.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy

from .errors import UsageError, join_ranks
from .wire import TensorSample, TensorTable

Array = numpy.ndarray[Any, Any]


@dataclass(frozen=True)
class Difference:
    """How one rank's values differ from the reference rank's.

    `num_different` of `num_compared` elements differ, the first at `first`, by at most `largest` (infinite
    where one side is NaN or infinite and the other is not). `form` says it if shape or dtype differ already.
    """

    rank: int
    reference: int
    num_different: int = 0
    num_compared: int = 0
    first: tuple[int, ...] = ()
    here: float | None = None
    there: float | None = None
    largest: float = 0.0
    form: str = ""

    def __str__(self) -> str:
        if self.form:
            return f"rank {self.rank} has {self.form}"
        place = f"[{', '.join(map(str, self.first))}]"
        if not self.num_different:
            return f"rank {self.rank} differs, but not in the elements that are shown"
        return (
            f"rank {self.rank} differs from rank {self.reference} in {self.num_different} of {self.num_compared} elements, first "
            f"at {place}: {self.here:g}, not {self.there:g}; by at most {self.largest:g}"
        )


@dataclass(frozen=True)
class Comparison:
    """Ranks by who agrees with whom, the largest side first; `tie` if no side is the largest."""

    sides: tuple[tuple[int, ...], ...]
    differences: tuple[Difference, ...] = ()

    @property
    def agree(self) -> bool:
        return len(self.sides) <= 1

    @property
    def tie(self) -> bool:
        return len(self.sides) > 1 and len(self.sides[0]) == len(self.sides[1])

    @property
    def culprits(self) -> tuple[int, ...]:
        """The ranks outside of the majority; all of them if there is none."""
        ranks = self.sides if self.tie else self.sides[1:]
        return tuple(sorted(rank for side in ranks for rank in side))

    def __str__(self) -> str:
        if self.agree:
            ranks = self.sides[0] if self.sides else ()
            return f"{join_ranks(ranks)} agree{'' if len(ranks) > 1 else 's'}"
        return "; ".join(map(str, self.differences))


def majority(keys: Mapping[int, Hashable]) -> tuple[tuple[int, ...], ...]:
    """Ranks with equal keys together, most first; among equals the side with the lowest rank.

    >>> majority({0: "a", 1: "b", 2: "a"})
    ((0, 2), (1,))
    """
    sides: dict[Hashable, list[int]] = {}
    for rank in sorted(keys):
        sides.setdefault(keys[rank], []).append(rank)
    return _ordered(sides.values())


def _ordered(sides: Iterable[Iterable[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(sorted((tuple(side) for side in sides), key=lambda side: (-len(side), side)))


def compare(values: Mapping[int, Any], *, rtol: float = 0.0, atol: float = 0.0) -> Comparison:
    """Compare arrays by rank, exactly unless a tolerance is given; NaN equals NaN.

    >>> comparison = compare({0: [1.0, 2.0], 1: [1.0, 2.5], 2: [1.0, 2.0]})
    >>> comparison.culprits, str(comparison)
    ((1,), 'rank 1 differs from rank 0 in 1 of 2 elements, first at [1]: 2.5, not 2; by at most 0.5')
    """
    if rtol < 0 or atol < 0:
        raise UsageError("a tolerance can't be negative", hint="give rtol and atol from 0")
    arrays = {rank: numpy.asarray(value) for rank, value in sorted(values.items())}
    for rank, array in arrays.items():
        if array.dtype.kind not in "biufc":
            raise UsageError(
                f"rank {rank} has {array.dtype.name}, not numbers", hint="give arrays or lists of numbers", rank=rank
            )
    sides = _sides(arrays, rtol, atol)
    reference = sides[0][0] if sides else 0
    others = sorted(rank for side in sides[1:] for rank in side)
    return Comparison(sides, tuple(difference(rank, arrays[rank], reference, arrays[reference], rtol, atol) for rank in others))


def _sides(arrays: Mapping[int, Array], rtol: float, atol: float) -> tuple[tuple[int, ...], ...]:
    """Closeness is not transitive, so each side gathers around one rank: the one that most ranks are close to."""
    left = list(arrays)
    sides: list[list[int]] = []
    while left:
        close = {rank: [other for other in left if _alike(arrays[rank], arrays[other], rtol, atol)] for rank in left}
        centre = max(left, key=lambda rank: (len(close[rank]), -rank))
        sides.append([centre, *(rank for rank in close[centre] if rank != centre)])
        left = [rank for rank in left if rank not in close[centre]]
    # the centre of the first side is the reference; a bitwise side has no centre, any of its ranks will do
    ordered = sorted(sides, key=lambda side: (-len(side), min(side)))
    return tuple(tuple(sorted(side)) if not (rtol or atol) else (side[0], *sorted(side[1:])) for side in ordered)


def _alike(one: Array, two: Array, rtol: float, atol: float) -> bool:
    return one.shape == two.shape and one.dtype == two.dtype and not _unequal(one, two, rtol, atol).any()


def _unequal(one: Array, two: Array, rtol: float, atol: float) -> Array:
    same = (one == two) | ((one != one) & (two != two))  # noqa: PLR0124 - NaN is what differs from itself
    if rtol or atol:
        wide_one, wide_two = _wide(one), _wide(two)
        with numpy.errstate(invalid="ignore", over="ignore"):
            near = numpy.abs(wide_one - wide_two) <= atol + rtol * numpy.maximum(numpy.abs(wide_one), numpy.abs(wide_two))
        same |= near & numpy.isfinite(wide_one) & numpy.isfinite(wide_two)
    return numpy.asarray(~same)


def _wide(array: Array) -> Array:
    return array if array.dtype.kind == "c" else array.astype(numpy.float64)


def difference(rank: int, mine: Array, reference: int, theirs: Array, rtol: float = 0.0, atol: float = 0.0) -> Difference:
    """How `mine` differs from the reference."""
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        return Difference(rank, reference, form=_form(mine.shape, mine.dtype.name, theirs.shape, theirs.dtype.name))
    wrong = _unequal(mine, theirs, rtol, atol)
    count = int(wrong.sum())
    if not count:
        return Difference(rank, reference, 0, int(mine.size))
    first = tuple(int(index) for index in numpy.argwhere(wrong)[0])
    here, there = _number(mine[first]), _number(theirs[first])
    return Difference(rank, reference, count, int(mine.size), first, here, there, _largest_gap(mine[wrong], theirs[wrong]))


def _largest_gap(one: Array, two: Array) -> float:
    if one.dtype.kind in "iu":  # as floats, neighbours above 2**53 would be the same
        return float((numpy.maximum(one, two).astype(numpy.uint64) - numpy.minimum(one, two).astype(numpy.uint64)).max())
    with numpy.errstate(invalid="ignore", over="ignore"):
        gaps = numpy.abs(_wide(one) - _wide(two))
    return float(numpy.nan_to_num(gaps, nan=numpy.inf, posinf=numpy.inf).max())


def _number(value: Any) -> float:
    return float(abs(value)) if numpy.iscomplexobj(value) else float(value)


def _form(shape: tuple[int, ...], dtype: str, other_shape: tuple[int, ...], other_dtype: str) -> str:
    parts = [f"shape {shape}, not {other_shape}"] if shape != other_shape else []
    return " and ".join([*parts, *([f"{dtype}, not {other_dtype}"] if dtype != other_dtype else [])])


def compare_samples(table: TensorTable) -> Comparison:
    """Compare a table's tensors: alike if their digests are, and shown elements say where and by how much.

    A difference outside of the elements that were sampled is known of, but not where it is.
    """
    samples = {sample.rank: sample for sample in table.samples}
    sides = majority({rank: (s.shape, s.dtype, s.digest or s.values) for rank, s in samples.items()})
    others = sorted(rank for side in sides[1:] for rank in side)
    return Comparison(sides, tuple(_sampled(samples[rank], samples[sides[0][0]]) for rank in others))


def _sampled(mine: TensorSample, theirs: TensorSample) -> Difference:
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        return Difference(mine.rank, theirs.rank, form=_form(mine.shape, mine.dtype, theirs.shape, theirs.dtype))
    found = difference(mine.rank, numpy.asarray(mine.values), theirs.rank, numpy.asarray(theirs.values))
    if not found.num_different:
        return found
    flat = mine.indices[found.first[0]]
    first = tuple(int(index) for index in numpy.unravel_index(flat, mine.shape)) if mine.shape else ()
    return Difference(
        found.rank, found.reference, found.num_different, found.num_compared, first, found.here, found.there, found.largest
    )
