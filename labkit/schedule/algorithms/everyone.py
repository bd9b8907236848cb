"""All-reduce by telling everyone: each rank sends its whole tensor to each other rank, and each adds up for itself.

Source of the formulas: counted. In step k every rank sends to the rank k places on, so no port is used twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ..algorithm import Algorithm, Formulas, Path, Share, declare
from ..model import Schedule, Step, make_step
from ._shapes import ranks


def build(world_size: int) -> Schedule:
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
        build=build,
        steps=lambda world_size: world_size - 1,
        share=lambda rank, world_size: Share("member", world_size - 1, Fraction(world_size - 1)),
        path=lambda world_size: Path(world_size - 1, Fraction(world_size - 1), Fraction(world_size - 1)),
        identical=False,
    )
)
