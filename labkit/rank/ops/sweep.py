"""One point of a sweep: a library collective or a schedule, at one size, a number of rounds."""

from __future__ import annotations

from typing import Any

import torch

from ..channel import P2PChannel
from ..context import RankContext
from ..dispatch import OPS
from ..library import collective, timed
from ..moves import Memory
from ..overlap import runner
from .schedules import load_program


@OPS.register("sweep_point")
def sweep_point(
    context: RankContext,
    *,
    name: str,
    program: str,
    numel: int,
    dtype: str,
    op: str,
    warmups: int,
    rounds: int,
    calls: int,
    members: list[int],
) -> list[list[float]]:
    """When each round began and ended on this rank; a round is `calls` calls, after `warmups` rounds that don't count.

    A rank that is none of the `members` has none.
    """
    if context.rank not in members:
        context.groups.part(tuple(members))  # they can't make their group without this rank
        return []
    channel, kind = P2PChannel(context, members), getattr(torch, dtype)
    if program:
        made = load_program(program)
        run: Any = runner(channel, Memory(made, numel, kind, context.device), made.moves(numel), op)
    else:
        run = collective(channel, name, numel, kind)
    taken = [timed(channel, run, calls) for _ in range(warmups + rounds)]
    return [list(span) for span in taken[warmups:]]
