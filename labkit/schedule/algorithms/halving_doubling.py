"""All-reduce by recursive halving, then recursive doubling (Rabenseifner).

Partners half a world apart exchange halves and each adds the half it keeps; then quarters, and so on, until each
has one finished chunk; then the same steps backwards, copying. Other worlds than powers of two are folded first.

Source of the formulas: the comments in MPICH's Rabenseifner all-reduce, power of two and not; also counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ..algorithm import Algorithm, Formulas, Path, Share, declare
from ..model import Schedule, Step, make_step
from ._shapes import Fold, halvings, ranks


def build(world_size: int) -> Schedule:
    fold = Fold(world_size)

    def steps() -> Iterator[Step]:
        place = ranks(fold.size)
        if fold.extra:
            yield make_step(fold.resting, fold.resting + 1, 0, fold.size, reduce=True, phase="fold")
        for mask in halvings(fold.size):
            low = (place ^ mask) & ~(mask - 1)  # the partner's half
            yield make_step(fold.acting, fold.acting[place ^ mask], low, low + mask, reduce=True, phase="halving")
        for mask in reversed(list(halvings(fold.size))):
            low = place & ~(mask - 1)  # what is whole here by now
            yield make_step(fold.acting, fold.acting[place ^ mask], low, low + mask, reduce=False, phase="doubling")
        if fold.extra:
            yield make_step(fold.resting + 1, fold.resting, 0, fold.size, reduce=False, phase="unfold")

    return Schedule("halving-doubling", "all_reduce", world_size, fold.size, steps)


def num_steps(world_size: int) -> int:
    fold = Fold(world_size)
    return 2 * fold.log + (2 if fold.extra else 0)


def share(rank: int, world_size: int) -> Share:
    fold = Fold(world_size)
    if fold.place(rank) < 0:
        return Share("folded", 1, Fraction(1))
    paired = rank < 2 * fold.extra
    return Share("pair" if paired else "member", 2 * fold.log + paired, 2 * Fraction(fold.size - 1, fold.size) + paired)


def path(world_size: int) -> Path:
    fold = Fold(world_size)
    folds = 1 if fold.extra else 0
    halves = Fraction(fold.size - 1, fold.size)
    return Path(num_steps(world_size), 2 * halves + 2 * folds, halves + folds)


declare(
    Algorithm(
        name="halving-doubling",
        title="Halving and doubling",
        collective="all_reduce",
        teaches=(
            "The bytes of the ring in the steps of a tree: partners exchange halves, then quarters, then eighths, each adding "
            "the part it keeps, and then hand the finished parts back the same way. By the alpha-beta price it is never worse "
            "than the ring on 2, 4, 8, ... ranks. Yet the ring is what libraries use for large tensors, because here half of "
            "the tensor crosses the middle of the network at once, and the price knows nothing of congestion."
        ),
        formulas=Formulas(
            "2 lg p; else 2⌊lg p⌋ + 2",
            "2n(p - 1)/p; else up to n more, with p rounded down to a power of two",
            "2 lg p α + 2n(p - 1)/p β + n(p - 1)/p γ; else 2α + 2nβ + nγ more",
        ),
        build=build,
        steps=num_steps,
        share=share,
        path=path,
    )
)
