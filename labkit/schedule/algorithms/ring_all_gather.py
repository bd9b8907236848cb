"""All-gather round a ring: every rank hands on the piece that came last, until all have come by.

Source of the formulas: gloo, docs/algorithms.md (the second half of its ring); also counted.
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
            yield make_step(rank, (rank + 1) % world_size, (rank - index) % world_size, reduce=False, phase="all-gather")

    return Schedule("ring-all-gather", "all_gather", world_size, world_size, steps)


declare(
    Algorithm(
        name="ring-all-gather",
        title="Ring all-gather",
        collective="all_gather",
        teaches=(
            "Every rank starts with one piece and sends it to its right neighbour; from then on it sends what it got in the "
            "step before. After p - 1 steps every piece has come by everyone. Nothing is added, so this is the half of a "
            "ring all-reduce in which a wrong chunk number gives identical but wrong results."
        ),
        formulas=Formulas("p - 1", "n(p - 1)/p", "(p - 1)α + n(p - 1)/p β"),
        build=build,
        steps=lambda world_size: world_size - 1,
        share=lambda rank, world_size: Share("member", world_size - 1, Fraction(world_size - 1, world_size)),
        path=lambda world_size: Path(world_size - 1, Fraction(world_size - 1, world_size)),
    )
)
