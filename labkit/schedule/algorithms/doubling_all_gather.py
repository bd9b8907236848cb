"""All-gather by recursive doubling: partners exchange all they have, so what each has doubles.

In a world that is no power of two, rank 2v first gives its piece to rank 2v + 1 and gets everything from it at the end.

Source of the formulas: the comments in MPICH's recursive doubling all-gather; the folded world counted.
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
            yield make_step(fold.resting, fold.resting + 1, fold.resting, reduce=False, phase="fold")
        for mask in reversed(list(halvings(fold.size))):
            first = place & ~(mask - 1)
            low, high = fold.piece_start(first), fold.piece_start(first + mask)
            yield make_step(fold.acting, fold.acting[place ^ mask], low, high, reduce=False, phase="doubling")
        if fold.extra:
            yield make_step(fold.resting + 1, fold.resting, 0, world_size, reduce=False, phase="unfold")

    return Schedule("doubling-all-gather", "all_gather", world_size, world_size, steps)


def num_steps(world_size: int) -> int:
    fold = Fold(world_size)
    return fold.log + (2 if fold.extra else 0)


def share(rank: int, world_size: int) -> Share:
    fold = Fold(world_size)
    place = fold.place(rank)
    if place < 0:
        return Share("folded", 1, Fraction(1, world_size))
    paired = rank < 2 * fold.extra
    chunks = sum(fold.group_chunks(place, mask) for mask in halvings(fold.size))
    return Share("pair" if paired else "member", fold.log + paired, Fraction(chunks, world_size) + paired)


def path(world_size: int) -> Path:
    fold = Fold(world_size)
    doubles = Fraction(sum(fold.group_chunks(0, mask) for mask in halvings(fold.size)), world_size)
    if not fold.extra:
        return Path(fold.log, doubles)
    return Path(fold.log + 2, doubles + 1 + Fraction(1, world_size))


declare(
    Algorithm(
        name="doubling-all-gather",
        title="Doubling all-gather",
        collective="all_gather",
        teaches=(
            "Partners exchange all they have: one piece next door, two pieces 2 away, four pieces 4 away. The bytes of the "
            "ring, in lg p steps. The last step moves half of everything across the middle of the network."
        ),
        formulas=Formulas("lg p; else ⌊lg p⌋ + 2", "n(p - 1)/p; else up to about 2n", "lg p α + n(p - 1)/p β"),
        build=build,
        steps=num_steps,
        share=share,
        path=path,
    )
)
