"""A schedule's moves side by side: where each rank is in it, and which rank's moves are not what its program says.

Serves one need: a step is no collective, it has no number that ranks count together, so what the other rules compare is not
there. But every move knows its place in its program. A run of a schedule is judged by its own moves alone; what came before
it on the same ranks is another matter.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..wire import Call, Evidence

if TYPE_CHECKING:
    from .layout import Alignment

LATE_S = 0.5
LATE_TIMES = 4.0


def newest_run(evidence: Evidence, calls: Mapping[int, tuple[Call, ...]]) -> tuple[str, dict[int, tuple[Call, ...]]]:
    """The algorithm that the ranks ran last and their moves of that run; "" and nothing if they did something else since."""
    newest = max((call for line in calls.values() for call in line), key=lambda call: call.issued_s, default=None)
    if newest is None or not newest.turn or newest.cell != evidence.cell:
        return "", {}
    return newest.algorithm, {rank: tuple(c for c in line if c.turn == newest.turn) for rank, line in calls.items()}


@dataclass(frozen=True)
class Slip:
    """A rank left a move out ("skip") or made it twice ("twice")."""

    rank: int
    kind: str
    call: Call


def slip(world: Alignment) -> Slip | None:
    """The first move that a rank began and never issued though it went on, or that it issued again."""
    if not world.algorithm:
        return None
    found = []
    for rank, line in world.calls.items():
        for one, two in itertools.pairwise(line):
            if (one.move, one.op) == (two.move, two.op):  # overlapped, the halves of a move have lines of their own
                found.append(Slip(rank, "twice", two))
            elif one.state == "begun":
                found.append(Slip(rank, "skip", one))
    return min(found, key=lambda each: each.call.issued_s, default=None)


@dataclass(frozen=True)
class OddOps:
    """Moves that add what comes in with different operations: who uses which, the op of most moves first.

    `tie`: the two are used equally often, so that nobody can say which is the odd one.
    """

    sides: tuple[tuple[int, ...], ...]
    moves: tuple[Call, ...]  # the first of each side
    tie: bool


def odd_ops(world: Alignment) -> OddOps | None:
    """Whether the moves of a run combine in one way; a rank that uses several ops is on the side of the rarest."""
    found: dict[str, list[tuple[int, Call]]] = {}
    for rank, line in world.calls.items() if world.algorithm else ():
        for call in line:
            if call.reduce_op:
                found.setdefault(call.reduce_op, []).append((rank, call))
    rarest_first = sorted(found.values(), key=lambda used: (len(used), used[0][0]))
    sides: list[tuple[tuple[int, ...], Call]] = []
    for used in rarest_first:
        placed = {rank for side, _ in sides for rank in side}
        users = {rank for rank, _ in used}
        ranks = tuple(sorted(users - placed))
        if ranks or len(found) == len(sides) + 1:  # where one rank alone combines, it differs from itself
            sides.insert(0, (ranks or tuple(sorted(users)), used[0][1]))
    if len(sides) < 2:
        return None
    return OddOps(tuple(ranks for ranks, _ in sides), tuple(call for _, call in sides), len(set(map(len, found.values()))) == 1)


@dataclass(frozen=True)
class OddSizes:
    """A message whose two ends do not agree: what was sent, the place that was made for it, and whose is the odd size.

    Of a move that sends and receives at once only the receiving half has a line, so not every such message is seen.
    """

    sender: int
    receiver: int
    sent: Call
    place: Call
    ranks: tuple[int, ...]


def odd_sizes(world: Alignment) -> OddSizes | None:
    """The first message whose ends differ in size or dtype; the end whose size no other move of the run has is the odd one."""
    lines = [(rank, call) for rank, line in world.calls.items() if world.algorithm for call in line]
    usual: Counter[object] = Counter(_size(call) for _, call in lines)
    dtypes: Counter[object] = Counter(call.dtype for _, call in lines)
    ends: dict[tuple[int, int, int], list[Call]] = {}
    for rank, call in lines:
        pair = (rank, call.root) if call.op == "send" else (call.root, rank)
        ends.setdefault((call.step, *pair), []).append(call)
    for (_, sender, receiver), calls in sorted(ends.items()):
        sent, places = ([c for c in calls if (c.op == "send") is sends] for sends in (True, False))
        if len(sent) != 1 or len(places) != 1 or _size(sent[0]) == _size(places[0]):
            continue
        by_dtype = sent[0].dtype != places[0].dtype  # that one of them stands alone says more than a size that does
        counts = dtypes if by_dtype else usual
        ends_of = ((sender, sent[0]), (receiver, places[0]))
        alone = tuple(rank for rank, call in ends_of if counts[call.dtype if by_dtype else _size(call)] == 1)
        ranks = alone if len(alone) == 1 else (sender, receiver)
        return OddSizes(sender, receiver, sent[0], places[0], tuple(sorted(ranks)))
    return None


def _size(call: Call) -> tuple[tuple[int, ...], str]:
    return call.shape, call.dtype


@dataclass(frozen=True)
class Late:
    """A rank that did something else for a long time before it made a move."""

    rank: int
    call: Call
    idle_s: float


def late(world: Alignment) -> Late | None:
    """The rank that let all others wait: longest between two moves of its own, and much longer than any other rank."""
    moves = [line for line in world.calls.values() if line]
    if not world.algorithm or any(call.state != "done" for line in moves for call in line):
        return None
    start_s = min((line[0].issued_s for line in moves), default=0.0)
    worst: list[Late] = []
    for rank, line in world.calls.items():
        ends = [start_s, *(call.returned_s for call in line)]
        gaps = [Late(rank, call, call.issued_s - end_s) for call, end_s in zip(line, ends, strict=False)]
        worst += [max(gaps, key=lambda gap: gap.idle_s)] if gaps else []
    worst.sort(key=lambda gap: -gap.idle_s)
    second_s = worst[1].idle_s if len(worst) > 1 else 0.0
    return worst[0] if worst and worst[0].idle_s >= max(LATE_S, LATE_TIMES * second_s) else None
