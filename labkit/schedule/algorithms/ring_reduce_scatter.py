"""Reduce-scatter round a ring: chunk r goes once round, collects every rank's part, and ends on rank r.

Source of the formulas: gloo, docs/algorithms.md (the first half of its ring); also counted.
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
        for index in range(world_size - 1):
            chunk = (rank - index - 1) % world_size
            yield make_step(rank, (rank + 1) % world_size, chunk, reduce=True, phase="reduce-scatter")

    return Schedule("ring-reduce-scatter", "reduce_scatter", world_size, world_size, steps)


def path(world_size: int) -> Path:
    return Path(world_size - 1, Fraction(world_size - 1, world_size), Fraction(world_size - 1, world_size))


declare(
    Algorithm(
        name="ring-reduce-scatter",
        title="Ring reduce-scatter",
        collective="reduce_scatter",
        teaches=(
            "Chunk r starts on rank r + 1 and goes once round the ring; every rank on the way adds its part, and rank r is "
            "the last. Half of a ring all-reduce, and by itself what sharded optimizers need: each rank gets the sum of the "
            "part it looks after."
        ),
        formulas=Formulas("p - 1", "n(p - 1)/p", "(p - 1)α + n(p - 1)/p (β + γ)"),
        build=build,
        steps=lambda world_size: world_size - 1,
        share=lambda rank, world_size: Share("member", world_size - 1, Fraction(world_size - 1, world_size)),
        path=path,
    )
)
