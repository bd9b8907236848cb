"""A schedule's moves side by side: where each rank is in it, and which rank's moves are not what its program says.

A move has no number that ranks count together, so moves cannot be compared like collectives. But every move knows its place in
its program. A run of a schedule is judged by its own moves alone, not by what came before it on the same ranks.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..vocabulary import CallState
from ..wire import Call, Evidence

Lines = Mapping[int, tuple[Call, ...]]
"""Each rank's moves of one run, in their order."""


def newest_run(evidence: Evidence, calls: Lines) -> tuple[str, dict[int, tuple[Call, ...]]]:
    """The algorithm that the ranks ran last and their moves of that run; "" and nothing if they did something else since."""
    newest = max((call for line in calls.values() for call in line), key=lambda call: call.issued_s, default=None)
    if newest is None or not newest.request_id or newest.cell != evidence.cell:
        return "", {}
    return newest.algorithm, {rank: tuple(c for c in line if c.request_id == newest.request_id) for rank, line in calls.items()}


@dataclass(frozen=True)
class Slip:
    """A rank left a move out ("skip") or made it twice ("twice")."""

    rank: int
    kind: str
    call: Call


def slip(lines: Lines) -> Slip | None:
    """The first move that a rank began and never issued though it went on, or that it issued again."""
    found = []
    for rank, line in lines.items():
        for one, two in itertools.pairwise(line):
            if (one.move, one.op) == (two.move, two.op):  # overlapped, the halves of a move have lines of their own
                found.append(Slip(rank, "twice", two))
            elif one.state == CallState.BEGUN:
                found.append(Slip(rank, "skip", one))
    return min(found, key=lambda each: each.call.issued_s, default=None)


@dataclass(frozen=True)
class Altered:
    """A move that was not issued as its program has it: in "size" (elements or dtype), or in its reduce "op" alone.

    The rank's own line says both, so nothing has to be told from what other moves look like.
    """

    rank: int
    kind: str
    call: Call
    planned: Call

    @property
    def peer(self) -> int:
        """Who is at the other end."""
        return self.call.root


def altered(lines: Lines) -> Altered | None:
    """The first move of the run that differs from its program."""
    found = [(rank, call) for rank, line in lines.items() for call in line if call.planned]
    if not found:
        return None
    rank, call = min(found, key=lambda each: each[1].issued_s)
    size, dtype, op = (*call.planned.split(" "), "")[:3]
    planned = replace(call, shape=(int(size),), dtype=dtype, reduce_op=op, planned="")
    return Altered(rank, "op" if (planned.shape, dtype) == (call.shape, call.dtype) else "size", call, planned)
