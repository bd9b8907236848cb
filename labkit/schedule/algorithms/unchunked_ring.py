"""All-reduce by handing whole tensors round a ring, each rank adding every one that passes.

Source of the formulas: counted. It is the ring of many a first attempt, correct but with p / 2 times the bytes.
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
        for _ in range(world_size - 1):
            yield make_step(rank, (rank + 1) % world_size, 0, reduce=True, phase="round the ring", send="handed")

    return Schedule("unchunked-ring", "all_reduce", world_size, 1, steps)


declare(
    Algorithm(
        name="unchunked-ring",
        title="Ring without chunks",
        collective="all_reduce",
        teaches=(
            "Neighbours only, as in the ring, but the whole tensor is handed on: every rank adds each of the p - 1 tensors "
            "that come by. The result is right and the picture is a ring, yet each rank sends (p - 1)n bytes instead of "
            "2n(p - 1)/p. It is not the circle that makes the ring fast, it is the chunks. "
            "Each rank adds in its own order, so floats can differ in the last bit from rank to rank."
        ),
        formulas=Formulas("p - 1", "(p - 1)n", "(p - 1)(α + nβ + nγ)"),
        build=build,
        steps=lambda world_size: world_size - 1,
        share=lambda rank, world_size: Share("member", world_size - 1, Fraction(world_size - 1)),
        path=lambda world_size: Path(world_size - 1, Fraction(world_size - 1), Fraction(world_size - 1)),
        identical=False,
    )
)
