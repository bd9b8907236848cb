"""All-reduce round a ring in p chunks: first each chunk is summed up on its way round, then the sums go round.

In step s rank r sends chunk (r - 1 - s) mod p to rank r + 1. After p - 1 steps rank r holds the whole sum of chunk
r, so the same arithmetic goes on for p - 1 more steps, and only "add" turns into "copy".

Source of the formulas: gloo, docs/algorithms.md (steps and bytes on the wire of its ring); also counted.
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
        right = (rank + 1) % world_size
        for index in range(2 * (world_size - 1)):
            adding = index < world_size - 1
            chunk = (rank - 1 - index) % world_size
            yield make_step(rank, right, chunk, reduce=adding, phase="reduce-scatter" if adding else "all-gather")

    return Schedule("ring", "all_reduce", world_size, world_size, steps)


def path(world_size: int) -> Path:
    round_trip = Fraction(world_size - 1, world_size)
    return Path(2 * (world_size - 1), 2 * round_trip, round_trip)


declare(
    Algorithm(
        name="ring",
        title="Ring",
        collective="all_reduce",
        teaches=(
            "The tensor is cut into p chunks and every rank talks to its two neighbours only. In p - 1 steps each chunk goes "
            "once round and collects every rank's part; in p - 1 more the finished chunks go round and are copied. "
            "Every rank sends 2n(p - 1)/p bytes, less than 2n however many ranks there are, and every link is busy in every "
            "step. The price is latency: 2(p - 1) steps, each of which waits for the slowest neighbour."
        ),
        formulas=Formulas("2(p - 1)", "2n(p - 1)/p", "2(p - 1)α + 2n(p - 1)/p β + n(p - 1)/p γ"),
        build=build,
        steps=lambda world_size: 2 * (world_size - 1),
        share=lambda rank, world_size: Share("member", 2 * (world_size - 1), 2 * Fraction(world_size - 1, world_size)),
        path=path,
    )
)
