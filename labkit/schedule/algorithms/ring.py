"""Rings: the all-reduce in chunks, its two halves, and one that hands on whole tensors.

`ring` is an all-reduce in p chunks: first each chunk is summed up on its way round, then the sums go round.
In step s rank r sends chunk (r - 1 - s) mod p to rank r + 1. After p - 1 steps rank r holds the whole sum of chunk
r, so the same arithmetic goes on for p - 1 more steps, and only "add" turns into "copy".
`ring-reduce-scatter`: chunk r goes once round, collects every rank's part, and ends on rank r.
`ring-all-gather`: every rank hands on the piece that came last, until all have come by.
`unchunked-ring`: each rank adds every whole tensor that passes. It is the ring of many a first attempt, correct but
with p / 2 times the bytes.

Source of the formulas: gloo, docs/algorithms.md (steps and bytes on the wire of its ring); also counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ..algorithm import Algorithm, Formulas, Path, Share, declare
from ..model import Schedule, Step, make_step
from ._trees import ranks


def build_ring(world_size: int) -> Schedule:
    def steps() -> Iterator[Step]:
        rank = ranks(world_size)
        right = (rank + 1) % world_size
        for index in range(2 * (world_size - 1)):
            adding = index < world_size - 1
            chunk = (rank - 1 - index) % world_size
            yield make_step(rank, right, chunk, reduce=adding, phase="reduce-scatter" if adding else "all-gather")

    return Schedule("ring", "all_reduce", world_size, world_size, steps)


def path_ring(world_size: int) -> Path:
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
        build=build_ring,
        steps=lambda world_size: 2 * (world_size - 1),
        share=lambda rank, world_size: Share("member", 2 * (world_size - 1), 2 * Fraction(world_size - 1, world_size)),
        path=path_ring,
    )
)


def build_ring_reduce_scatter(world_size: int) -> Schedule:
    def steps() -> Iterator[Step]:
        rank = ranks(world_size)
        for index in range(world_size - 1):
            chunk = (rank - index - 1) % world_size
            yield make_step(rank, (rank + 1) % world_size, chunk, reduce=True, phase="reduce-scatter")

    return Schedule("ring-reduce-scatter", "reduce_scatter", world_size, world_size, steps)


def path_ring_reduce_scatter(world_size: int) -> Path:
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
        build=build_ring_reduce_scatter,
        steps=lambda world_size: world_size - 1,
        share=lambda rank, world_size: Share("member", world_size - 1, Fraction(world_size - 1, world_size)),
        path=path_ring_reduce_scatter,
    )
)


def build_ring_all_gather(world_size: int) -> Schedule:
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
        build=build_ring_all_gather,
        steps=lambda world_size: world_size - 1,
        share=lambda rank, world_size: Share("member", world_size - 1, Fraction(world_size - 1, world_size)),
        path=lambda world_size: Path(world_size - 1, Fraction(world_size - 1, world_size)),
    )
)


def build_unchunked_ring(world_size: int) -> Schedule:
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
        build=build_unchunked_ring,
        steps=lambda world_size: world_size - 1,
        share=lambda rank, world_size: Share("member", world_size - 1, Fraction(world_size - 1)),
        path=lambda world_size: Path(world_size - 1, Fraction(world_size - 1), Fraction(world_size - 1)),
        identical=False,
    )
)
