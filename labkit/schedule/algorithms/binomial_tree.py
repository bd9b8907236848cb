"""All-reduce over a binomial tree: up to the root, adding, and down again, copying.

Source of the formulas: counted; the tree is the one of MPICH's reduce and broadcast.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

from ..algorithm import ROOT, Algorithm, Formulas, Path, Share, declare
from ..model import Schedule
from ._shapes import ceil_log2
from ._trees import down, num_children, role, up


def build(world_size: int, root: int) -> Schedule:
    build_steps = lambda: itertools.chain(up(world_size, root), down(world_size, root))  # noqa: E731
    return Schedule("binomial-tree", "all_reduce", world_size, 1, build_steps, root, {"root": root})


def share(rank: int, world_size: int, root: int) -> Share:
    messages = num_children(rank, world_size, root) + (rank != root)
    return Share(role(rank, world_size, root), messages, Fraction(messages))


def path(world_size: int, root: int) -> Path:
    depth = ceil_log2(world_size)
    return Path(2 * depth, Fraction(2 * depth), Fraction(depth))


declare(
    Algorithm(
        name="binomial-tree",
        title="Binomial tree",
        collective="all_reduce",
        teaches=(
            "Half of the ranks send their tensor to the other half and are done; of those, half again; after lg p rounds one "
            "rank has the sum, and the same tree carries it back. Latency grows with lg p only, so for small tensors it beats "
            "everything that goes step by step round the world. For large ones it is slow: whole tensors travel, and in the "
            "last round up and the first round down one pair works while all others wait."
        ),
        formulas=Formulas("2⌈lg p⌉", "leaf n, root ⌈lg p⌉n", "2⌈lg p⌉(α + nβ) + ⌈lg p⌉nγ"),
        build=build,
        steps=lambda world_size, root: 2 * ceil_log2(world_size),
        share=share,
        path=path,
        params={"root": ROOT},
    )
)
