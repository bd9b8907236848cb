"""Safe mode for sends and receives: the two ends of a message are compared, and whoever waits for the other end can be told off.

The n-th send from one rank to another with one tag meets the n-th receive of the other. Each end announces itself in the
store. A `send` or `recv` that waits, waits here for the other end and not in gloo, where nothing could end its wait without
breaking the group. `isend` and `irecv` return at once, so they announce themselves and compare only what is there already.

gloo sends nothing before the receiver is there, however small the message is, so a program that would end does so here too.
Messages for a receiver that takes from any rank can't be matched by number: it waits until more were sent to it than it has
taken, and nobody waits for it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ..calls import unfit
from ..diagnosis.words import named
from ..errors import ContractError
from ..wire import Call, dumps, loads
from .context import RankContext
from .meeting import Meeting, Refused
from .refusal import ISSUED, NOT_ISSUED

MOST_OPEN = 4096  # asynchronous ends that may still be waited for


class Pairs:
    """The messages of one rank in one generation; they are counted across requests, as gloo keeps them."""

    def __init__(self, context: RankContext, store: Any, meeting: Meeting) -> None:
        self._context, self._store, self._meeting = context, store, meeting
        self._stem = f"pairs/{context.request_id}"  # counted anew when safe mode is switched on
        self._count: dict[str, int] = {}
        self._sent: dict[str, int] = {}  # to this rank, as far as it has looked
        self._from_any: dict[tuple[str, int], int] = {}
        self._open: dict[int, tuple[str, int, int, str]] = {}

    def __call__(self, call: Call) -> None:
        """Announce one end; where the call waits, wait for the other. Raises Refused, or ContractError if the ends do not fit."""
        if self._context.backend.facts.returns_at_once:
            return
        if call.root < 0:
            self._take_any(call)
            return
        me, peer, sends = self._context.rank, call.root, "send" in call.op
        end = self._end(call, *((me, peer) if sends else (peer, me)))
        anybody = self._anybody(call, peer) if sends else ""
        number = self._count[end] = self._count.get(end, 0) + 1
        mine, theirs = f"{end}/{number}/{me}", f"{end}/{number}/{peer}"
        self._store.set(mine, dumps(call))
        if sends or (call.group, call.tag) not in self._from_any:  # else the numbers of this receiver say nothing
            if call.async_op:
                self._remember(call.index, (end, number, peer, anybody))
            else:
                self._wait(end, mine, theirs, anybody)
        if self._store.check([theirs]):
            self._store.delete_key(f"{end}/{number - 1}/{me}")  # the other end has read it
            self._compare(call, loads(self._store.get(theirs)))

    def before_wait(self, number: int) -> None:
        """The call with this number in the beacon is about to be waited for: wait here first, where it is seen for whom.

        It has been issued, so a refusal does not end it: its connections must be cut.
        """
        if number in self._open:
            end, at, peer, anybody = self._open.pop(number)
            with suppress(Refused):
                self._meeting.wait([f"{end}/{at}/{peer}"], enough=lambda: self._came_by(end, at, peer) or self._is_there(anybody))

    def _came_by(self, end: str, number: int, peer: int) -> bool:
        """The other end is at a later message: it drops what it said of this one once it has seen a later one from here."""
        newest_here = self._count.get(end, 0)
        return any(self._is_there(f"{end}/{later}/{peer}") for later in range(number + 1, newest_here + 1))

    def _wait(self, end: str, mine: str, theirs: str, anybody: str) -> None:
        try:
            self._meeting.wait([theirs], enough=lambda: self._is_there(anybody))
        except BaseException:
            self._count[end] -= 1  # not issued, so the next one has this number
            self._store.delete_key(mine)
            raise

    def _take_any(self, call: Call) -> None:
        """A receive from any rank: there must be a message that no receive before it takes."""
        me, key = self._context.rank, (call.group, call.tag)
        ends = {rank: self._end(call, rank, me) for rank in call.group_ranks if rank != me}
        taken = self._from_any[key] = self._from_any.get(key, 0) + 1
        self._store.set(self._anybody(call, me), "1")
        if not call.async_op:
            nexts = [f"{end}/{self._num_sent(end, rank) + 1}/{rank}" for rank, end in ends.items()]
            try:
                self._meeting.wait(nexts, enough=lambda: self._num_free(ends) >= taken)
            except BaseException:
                self._from_any[key] -= 1
                raise

    def _num_free(self, ends: dict[int, str]) -> int:
        """The messages that were sent to this rank and that no receive of a named rank takes."""
        return sum(max(0, self._num_sent(end, rank) - self._count.get(end, 0)) for rank, end in ends.items())

    def _num_sent(self, end: str, rank: int) -> int:
        """How far the sender has come; what it has announced before this rank's newest named receive may be gone."""
        self._sent[end] = max(self._sent.get(end, 0), self._count.get(end, 0) - 1)
        while self._store.check([f"{end}/{self._sent[end] + 1}/{rank}"]):
            self._sent[end] += 1
        return self._sent[end]

    def _remember(self, index: int, message: tuple[str, int, int, str]) -> None:
        self._open[index] = message
        if len(self._open) > MOST_OPEN:
            del self._open[next(iter(self._open))]

    def _is_there(self, key: str) -> bool:
        return bool(key) and bool(self._store.check([key]))

    def _end(self, call: Call, source: int, target: int) -> str:
        return f"{self._stem}/{call.group}/{source}-{target}/{call.tag}"

    def _anybody(self, call: Call, target: int) -> str:
        return f"{self._stem}/{call.group}/any/{target}/{call.tag}"

    def _compare(self, call: Call, other: Call) -> None:
        text = unfit(call, other, self._context.rank)
        if text:
            hint = ISSUED if other.async_op else NOT_ISSUED
            ranks = (self._context.rank, call.root)
            raise ContractError(f"{named(call)} does not fit its other end: {text}", hint=hint, ranks=ranks)
