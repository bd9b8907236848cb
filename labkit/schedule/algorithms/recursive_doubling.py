"""All-reduce by recursive doubling: partners at distance 1, 2, 4, ... exchange whole sums, and both add.

A world that is no power of two is folded first: rank 2v hands its tensor to rank 2v + 1, which acts for both.

Source of the formulas: the comments in MPICH's recursive doubling all-reduce, power of two and not; also counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ..algorithm import Algorithm, Formulas, Path, Share, declare
from ..model import Schedule, Step, make_step
from ._shapes import Fold, ranks


def build(world_size: int) -> Schedule:
    def steps() -> Iterator[Step]:
        fold = Fold(world_size)
        if fold.extra:
            yield make_step(fold.resting, fold.resting + 1, 0, reduce=True, phase="fold")
        place = ranks(fold.size)
        for level in range(fold.log):
            yield make_step(fold.acting, fold.acting[place ^ (1 << level)], 0, reduce=True, phase="doubling")
        if fold.extra:
            yield make_step(fold.resting + 1, fold.resting, 0, reduce=False, phase="unfold")

    return Schedule("recursive-doubling", "all_reduce", world_size, 1, steps)


def num_steps(world_size: int) -> int:
    fold = Fold(world_size)
    return fold.log + (2 if fold.extra else 0)


def share(rank: int, world_size: int) -> Share:
    fold = Fold(world_size)
    if fold.place(rank) < 0:
        return Share("folded", 1, Fraction(1))
    paired = rank < 2 * fold.extra
    return Share("pair" if paired else "member", fold.log + paired, Fraction(fold.log + paired))


def path(world_size: int) -> Path:
    steps = num_steps(world_size)
    folded = bool(Fold(world_size).extra)
    return Path(steps, Fraction(steps), Fraction(steps - folded))


declare(
    Algorithm(
        name="recursive-doubling",
        title="Recursive doubling",
        collective="all_reduce",
        teaches=(
            "Partners exchange their sums, first next door, then 2 away, then 4: after lg p steps every rank has everything, "
            "without a root and without a second phase. No all-reduce has fewer steps, so it is the choice for tiny tensors. "
            "Each step moves the whole tensor, which is why it loses as soon as bytes matter."
        ),
        formulas=Formulas("lg p; else ⌊lg p⌋ + 2", "n lg p", "lg p (α + nβ + nγ)"),
        build=build,
        steps=num_steps,
        share=share,
        path=path,
    )
)
