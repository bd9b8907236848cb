"""The binary tree that alternates leaves and inner nodes, and its twin in which leaf and inner node change places.

The rule is NCCL's (src/graph/trees.cc, ncclGetBtree and ncclGetDtree), found again here by arrays: the lowest
set bit of a place is its height; the parent clears it and sets the next one, or only clears it at the world's edge.
The twin is the mirror image for an even number of ranks and a shift by one for an odd number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ._shapes import ceil_log2, ranks


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
