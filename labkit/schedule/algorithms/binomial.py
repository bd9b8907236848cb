"""Binomial trees.

`binomial-tree` (all-reduce) goes up, adding, and down again, copying; `binomial-broadcast` goes down, `binomial-reduce` up.
On the way down everyone who has the tensor gives it to one who has not; on the way up half of those left send what
they have and are done.

Source of the formulas: counted; the trees are those of MPICH's reduce and of its short-message broadcast and reduce.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

from ..algorithm import ROOT, Algorithm, Formulas, Path, Share, declare
from ..model import Schedule
from ._trees import ceil_log2, down, num_children, role, up


def build_binomial_tree(world_size: int, root: int) -> Schedule:
    build_steps = lambda: itertools.chain(up(world_size, root), down(world_size, root))  # noqa: E731
    return Schedule("binomial-tree", "all_reduce", world_size, 1, build_steps, root, {"root": root})


def share_binomial_tree(rank: int, world_size: int, root: int) -> Share:
    messages = num_children(rank, world_size, root) + (rank != root)
    return Share(role(rank, world_size, root), messages, Fraction(messages))


def path_binomial_tree(world_size: int, root: int) -> Path:
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
        build=build_binomial_tree,
        steps=lambda world_size, root: 2 * ceil_log2(world_size),
        share=share_binomial_tree,
        path=path_binomial_tree,
        params={"root": ROOT},
    )
)


def build_binomial_broadcast(world_size: int, root: int) -> Schedule:
    return Schedule("binomial-broadcast", "broadcast", world_size, 1, lambda: down(world_size, root), root, {"root": root})


def share_binomial_broadcast(rank: int, world_size: int, root: int) -> Share:
    messages = num_children(rank, world_size, root)
    return Share(role(rank, world_size, root), messages, Fraction(messages))


declare(
    Algorithm(
        name="binomial-broadcast",
        title="Binomial broadcast",
        collective="broadcast",
        teaches=(
            "The number of ranks that have the tensor doubles in each round, so lg p rounds reach everyone. No broadcast has "
            "fewer steps. But the root sends the whole tensor lg p times, so for large tensors a chain in chunks wins."
        ),
        formulas=Formulas("⌈lg p⌉", "root ⌈lg p⌉n, leaf 0", "⌈lg p⌉(α + nβ)"),
        build=build_binomial_broadcast,
        steps=lambda world_size, root: ceil_log2(world_size),
        share=share_binomial_broadcast,
        path=lambda world_size, root: Path(ceil_log2(world_size), Fraction(ceil_log2(world_size))),
        params={"root": ROOT},
    )
)


def build_binomial_reduce(world_size: int, root: int) -> Schedule:
    return Schedule("binomial-reduce", "reduce", world_size, 1, lambda: up(world_size, root), root, {"root": root})


def share_binomial_reduce(rank: int, world_size: int, root: int) -> Share:
    return Share(role(rank, world_size, root), int(rank != root), Fraction(int(rank != root)))


def path_binomial_reduce(world_size: int, root: int) -> Path:
    depth = ceil_log2(world_size)
    return Path(depth, Fraction(depth), Fraction(depth))


declare(
    Algorithm(
        name="binomial-reduce",
        title="Binomial reduce",
        collective="reduce",
        teaches=(
            "Every rank but the root sends exactly once, as soon as all of its own children have come in. After lg p rounds "
            "the root has the sum. The root receives lg p tensors, not p - 1: the tree shares the adding out."
        ),
        formulas=Formulas("⌈lg p⌉", "n, root 0", "⌈lg p⌉(α + nβ + nγ)"),
        build=build_binomial_reduce,
        steps=lambda world_size, root: ceil_log2(world_size),
        share=share_binomial_reduce,
        path=path_binomial_reduce,
        params={"root": ROOT},
    )
)
