"""All-reduce over two binary trees at once, each with half of the tensor, in chunks that follow one another.

Chunk c leaves a rank of depth d upwards in step D - d + c and reaches depth d downwards in step D + d - 1 + c, D being
the depth of the deepest rank: parents get their children's chunks in one step, and sums turn round at the root at once.

Source of the formulas: the trees are NCCL's (see `_btree.py`); bytes and steps counted. With one port, a step takes as
long as the busiest rank's messages in it: an inner rank of one tree (3 messages) that is a leaf of the other (1).
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from ..algorithm import Algorithm, Formulas, Param, Path, Share, declare
from ..model import Schedule, Step, make_step
from ._shapes import ceil_log2
from ._trees import Tree, trees


def num_steps(world_size: int, chunks: int) -> int:
    return 2 * ceil_log2(world_size) + chunks - 1 if world_size > 1 else 0


def build(world_size: int, chunks: int) -> Schedule:
    def steps() -> Iterator[Step]:
        both = trees(world_size)
        for index in range(num_steps(world_size, chunks)):
            parts = [part for half, tree in enumerate(both) for part in _moves(tree, index, chunks, half * chunks)]
            src, dst, chunk, reduce = (np.concatenate(column) for column in zip(*parts, strict=True))
            yield make_step(src, dst, chunk, reduce=reduce, phase=_phase(reduce))

    return Schedule("double-tree", "all_reduce", world_size, 2 * chunks, steps, 0, {"chunks": chunks})


def _moves(tree: Tree, index: int, chunks: int, first_chunk: int) -> list[tuple[np.ndarray, ...]]:
    """Senders, receivers, chunks and kinds of one tree in one step: up, then down."""
    below = np.flatnonzero(tree.parent >= 0).astype(np.int32)
    rising = index - (tree.deepest - tree.depth[below])
    falling = index - (tree.deepest + tree.depth[below] - 1)
    up, down = (below[(chunk >= 0) & (chunk < chunks)] for chunk in (rising, falling))
    return [
        (up, tree.parent[up], first_chunk + index - tree.deepest + tree.depth[up], np.ones(len(up), dtype=np.bool_)),
        (tree.parent[down], down, first_chunk + index - tree.deepest - tree.depth[down] + 1, np.zeros(len(down), dtype=np.bool_)),
    ]


def _phase(reduce: np.ndarray) -> str:
    if reduce.all():
        return "up"
    return "up and down" if reduce.any() else "down"


def share(rank: int, world_size: int, chunks: int) -> Share:
    edges = [int(tree.num_children[rank]) + int(tree.parent[rank] >= 0) for tree in trees(world_size)]
    roles = {0: "alone", 1: "leaf", 2: "inner with one child", 3: "inner"}
    role = " + ".join(roles[count] for count in edges)
    return Share(role, sum(edges) * chunks, Fraction(sum(edges), 2))


def path(world_size: int, chunks: int) -> Path:
    """Steps by classes: ranks with the same depth and number of children in both trees do the same."""
    first, second = trees(world_size)
    if world_size == 1:
        return Path(0, Fraction(0))
    kinds = _kinds(first, second)
    sent, received, reduced = (np.zeros((num_steps(world_size, chunks), kinds.shape[1]), dtype=np.int64) for _ in range(3))
    step = np.arange(num_steps(world_size, chunks))[:, None]
    for depth, children in (kinds[:2], kinds[2:]):

        def active(start: np.ndarray) -> np.ndarray:
            return ((step >= start) & (step < start + chunks)).astype(np.int64)

        up, down = active(first.deepest - depth) * (depth > 0), active(first.deepest + depth - 1) * (depth > 0)
        from_below, to_below = active(first.deepest - depth - 1) * children, active(first.deepest + depth) * children
        sent += up + to_below
        received += down + from_below
        reduced += from_below
    busiest = int(np.maximum(sent, received).max(axis=1).sum())
    return Path(busiest, Fraction(busiest, 2 * chunks), Fraction(int(reduced.max(axis=1).sum()), 2 * chunks))


def _kinds(first: Tree, second: Tree) -> np.ndarray:
    """The different (depth, children, depth, children), as columns."""
    base = first.deepest + 1
    code = ((first.depth * 3 + first.num_children) * base + second.depth) * 3 + second.num_children
    code = np.flatnonzero(np.bincount(code))
    code, last = np.divmod(code, 3)
    code, depth = np.divmod(code, base)
    return np.stack([*np.divmod(code, 3), depth, last])


declare(
    Algorithm(
        name="double-tree",
        title="Double binary tree",
        collective="all_reduce",
        teaches=(
            "In one tree the leaves, half of all ranks, only send one tensor up and get one back, while the inner ranks do "
            "three times as much. So a second tree takes half of the tensor, built so that the leaves of one are the inner "
            "ranks of the other: now everybody sends about 2n, as in the ring, over 2 lg p hops instead of 2(p - 1). "
            "The chunks follow one another through the tree, so that the way up, the way down and all levels work at once."
        ),
        formulas=Formulas(
            "2⌈lg p⌉ + k - 1",
            "up to 2n (inner 1.5n + leaf 0.5n)",
            "about (2 lg p + k - 1)(4α + 2n/k β); as latencies overlap, about 2 lg p α + 2nβ",
        ),
        build=build,
        steps=num_steps,
        share=share,
        path=path,
        params={"chunks": Param(4, "the number of chunks in each tree, k", low=1)},
    )
)
