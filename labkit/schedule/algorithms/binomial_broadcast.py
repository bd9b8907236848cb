"""Broadcast down a binomial tree: in each round, everyone who has it gives it to one who has not.

Source of the formulas: counted; the tree is the one of MPICH's short-message broadcast.
"""

from __future__ import annotations

from fractions import Fraction

from ..algorithm import ROOT, Algorithm, Formulas, Path, Share, declare
from ..model import Schedule
from ._shapes import ceil_log2
from ._trees import down, num_children, role


def build(world_size: int, root: int) -> Schedule:
    return Schedule("binomial-broadcast", "broadcast", world_size, 1, lambda: down(world_size, root), root, {"root": root})


def share(rank: int, world_size: int, root: int) -> Share:
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
        build=build,
        steps=lambda world_size, root: ceil_log2(world_size),
        share=share,
        path=lambda world_size, root: Path(ceil_log2(world_size), Fraction(ceil_log2(world_size))),
        params={"root": ROOT},
    )
)
