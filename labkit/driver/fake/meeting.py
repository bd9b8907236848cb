"""Collectives: who meets whom, and what comes of it.

A collective has no name on the wire: the n-th call of one rank meets the n-th call of every other member.
If they are the same operation it is done; if operations or roots differ everybody waits for good; if
sizes differ a process is ended, as gloo does it; if only the reduce op differs the numbers are wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy

from ...schedule.cost import Link
from ...wire import Call
from .messages import ABORTED, CLOSED, LINK, Messages
from .tensors import REDUCE

if TYPE_CHECKING:
    from .rank import FakeRank

SIZED = ("all_reduce", "reduce", "broadcast", "all_gather", "all_gather_into_tensor", "reduce_scatter_tensor", "send", "recv")


@dataclass
class Arrival:
    """A rank's call, and whether it is through; the Work that an asynchronous caller gets."""

    rank: FakeRank
    place: int  # in `rank.calls`
    args: dict[str, Any]
    done: bool = False

    @property
    def call(self) -> Call:
        return self.rank.calls[self.place]

    def wait(self, timeout: Any = None) -> bool:
        self.rank.wait_in(self)
        return True

    def is_completed(self) -> bool:
        return self.done

    def is_success(self) -> bool:
        return self.done

    def exception(self) -> None:
        return None


class Meetings:
    """All calls under way of one generation."""

    def __init__(self, ranks: Sequence[FakeRank], link: Link = LINK) -> None:
        self._ranks = ranks
        self.messages = Messages(ranks, link)
        self._columns: dict[tuple[str, int], dict[int, Arrival]] = {}
        self._posted: list[Arrival] = []
        self._agreed: dict[tuple[str, int, int], dict[int, Call]] = {}

    def arrive(self, arrival: Arrival) -> None:
        """A rank is in a call; with the last member's coming it is done, or goes wrong."""
        call = arrival.call
        if call.p2p:
            self._posted.append(arrival)
            self._pair(arrival)
            return
        column = self._columns.setdefault((call.group, call.seq), {})
        column[call.group_ranks.index(arrival.rank.rank)] = arrival
        if len(column) == len(call.group_ranks):
            self._meet([column[place] for place in sorted(column)])
        else:
            self._hang_up(arrival)

    def agree(self, request: int, number: int, rank: int, call: Call) -> dict[int, Call]:
        """Safe mode: what the members are about to do as their how-manieth call of a request; grows as they come."""
        column = self._agreed.setdefault((call.group, request, number), {})
        column[rank] = call
        return column

    def _meet(self, column: list[Arrival]) -> None:
        calls = [arrival.call for arrival in column]
        if len({call.op for call in calls}) > 1:
            return
        sizes = [call.num_bytes for call in calls]
        if calls[0].op in SIZED and len(set(sizes)) > 1:
            # on a ring each receives from the next one, and gloo ends who gets more than it made room for
            for place, arrival in enumerate(column):
                if sizes[(place + 1) % len(sizes)] > sizes[place]:
                    arrival.rank.die(ABORTED)
            return
        if len({call.root for call in calls}) > 1:
            return
        _TRANSFERS.get(calls[0].op, _nothing)(column)
        for arrival in column:
            arrival.rank.through(arrival)

    def _pair(self, arrival: Arrival) -> None:
        mine = arrival.call
        for other in self._posted:
            call = other.call
            if call.op == mine.op or other.rank.rank != mine.root or call.root != arrival.rank.rank or call.group != mine.group:
                continue
            sender, receiver = (arrival, other) if mine.op == "send" else (other, arrival)
            _fill(receiver.args["tensor"], sender.args["tensor"])
            for each in (arrival, other):
                self._posted.remove(each)
                each.rank.through(each)
            return

    # ---- connections
    def lost(self, rank: int) -> None:
        """A process has ended: those who talk to it in what they wait for see their connection close."""
        for column in self._columns.values():
            for arrival in list(column.values()):
                if not arrival.done:
                    self._hang_up(arrival)
        self.messages.lost(rank)
        for arrival in list(self._posted):
            if arrival.call.root == rank:
                arrival.rank.throw(RuntimeError(CLOSED))

    def _hang_up(self, arrival: Arrival) -> None:
        members = arrival.call.group_ranks
        at = members.index(arrival.rank.rank)
        beside = {members[(at + step) % len(members)] for step in (-1, 1)}
        if any(self._ranks[other].exit_code is not None for other in beside):
            arrival.rank.throw(RuntimeError(CLOSED))


# ---- what a collective does to the members' tensors
def _fill(target: Any, source: Any) -> None:
    count = min(target.size, source.size)
    target.reshape(-1)[:count] = source.reshape(-1)[:count].astype(target.dtype)


def _sums(column: list[Arrival], inputs: list[Any]) -> Any:
    """The reduction as a ring makes it: each rank combines its pieces with the operation that it was told."""
    ranks = len(column)
    pieces = [numpy.array_split(numpy.array(array).reshape(-1), ranks) for array in inputs]
    total = []
    for piece in range(ranks):
        value = pieces[piece][piece]
        for step in range(1, ranks):
            place = (piece + step) % ranks
            value = REDUCE[column[place].call.reduce_op.upper()](value, pieces[place][piece])
        total.append(value)
    result = numpy.concatenate(total)
    if column[0].call.reduce_op == "avg":
        result = result / ranks
    return result.reshape(inputs[0].shape)


def _all_reduce(column: list[Arrival]) -> None:
    result = _sums(column, [arrival.args["tensor"] for arrival in column])
    for arrival in column:
        arrival.args["tensor"][...] = result


def _reduce(column: list[Arrival]) -> None:
    root = column[0].call.group_ranks.index(column[0].call.root)
    column[root].args["tensor"][...] = _sums(column, [arrival.args["tensor"] for arrival in column])


def _broadcast(column: list[Arrival]) -> None:
    source = numpy.array(column[column[0].call.group_ranks.index(column[0].call.root)].args["tensor"])
    for arrival in column:
        arrival.args["tensor"][...] = source


def _all_gather(column: list[Arrival]) -> None:
    for arrival in column:
        for target, other in zip(arrival.args["tensor_list"], column, strict=True):
            target[...] = other.args["tensor"]


def _all_gather_into(column: list[Arrival]) -> None:
    whole = numpy.concatenate([numpy.asarray(other.args["input_tensor"]).reshape(-1) for other in column])
    for arrival in column:
        _fill(arrival.args["output_tensor"], whole)


def _reduce_scatter(column: list[Arrival]) -> None:
    total = _sums(column, [numpy.asarray(arrival.args["input"]).reshape(-1) for arrival in column])
    for arrival, piece in zip(column, numpy.array_split(total, len(column)), strict=True):
        _fill(arrival.args["output"], piece)


def _gather(column: list[Arrival]) -> None:
    root = column[column[0].call.group_ranks.index(column[0].call.root)]
    for target, other in zip(root.args["gather_list"], column, strict=True):
        target[...] = other.args["tensor"]


def _scatter(column: list[Arrival]) -> None:
    root = column[column[0].call.group_ranks.index(column[0].call.root)]
    for arrival, source in zip(column, root.args["scatter_list"], strict=True):
        arrival.args["tensor"][...] = source


def _nothing(column: list[Arrival]) -> None:
    pass


_TRANSFERS: dict[str, Callable[[list[Arrival]], None]] = {
    "all_reduce": _all_reduce, "reduce": _reduce, "broadcast": _broadcast, "all_gather": _all_gather,
    "all_gather_into_tensor": _all_gather_into, "reduce_scatter_tensor": _reduce_scatter,
    "gather": _gather, "scatter": _scatter,
}  # fmt: skip
