"""Reduce up a binomial tree: in each round half of those left send what they have and are done.

Source of the formulas: counted; the tree is the one of MPICH's short-message reduce.
"""

from __future__ import annotations

from fractions import Fraction

from ..algorithm import ROOT, Algorithm, Formulas, Path, Share, declare
from ..model import Schedule
from ._shapes import ceil_log2
from ._trees import role, up


def build(world_size: int, root: int) -> Schedule:
    return Schedule("binomial-reduce", "reduce", world_size, 1, lambda: up(world_size, root), root, {"root": root})


def share(rank: int, world_size: int, root: int) -> Share:
    return Share(role(rank, world_size, root), int(rank != root), Fraction(int(rank != root)))


def path(world_size: int, root: int) -> Path:
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
        build=build,
        steps=lambda world_size, root: ceil_log2(world_size),
        share=share,
        path=path,
        params={"root": ROOT},
    )
)
