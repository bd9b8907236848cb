"""The binomial tree, used up (reduce), down (broadcast), and up and down (all-reduce).

Ranks are numbered from the root: place v = (rank - root) mod p. On the way up, in the step with mask m, each place
whose lowest set bit is m sends to v - m and is done; on the way down the same steps run backwards.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

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
