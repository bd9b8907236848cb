"""The trees that several algorithms share.

The binomial tree: ranks are numbered from the root, place v = (rank - root) mod p. On the way up, in the step with mask m,
each place whose lowest set bit is m sends to v - m and is done; on the way down the same steps run backwards.

The binary tree alternates leaves and inner nodes, and in its twin leaf and inner node change places. The rule is NCCL's
(src/graph/trees.cc, ncclGetBtree and ncclGetDtree), found again here by arrays: the lowest set bit of a place is its
height; the parent clears it and sets the next one, or only clears it at the world's edge. The twin is the mirror image for
an even number of ranks and a shift by one for an odd number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..model import Step, make_step
from ._shapes import ceil_log2, ranks


def up(world_size: int, root: int) -> Iterator[Step]:
    for level in range(ceil_log2(world_size)):
        src, dst = _edge(world_size, root, 1 << level)
        yield make_step(src, dst, 0, reduce=True, phase="reduce")


def down(world_size: int, root: int) -> Iterator[Step]:
    for level in reversed(range(ceil_log2(world_size))):
        dst, src = _edge(world_size, root, 1 << level)
        yield make_step(src, dst, 0, reduce=False, phase="broadcast")


def num_children(rank: int, world_size: int, root: int) -> int:
    """How many places send to this one on the way up."""
    place = (rank - root) % world_size
    limit = (place & -place) if place else world_size
    return sum(1 for level in range(ceil_log2(world_size)) if (1 << level) < limit and place + (1 << level) < world_size)


def role(rank: int, world_size: int, root: int) -> str:
    if rank == root:
        return "root"
    return "inner" if num_children(rank, world_size, root) else "leaf"


def _edge(world_size: int, root: int, mask: int) -> tuple[np.ndarray, np.ndarray]:
    """Child and parent of every edge of one level, as ranks."""
    child = ranks(world_size)[mask :: 2 * mask]
    return (child + root) % world_size, (child - mask + root) % world_size


@dataclass(frozen=True)
class Tree:
    """`parent` (-1 for the root), `depth` and `num_children` of every rank, and the depth of the deepest."""

    parent: NDArray[np.int32]
    depth: NDArray[np.int32]
    num_children: NDArray[np.int32]
    deepest: int


def first_tree(world_size: int) -> Tree:
    """The tree with root 0.

    >>> tree = first_tree(8)
    >>> tree.parent.tolist(), tree.depth.tolist()
    ([-1, 2, 4, 2, 0, 6, 4, 6], [0, 3, 2, 3, 1, 3, 2, 3])
    """
    place = ranks(world_size)
    bit = place & -place
    higher = (place ^ bit) | (bit << 1)
    parent = np.where(higher >= world_size, place ^ bit, higher).astype(np.int32)
    parent[0] = -1
    depth = np.zeros(world_size, dtype=np.int32)
    for level in reversed(range(ceil_log2(world_size))):  # parents are higher, so they are done first
        at = place[1 << level :: 2 << level]
        depth[at] = depth[parent[at]] + 1
    children = np.bincount(parent[1:], minlength=world_size).astype(np.int32)
    return Tree(parent, depth, children, int(depth.max(initial=0)))


def twin(tree: Tree) -> Tree:
    """The second tree: leaves of the first are inner nodes here.

    >>> twin(first_tree(4)).parent.tolist(), twin(first_tree(5)).parent.tolist()
    ([1, 3, 1, -1], [1, -1, 3, 0, 3])
    """
    world_size = len(tree.parent)
    if world_size % 2:
        parent = np.where(tree.parent < 0, -1, (tree.parent + 1) % world_size).astype(np.int32)
        return Tree(np.roll(parent, 1), np.roll(tree.depth, 1), np.roll(tree.num_children, 1), tree.deepest)
    parent = np.where(tree.parent < 0, -1, world_size - 1 - tree.parent).astype(np.int32)
    return Tree(parent[::-1], tree.depth[::-1], tree.num_children[::-1], tree.deepest)


@lru_cache(maxsize=8)
def trees(world_size: int) -> tuple[Tree, Tree]:
    """Both trees of a world."""
    first = first_tree(world_size)
    return first, twin(first)
