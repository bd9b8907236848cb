"""Broadcast down a chain in chunks: while a rank passes one chunk on, the next one comes in.

Source of the formulas: counted. The last of k chunks leaves the root in step k and has p - 2 more hops to go.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from ..algorithm import ROOT, Algorithm, Formulas, Param, Path, Share, declare
from ..model import Schedule, Step, make_step


def num_steps(world_size: int, root: int, chunks: int) -> int:
    return world_size - 2 + chunks if world_size > 1 else 0


def build(world_size: int, root: int, chunks: int) -> Schedule:
    def steps() -> Iterator[Step]:
        for index in range(num_steps(world_size, root, chunks)):
            place = np.arange(max(0, index - chunks + 1), min(index, world_size - 2) + 1, dtype=np.int32)
            src, dst = (place + root) % world_size, (place + 1 + root) % world_size
            yield make_step(src, dst, index - place, reduce=False, phase="broadcast")

    return Schedule("chain-broadcast", "broadcast", world_size, chunks, steps, root, {"root": root, "chunks": chunks})


def share(rank: int, world_size: int, root: int, chunks: int) -> Share:
    if (rank - root) % world_size == world_size - 1:
        return Share("end", 0, Fraction(0))
    return Share("root" if rank == root else "link", chunks, Fraction(1))


def path(world_size: int, root: int, chunks: int) -> Path:
    steps = num_steps(world_size, root, chunks)
    return Path(steps, Fraction(steps, chunks))


declare(
    Algorithm(
        name="chain-broadcast",
        title="Chain in chunks",
        collective="broadcast",
        teaches=(
            "The ranks stand in a row and each hands every chunk to the next. With one chunk that is the slowest broadcast "
            "there is; with many, all links work at once and a large tensor arrives in hardly more than the time of one hop. "
            "More chunks fill the pipeline better but cost a latency each: there is a best number in between."
        ),
        formulas=Formulas("p - 2 + k", "n, the last rank 0", "(p - 2 + k)(α + n/k β)"),
        build=build,
        steps=num_steps,
        share=share,
        path=path,
        params={"root": ROOT, "chunks": Param(4, "the number of chunks, k", low=1)},
    )
)
