"""Safe mode for sends and receives: the two ends of a message are compared, and whoever waits for the other end can be told off.

The n-th send from one rank to another with one tag meets the n-th receive of the other. Each end announces itself in the
store. A `send` or `recv` that waits, waits here for the other end and not in gloo, where nothing could end its wait without
breaking the group. `isend` and `irecv` return at once, so they announce themselves and compare only what is there already.

gloo sends nothing before the receiver is there, however small the message is, so a program that would end does so here too.
A receiver that takes from any rank can't be matched by number: then nobody waits here.
"""

from __future__ import annotations

from typing import Any

from ..calls import unfit
from ..diagnosis.words import named
from ..errors import ContractError
from ..wire import Call, dumps, loads
from .context import RankContext
from .meeting import Meeting
from .refusal import ISSUED, NOT_ISSUED


class Pairs:
    """The messages of one rank in one generation; they are counted across requests, as gloo keeps them."""

    def __init__(self, context: RankContext, store: Any, meeting: Meeting) -> None:
        self._context, self._store, self._meeting = context, store, meeting
        self._stem = f"pairs/{context.request_id}"  # counted anew when safe mode is switched on
        self._count: dict[str, int] = {}
        self._from_any: set[tuple[str, int]] = set()

    def __call__(self, call: Call) -> None:
        """Announce one end; where the call waits, wait for the other. Raises Refused, or ContractError if the ends do not fit."""
        if self._context.backend.facts.returns_at_once:
            return
        me, peer, sends = self._context.rank, call.root, "send" in call.op
        source, target = (me, peer) if sends else (peer, me)
        anybody = f"{self._stem}/{call.group}/any/{target}/{call.tag}"
        if peer < 0:
            self._from_any.add((call.group, call.tag))
            self._store.set(anybody, "1")
            return
        end = f"{self._stem}/{call.group}/{source}-{target}/{call.tag}"
        number = self._count[end] = self._count.get(end, 0) + 1
        mine, theirs = f"{end}/{number}/{me}", f"{end}/{number}/{peer}"
        self._store.set(mine, dumps(call))
        open_ended = not sends and (call.group, call.tag) in self._from_any
        if not call.async_op and not open_ended:
            try:
                self._meeting.wait([theirs], enough=lambda: sends and self._store.check([anybody]))
            except BaseException:
                self._count[end] -= 1  # not issued, so the next one has this number
                self._store.delete_key(mine)
                raise
        if self._store.check([theirs]):
            self._store.delete_key(f"{end}/{number - 1}/{me}")  # the other end has read it
            other: Call = loads(self._store.get(theirs))
            if text := unfit(call, other, me):
                hint = ISSUED if other.async_op else NOT_ISSUED
                raise ContractError(f"{named(call)} does not fit its other end: {text}", hint=hint, ranks=(me, peer))
