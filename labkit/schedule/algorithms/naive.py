"""All-reduce through one rank: it takes every tensor in turn, then gives the result to each in turn.

Source of the formulas: counted. The root is one port, so its p - 1 receives and p - 1 sends follow one another.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ..algorithm import ROOT, Algorithm, Formulas, Path, Share, declare
from ..model import Schedule, Step, make_step


def build(world_size: int, root: int) -> Schedule:
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
        build=build,
        steps=lambda world_size, root: 2 * (world_size - 1),
        share=share,
        path=path,
        params={"root": ROOT},
    )
)
