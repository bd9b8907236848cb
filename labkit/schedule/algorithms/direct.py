"""Without a tree or a ring: through one rank, everyone to everyone, and all-to-all in pairs.

`naive`: the root takes every tensor in turn, then gives the result to each in turn. It is one port, so its p - 1
receives and p - 1 sends follow one another.
`everyone`: each rank sends its whole tensor to each other rank, and each adds up for itself.
`pairwise-all-to-all`: the pairing is the one of MPICH's long-message all-to-all.
In step k of the last two every rank sends to the rank k places on, so no port is used twice.

Source of the formulas: counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ..algorithm import ROOT, Algorithm, Formulas, Path, Share, declare
from ..model import Schedule, Step, make_step
from ._trees import ranks


def build_naive(world_size: int, root: int) -> Schedule:
    def steps() -> Iterator[Step]:
        others = [rank for rank in range(world_size) if rank != root]
        for rank in others:
            yield make_step(rank, root, 0, reduce=True, phase="gather")
        for rank in others:
            yield make_step(root, rank, 0, reduce=False, phase="broadcast")

    return Schedule("naive", "all_reduce", world_size, 1, steps, root, {"root": root})


def share(rank: int, world_size: int, root: int) -> Share:
    if rank == root:
        return Share("root", world_size - 1, Fraction(world_size - 1))
    return Share("other", 1, Fraction(1))


def path(world_size: int, root: int) -> Path:
    return Path(2 * (world_size - 1), Fraction(2 * (world_size - 1)), Fraction(world_size - 1))


declare(
    Algorithm(
        name="naive",
        title="Through the root",
        collective="all_reduce",
        teaches=(
            "One rank collects every tensor, adds them up, and sends the sum to everyone. It is right and easy to read, "
            "and it does not scale: all bytes go through one rank, which is busy with p - 1 tensors in and p - 1 tensors out "
            "while the others wait for their turn. Twice as many ranks take twice as long."
        ),
        formulas=Formulas("2(p - 1)", "root (p - 1)n, others n", "2(p - 1)(α + nβ) + (p - 1)nγ"),
        build=build_naive,
        steps=lambda world_size, root: 2 * (world_size - 1),
        share=share,
        path=path,
        params={"root": ROOT},
    )
)


def build_everyone(world_size: int) -> Schedule:
    def steps() -> Iterator[Step]:
        rank = ranks(world_size)
        for distance in range(1, world_size):
            yield make_step(rank, (rank + distance) % world_size, 0, reduce=True, phase="exchange", send="own")

    return Schedule("everyone", "all_reduce", world_size, 1, steps)


declare(
    Algorithm(
        name="everyone",
        title="Everyone tells everyone",
        collective="all_reduce",
        teaches=(
            "Every rank sends its tensor to every other rank and adds what it gets. No rank is a bottleneck and half as many "
            "steps are needed as through a root, but every rank now sends (p - 1)n bytes: all of them do the work that only "
            "the root did. And as each rank adds in its own order, floats can differ in the last bit from rank to rank, "
            "which is how replicas start to drift."
        ),
        formulas=Formulas("p - 1", "(p - 1)n", "(p - 1)(α + nβ + nγ)"),
        build=build_everyone,
        steps=lambda world_size: world_size - 1,
        share=lambda rank, world_size: Share("member", world_size - 1, Fraction(world_size - 1)),
        path=lambda world_size: Path(world_size - 1, Fraction(world_size - 1), Fraction(world_size - 1)),
        identical=False,
    )
)


def build_pairwise_all_to_all(world_size: int) -> Schedule:
    def steps() -> Iterator[Step]:
        rank = ranks(world_size)
        for distance in range(1, world_size):
            to = (rank + distance) % world_size
            yield make_step(rank, to, rank * world_size + to, reduce=False, phase="exchange")

    return Schedule("pairwise-all-to-all", "all_to_all", world_size, world_size * world_size, steps)


declare(
    Algorithm(
        name="pairwise-all-to-all",
        title="Pairwise all-to-all",
        collective="all_to_all",
        teaches=(
            "Every rank has a different block for every other rank: a matrix is transposed across the world. In each of p - 1 "
            "steps everyone sends one block and receives one, from partners that differ from step to step, so no port is "
            "used twice. Nothing can be saved by adding on the way, which makes it the hardest test of a network."
        ),
        formulas=Formulas("p - 1", "n(p - 1)/p", "(p - 1)(α + n/p β)"),
        build=build_pairwise_all_to_all,
        steps=lambda world_size: world_size - 1,
        share=lambda rank, world_size: Share("member", world_size - 1, Fraction(world_size - 1, world_size)),
        path=lambda world_size: Path(world_size - 1, Fraction(world_size - 1, world_size)),
    )
)
