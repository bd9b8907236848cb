"""Partners at distances that double or halve: four algorithms of MPICH.

`recursive-doubling` (all-reduce): partners at distance 1, 2, 4, ... exchange whole sums, and both add.
`doubling-all-gather`: partners exchange all they have, so what each has doubles.
`recursive-halving` (reduce-scatter): partners exchange the half that the other one keeps, then quarters, ...
`halving-doubling` (all-reduce, Rabenseifner): partners half a world apart exchange halves and each adds the half it
keeps; then quarters, until each has one finished chunk; then the same steps backwards, copying.

A world that is no power of two is folded first: rank 2v hands what it has to rank 2v + 1, which acts for both and
gives the result back at the end. In a reduce-scatter rank 2v + 1 answers for two pieces.

Source of the formulas: the comments in MPICH's algorithms of these names, power of two and not; also counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ..algorithm import Algorithm, Formulas, Path, Share, declare
from ..model import Schedule, Step, make_step
from ._trees import Fold, halvings, ranks


def build_recursive_doubling(world_size: int) -> Schedule:
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


def num_steps_recursive_doubling(world_size: int) -> int:
    fold = Fold(world_size)
    return fold.log + (2 if fold.extra else 0)


def share_recursive_doubling(rank: int, world_size: int) -> Share:
    fold = Fold(world_size)
    if fold.place(rank) < 0:
        return Share("folded", 1, Fraction(1))
    paired = rank < 2 * fold.extra
    return Share("pair" if paired else "member", fold.log + paired, Fraction(fold.log + paired))


def path_recursive_doubling(world_size: int) -> Path:
    steps = num_steps_recursive_doubling(world_size)
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
        build=build_recursive_doubling,
        steps=num_steps_recursive_doubling,
        share=share_recursive_doubling,
        path=path_recursive_doubling,
    )
)


def build_doubling_all_gather(world_size: int) -> Schedule:
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


def num_steps_doubling_all_gather(world_size: int) -> int:
    fold = Fold(world_size)
    return fold.log + (2 if fold.extra else 0)


def share_doubling_all_gather(rank: int, world_size: int) -> Share:
    fold = Fold(world_size)
    place = fold.place(rank)
    if place < 0:
        return Share("folded", 1, Fraction(1, world_size))
    paired = rank < 2 * fold.extra
    chunks = sum(fold.group_chunks(place, mask) for mask in halvings(fold.size))
    return Share("pair" if paired else "member", fold.log + paired, Fraction(chunks, world_size) + paired)


def path_doubling_all_gather(world_size: int) -> Path:
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
        build=build_doubling_all_gather,
        steps=num_steps_doubling_all_gather,
        share=share_doubling_all_gather,
        path=path_doubling_all_gather,
    )
)


def build_recursive_halving(world_size: int) -> Schedule:
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


def num_steps_recursive_halving(world_size: int) -> int:
    fold = Fold(world_size)
    return fold.log + (2 if fold.extra else 0)


def share_recursive_halving(rank: int, world_size: int) -> Share:
    fold = Fold(world_size)
    place = fold.place(rank)
    if place < 0:
        return Share("folded", 1, Fraction(1))
    paired = rank < 2 * fold.extra
    chunks = paired + sum(fold.group_chunks(place ^ mask, mask) for mask in halvings(fold.size))
    return Share("pair" if paired else "member", fold.log + paired, Fraction(chunks, world_size))


def path_recursive_halving(world_size: int) -> Path:
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
        build=build_recursive_halving,
        steps=num_steps_recursive_halving,
        share=share_recursive_halving,
        path=path_recursive_halving,
    )
)


def build_halving_doubling(world_size: int) -> Schedule:
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


def num_steps_halving_doubling(world_size: int) -> int:
    fold = Fold(world_size)
    return 2 * fold.log + (2 if fold.extra else 0)


def share_halving_doubling(rank: int, world_size: int) -> Share:
    fold = Fold(world_size)
    if fold.place(rank) < 0:
        return Share("folded", 1, Fraction(1))
    paired = rank < 2 * fold.extra
    return Share("pair" if paired else "member", 2 * fold.log + paired, 2 * Fraction(fold.size - 1, fold.size) + paired)


def path_halving_doubling(world_size: int) -> Path:
    fold = Fold(world_size)
    folds = 1 if fold.extra else 0
    halves = Fraction(fold.size - 1, fold.size)
    return Path(num_steps_halving_doubling(world_size), 2 * halves + 2 * folds, halves + folds)


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
        build=build_halving_doubling,
        steps=num_steps_halving_doubling,
        share=share_halving_doubling,
        path=path_halving_doubling,
    )
)
