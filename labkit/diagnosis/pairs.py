"""Sends and receives, each with its partner: by group, by the two ranks and by tag, in the order in which they were made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..ring import SLOTS
from ..vocabulary import CallState
from ..wire import Call

Lines = Mapping[int, tuple[Call, ...]]
Partners = dict[tuple[int, int], tuple[int, Call]]
"""(rank, a call's index) -> the rank at the other end, and its call."""

OPEN = (CallState.ISSUED, CallState.FAILED, CallState.REFUSED)
_BYTES = {"uint8", "int8"}  # dtypes in which anything may travel
MOST_IN_FLIGHT = 64 << 20  # bytes: a larger message may take its time


def sends(call: Call) -> bool:
    """The call sends, and does not receive."""
    return "send" in call.op


def partners(lines: Lines, cell: int) -> Partners:
    """Who meets whom. Refused calls of earlier cells than `cell` were not issued, and are left out.

    A rank whose beacon has been written over has only its open calls compared: how many came before is not known.
    """
    full = written_over(lines)
    made: Partners = {}
    waiting: dict[tuple[str, int, int], list[tuple[int, Call]]] = {}  # sends by group, receiver and tag
    for rank, line in lines.items():
        for call in line:
            if _counts(call, cell) and sends(call):
                waiting.setdefault((call.group, call.root, call.tag), []).append((rank, call))
    for rank, line in lines.items():
        for call in line:
            if not _counts(call, cell) or sends(call):
                continue
            queue = waiting.get((call.group, rank, call.tag), [])
            able = [one for one in queue if call.root in (one[0], -1) and _fit(one, (rank, call), full)]
            if able:
                first = min(able, key=lambda one: one[1].issued_s) if call.root < 0 else able[0]
                queue.remove(first)
                made[rank, call.index] = first
                made[first[0], first[1].index] = (rank, call)
    return made


def written_over(lines: Lines) -> set[int]:
    """The ranks whose first calls are lost: how many came before those that are left is not known."""
    return {rank for rank, line in lines.items() if len(line) >= SLOTS}


def _counts(call: Call, cell: int) -> bool:
    return call.p2p and not call.algorithm and (call.state != CallState.REFUSED or call.cell >= cell)


def _fit(one: tuple[int, Call], two: tuple[int, Call], full: set[int]) -> bool:
    """Of a rank whose first calls are lost, an open call can't be the partner of one that is done."""
    return not ({one[0], two[0]} & full) or (one[1].state in OPEN) == (two[1].state in OPEN)


def dropped(call: Call, partner: Call) -> bool:
    """A call waits for a message that the other end has handed over and let go: nobody waited for its handle.

    What is handed over moves by itself, so a wait for it is short, unless the message is large.
    """
    return partner.async_op and call.num_bytes < MOST_IN_FLIGHT


def other_end(lines: Lines, made: Partners, rank: int, call: Call) -> Call | None:
    """What the peer has in place of the partner: a call the other way with this rank, in another group or with another tag."""
    for one in lines.get(call.root, ()):
        fits = one.p2p and not one.algorithm and sends(one) != sends(call) and one.root in (rank, -1)
        gone = one.state == CallState.INVALID or (one.state == CallState.REFUSED and one.cell < call.cell)
        if fits and not gone and (call.root, one.index) not in made:
            return one
    return None


@dataclass(frozen=True)
class OddMessage:
    """A message that is received as another number of bytes, or another dtype, than it was sent as."""

    sender: int
    sent: Call
    receiver: int
    received: Call


def odd_message(lines: Lines, made: Partners, cell: int) -> OddMessage | None:
    """The first message since a cell began that does not fit at its other end.

    Messages that have come are counted from a rank's first on, so those of a rank whose first are lost may be others.
    """
    found, full = [], written_over(lines)
    for (rank, index), (peer, sent) in made.items():
        if not sends(sent) or sent.cell < cell:
            continue
        received = next(call for call in lines[rank] if call.index == index)
        if {rank, peer} & full and received.state not in OPEN:
            continue
        other_dtype = sent.dtype != received.dtype and not {sent.dtype, received.dtype} & _BYTES
        if sent.num_bytes != received.num_bytes or other_dtype:
            found.append(OddMessage(peer, sent, rank, received))
    return min(found, key=lambda one: max(one.sent.issued_s, one.received.issued_s), default=None)
