"""Sends and receives put together: each send with the recv that takes it, in the order in which the two ranks made them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ..callgrid import Message
from ..wire import Call
from .alignment import Lines

Half = tuple[int, int, str, int]  # src, dst, group, tag


def messages(lines: Lines, waited_s: Mapping[int, tuple[Call, float]]) -> list[Message]:
    """All messages, in the order in which they can go; `waited_s` has the call that a rank waits in, and for how long it does.

    A recv from any rank takes what no other recv has taken.

    >>> send, recv = Call(1, 0, "send", root=1), Call(1, 0, "recv", root=0)
    >>> [(each.src, each.dst, each.trouble) for each in messages({0: (send,), 1: (recv,)}, {})]
    [(0, 1, False)]
    """
    sends: dict[Half, deque[Call]] = {}
    recvs: dict[Half, deque[Call]] = {}
    anys: list[Message] = []
    for rank, call in _halves(lines):
        if "send" in call.op:
            sends.setdefault((rank, call.root, call.group, call.tag), deque()).append(call)
        elif call.root < 0:
            anys.append(Message(-1, rank, recv=call))
        else:
            recvs.setdefault((call.root, rank, call.group, call.tag), deque()).append(call)
    found: list[Message] = []
    for half in {**sends, **recvs}:
        gone, come = sends.get(half, deque()), recvs.get(half, deque())
        while gone and come:
            found.append(Message(half[0], half[1], gone.popleft(), come.popleft()))
        found += [_or_any(Message(half[0], half[1], send=call), anys) for call in gone]
        found += [Message(half[0], half[1], recv=call) for call in come]
    return sorted((_judged(each, waited_s) for each in [*found, *anys]), key=_meets)


def _halves(lines: Lines) -> Iterator[tuple[int, Call]]:
    for rank, line in lines.items():
        yield from ((rank, call) for call in line if not call.seq and ("send" in call.op) != ("recv" in call.op))


def _or_any(each: Message, anys: list[Message]) -> Message:
    """The message with a recv from any rank, if there is one left that can take it."""
    for at, other in enumerate(anys):
        if other.dst == each.dst and other.recv and each.send and other.recv.group == each.send.group:
            del anys[at]
            return replace(each, recv=other.recv)
    return each


def _judged(each: Message, waited_s: Mapping[int, tuple[Call, float]]) -> Message:
    """Half a message in which a rank waits is trouble."""
    half = each.send or each.recv
    call, seconds = waited_s.get(each.src if each.send else each.dst, (None, 0.0))
    mine = half is not None and call is not None and call.index == half.index and not (each.send and each.recv)
    return replace(each, trouble=True, waited_s=seconds) if mine else each


def _meets(each: Message) -> float:
    """When the later half came: before that, nothing is sent."""
    return max(call.issued_s for call in (each.send, each.recv) if call is not None)
