"""Reduce-scatter by recursive halving: partners exchange the half that the other one keeps, then quarters, ...

In a world that is no power of two, rank 2v + 1 acts for rank 2v as well and answers for two pieces.

Source of the formulas: the comments in MPICH's recursive halving reduce-scatter; the folded world counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ..algorithm import Algorithm, Formulas, Path, Share, declare
from ..model import Schedule, Step, make_step
from ._shapes import Fold, halvings, ranks


def build(world_size: int) -> Schedule:
    def steps() -> Iterator[Step]:
        fold = Fold(world_size)
        place = ranks(fold.size)
        if fold.extra:
            yield make_step(fold.resting, fold.resting + 1, 0, world_size, reduce=True, phase="fold")
        for mask in halvings(fold.size):
            first = (place ^ mask) & ~(mask - 1)  # the partner's half
            low, high = fold.piece_start(first), fold.piece_start(first + mask)
            yield make_step(fold.acting, fold.acting[place ^ mask], low, high, reduce=True, phase="halving")
        if fold.extra:
            yield make_step(fold.resting + 1, fold.resting, fold.resting, reduce=False, phase="unfold")

    return Schedule("recursive-halving", "reduce_scatter", world_size, world_size, steps)


def num_steps(world_size: int) -> int:
    fold = Fold(world_size)
    return fold.log + (2 if fold.extra else 0)


def share(rank: int, world_size: int) -> Share:
    fold = Fold(world_size)
    place = fold.place(rank)
    if place < 0:
        return Share("folded", 1, Fraction(1))
    paired = rank < 2 * fold.extra
    chunks = paired + sum(fold.group_chunks(place ^ mask, mask) for mask in halvings(fold.size))
    return Share("pair" if paired else "member", fold.log + paired, Fraction(chunks, world_size))


def path(world_size: int) -> Path:
    fold = Fold(world_size)
    halves = Fraction(sum(fold.group_chunks(0, mask) for mask in halvings(fold.size)), world_size)
    if not fold.extra:
        return Path(fold.log, halves, halves)
    return Path(fold.log + 2, halves + 1 + Fraction(1, world_size), halves + 1)


declare(
    Algorithm(
        name="recursive-halving",
        title="Recursive halving",
        collective="reduce_scatter",
        teaches=(
            "Each rank needs one piece of the sum only, so each exchange can throw half of the rest away: n/2 bytes to a "
            "partner half a world off, then n/4, and so on. The bytes of the ring, in lg p steps."
        ),
        formulas=Formulas("lg p; else ⌊lg p⌋ + 2", "n(p - 1)/p; else the folded ranks n", "lg p α + n(p - 1)/p (β + γ)"),
        build=build,
        steps=num_steps,
        share=share,
        path=path,
    )
)
