"""All-to-all in pairs: in step k every rank sends to the rank k places on and receives from the one k places back.

Source of the formulas: counted; the pairing is the one of MPICH's long-message all-to-all.
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
        build=build,
        steps=lambda world_size: world_size - 1,
        share=lambda rank, world_size: Share("member", world_size - 1, Fraction(world_size - 1, world_size)),
        path=lambda world_size: Path(world_size - 1, Fraction(world_size - 1, world_size)),
    )
)
