"""Safe mode: before a collective is issued, its members compare what each is about to do.

Every member writes a fingerprint to the store under (generation, group, request, number in the request) and
reads the others'. A difference becomes a ContractError on every member, at once, and nothing has been
issued: tensors are untouched and the group is still usable. A member that does not come is waited for
until the driver, which sees all ranks, says that it never will (`RankContext.refuse`); it finds a note then that the
others have given up. Sends and receives have two ends and no number: see `pairs.py`.

The wait polls with a short sleep instead of blocking in the store, so that an interrupt lands (`meeting.py`).
"""

from __future__ import annotations

import json
import linecache
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from ..calls import SAME_LINE, Aspect, other_lines, parties, route, sides_by, site_key
from ..diagnosis import words
from ..diagnosis.source import must_differ
from ..errors import ContractError, join_ranks
from ..makings import is_about_groups, makings_text
from ..splits import misfit_text
from ..vocabulary import CallState
from ..wire import Call, CallSite, dumps, loads
from .context import RankContext
from .meeting import Meeting, Refused
from .pairs import Pairs
from .refusal import NOT_ISSUED

TOO_LATE = "others have given up waiting in it:"


@dataclass
class _Request:
    """What happened in one request: how many calls each group had, and what is said again with a later refusal."""

    number: int = -1
    count: dict[str, int] = field(default_factory=dict)
    refused: str = ""  # the first refusal; an error after it may be its consequence
    mixed: str = ""  # the first calls that were matched from different lines


class Contract:
    """Compares calls across the members of a group, through the generation's store."""

    def __init__(self, context: RankContext, store: Any) -> None:
        self._context, self._store = context, store
        self._meeting = Meeting(context, store)
        self._pairs = Pairs(context, store, self._meeting)
        self._request = _Request()
        self._mine: dict[str, list[str]] = {}

    def __call__(self, call: Call, among: tuple[int, ...] = ()) -> None:
        """Raise ContractError if the members of `call`'s group, or the ranks `among`, are not all about to do the same."""
        if len(among or call.group_ranks) < 2:
            return
        if self._context.request_id != self._request.number:
            self._request = _Request(self._context.request_id)
        try:
            if call.p2p:
                self._pairs(call)
            else:
                self._meet(call, among)
        except Refused as refused:
            raise self._error(call, f"{_named(call)} was refused: {refused.reason}", refused.hint) from None

    def before_wait(self, number: int) -> None:
        """An asynchronous send or receive, number `number` in the beacon, is about to be waited for."""
        self._pairs.before_wait(number)

    def _meet(self, call: Call, among: tuple[int, ...]) -> None:
        group, members = (f"{call.group} {among}", among) if among else (call.group, call.group_ranks)
        number = self._request.count[group] = self._request.count.get(group, 0) + 1
        stem = f"contract/{group}/{self._context.request_id}/{number}"
        keys = [f"{stem}/{rank}" for rank in members]
        mine, given_up = f"{stem}/{self._context.rank}", f"{stem}/given up"
        self._store.set(mine, fingerprint(call, CallState.BEGUN))
        late: list[Refused] = []
        try:
            met = self._meeting.wait(keys, goes_on=call.async_op, enough=lambda: self._given_up(given_up, late))
        except BaseException as error:
            told = (error.reason, error.hint) if isinstance(error, Refused) else ("their code was interrupted", "")
            self._store.set(given_up, json.dumps(told))
            self._store.set(mine, fingerprint(call, CallState.REFUSED))  # whoever comes later reads this
            raise
        if late:
            raise late[0]
        self._mine.setdefault(group, []).append(mine)
        if not met:
            self._store.set(mine, fingerprint(call, CallState.ISSUED))
            return
        column = {rank: loads(text) for rank, text in zip(members, self._store.multi_get(keys), strict=True)}
        if any(one.state == CallState.REFUSED for one in column.values()):
            reason, hint = json.loads(self._store.get(given_up))
            raise Refused(f"{TOO_LATE} {reason}", hint)
        self._tidy(group)
        text = difference(column, _source)
        if text:
            raise self._error(call, f"the ranks do not agree on {_named(call)}: {text}", _issued(column))
        self._request.mixed = self._request.mixed or _mixed(call, column)

    def _given_up(self, key: str, late: list[Refused]) -> bool:
        if self._store.check([key]):
            late.append(Refused(*json.loads(self._store.get(key))))
        return bool(late)

    def _error(self, call: Call, what: str, hint: str) -> ContractError:
        """The error, with what happened before it in this request."""
        request = self._request
        before = f" (an error before this one: safe mode refused {request.refused})" if request.refused else ""
        if request.mixed and not request.refused:
            before += f" (before that, {request.mixed})"
        request.refused = request.refused or f"{_named(call)}{f' at {call.site}' if call.site else ''}"
        return ContractError(what + before, hint=hint or NOT_ISSUED, ranks=call.group_ranks)

    def _tidy(self, group: str) -> None:
        """Keep the store small: when a group's next call has met, every member has read the one before."""
        kept = self._mine[group]
        while len(kept) > 2:
            self._store.delete_key(kept.pop(0))


def _named(call: Call) -> str:
    """A call as a sentence has it: the making of a group has no number that a learner knows."""
    return call.op if is_about_groups(call) else words.named(call)


def _issued(column: dict[int, Call]) -> str:
    """What to do where a rank went on without the others, in an asynchronous call; "" if none did."""
    ahead = [rank for rank, call in column.items() if call.state == CallState.ISSUED]
    return f"{join_ranks(ahead)} had issued it, asynchronously: fix the cell; world.recover() forms new groups" if ahead else ""


def _mixed(call: Call, column: dict[int, Call]) -> str:
    """That a call of one kind was matched from different lines, which may be right; "" if it was not."""
    sides = sides_by(column, site_key)
    if len(sides) < 2 or not all(one.op.startswith(SAME_LINE) for one in column.values()):
        return ""
    places = " and ".join(f"{join_ranks(side)} at {route(column[side[0]].path)}" for side in sides)
    return f"{_named(call)} was matched between {places}: if these do not belong together, the results since then are wrong"


def fingerprint(call: Call, state: str = CallState.BEGUN) -> str:
    """What the members compare, as JSON: the call without its times, and with how far it has come."""
    return dumps(replace(call, index=0, cell=0, issued_s=0.0, returned_s=0.0, state=state))


def _source(file: str) -> str:
    """The text of a rank cell, as it was compiled here."""
    return "".join(linecache.getlines(file))


def difference(column: dict[int, Call], source: Callable[[str], str] = lambda file: "") -> str:
    """What differs between the members' calls, in words; "" if nothing that matters does."""
    if any(is_about_groups(call) for call in column.values()):
        return makings_text(column)
    fits = misfit_text(column)
    if fits:
        return f"the splits do not match: {fits}"
    aspect, sides = parties(column)
    if not sides:
        sides = other_lines(column, lambda frames: _must_differ(frames, source))
    return "; ".join(_said(side, column[side[0]], aspect) for side in sides)


def _must_differ(frames: Sequence[CallSite], source: Callable[[str], str]) -> bool:
    """Whether the source shows that every rank passes the lines of all these frames, in one order."""
    lines = sorted({frame.line for frame in frames})
    text = source(frames[0].file)
    return all(must_differ(text, one, two) for one, two in combinations(lines, 2))


def _said(ranks: tuple[int, ...], call: Call, aspect: Aspect) -> str:
    sized = f"{list(call.shape)} {call.dtype}".strip()
    named = [f"root {call.root}"] * (call.root >= 0) + [f"reduce op {call.reduce_op}"] * bool(call.reduce_op)
    what = {
        Aspect.SIZE: f" with shape {sized}",
        Aspect.SHAPE: f" with shape {sized}",
        Aspect.ROOT: f" with {' and '.join(named)}",
    }.get(aspect, "")
    where = route(call.path) if aspect is Aspect.NONE else str(call.site or "")
    return f"{join_ranks(ranks)}: {call.name}{what}{f' ({where})' if where else ''}"
