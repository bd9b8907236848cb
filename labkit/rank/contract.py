"""Safe mode: before a collective is issued, its members compare what each is about to do.

Every member writes a fingerprint to the store under (generation, group, request, number in the request) and
reads the others'. A difference becomes a ContractError on every member, at once, and nothing has been
issued: tensors are untouched and the group is still usable. A member that does not come is waited for
until the driver, which sees all ranks, says that it never will (`RankContext.refusal`).

The wait polls with a short sleep instead of blocking in the store, so that an interrupt lands.
"""

from __future__ import annotations

import linecache
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..calls import Aspect, other_lines, parties
from ..diagnosis.source import block
from ..errors import ContractError, join_ranks
from ..makings import is_about_groups, makings_text
from ..wire import Call, dumps, loads
from .context import RankContext


class Contract:
    """Compares calls across the members of a group, through the generation's store."""

    def __init__(self, context: RankContext, store: Any) -> None:
        self._context, self._store = context, store
        self._request_id = -1
        self._count: dict[str, int] = {}
        self._mine: dict[str, list[str]] = {}

    def __call__(self, call: Call, among: tuple[int, ...] = ()) -> None:
        """Raise ContractError if the members of `call`'s group, or the ranks `among`, are not all about to do the same."""
        members = among or call.group_ranks
        if len(members) < 2:
            return
        context = self._context
        if context.request_id != self._request_id:
            self._request_id, self._count = context.request_id, {}
        group = f"{call.group} {among}" if among else call.group
        number = self._count[group] = self._count.get(group, 0) + 1
        stem = f"contract/{group}/{context.request_id}/{number}"
        keys = [f"{stem}/{rank}" for rank in members]
        mine = f"{stem}/{context.rank}"
        self._store.set(mine, fingerprint(call))
        self._wait(keys, call)
        column = {rank: loads(text) for rank, text in zip(members, self._store.multi_get(keys), strict=True)}
        self._tidy(group, mine)
        text = difference(column, _source)
        if text:
            raise ContractError(
                f"the ranks do not agree on {call.op if is_about_groups(call) else call}: {text}",
                hint="nothing was issued; mend the cell and run it again",
                ranks=members,
            )

    def _wait(self, keys: list[str], call: Call) -> None:
        pause_s = 0.0001
        while not self._store.check(keys):
            if self._context.refusal:
                reason, self._context.refusal = self._context.refusal, ""
                raise ContractError(
                    f"{call.op if is_about_groups(call) else call} was refused: {reason}",
                    hint="nothing was issued; mend the cell and run it again",
                )
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 0.005)

    def _tidy(self, group: str, key: str) -> None:
        """Keep the store small: when a group's next call has met, every member has read the one before."""
        kept = self._mine.setdefault(group, [])
        kept.append(key)
        if len(kept) > 2:
            self._store.delete_key(kept.pop(0))


def fingerprint(call: Call) -> str:
    """What the members compare, as JSON: the call without its numbers and times."""
    group, members = (call.group, call.group_ranks) if is_about_groups(call) else ("world", ())
    return dumps(Call(0, call.seq, call.op, group, members, shape=call.shape, dtype=call.dtype, num_bytes=call.num_bytes,
                      reduce_op=call.reduce_op, root=call.root, site=call.site, chain=call.chain, tag=call.tag,
                      splits=call.splits, asked=call.asked))  # fmt: skip


def _source(file: str) -> str:
    """The text of a rank cell, as it was compiled here."""
    return "".join(linecache.getlines(file))


def difference(column: dict[int, Call], source: Callable[[str], str] = lambda file: "") -> str:
    """What differs between the members' calls, in words; "" if nothing that matters does."""
    if any(is_about_groups(call) for call in column.values()):
        return makings_text(column)
    aspect, sides = parties(column)
    if not sides:
        sides = other_lines(column, lambda calls: _must_pass_all(calls, source))
    return "; ".join(_said(side, column[side[0]], aspect) for side in sides)


def _must_pass_all(calls: Sequence[Call], source: Callable[[str], str]) -> bool:
    """Whether the source shows that every rank passes the lines of all these calls, in one order."""
    sites = [call.site for call in calls if call.site is not None]
    if len({site.file for site in sites}) != 1:
        return False
    text = source(sites[0].file)
    around = {block(text, site.line) for site in sites}
    if len(around) != 1 or None in around:
        return False
    return not any(arm.startswith("FunctionDef") for _, arm in around.pop() or ())


def _said(ranks: tuple[int, ...], call: Call, aspect: Aspect) -> str:
    sized = f"{list(call.shape)} {call.dtype}".strip()
    named = [f"root {call.root}"] * (call.root >= 0) + [f"reduce op {call.reduce_op}"] * bool(call.reduce_op)
    what = {
        Aspect.SIZE: f" with shape {sized}",
        Aspect.SHAPE: f" with shape {sized}",
        Aspect.ROOT: f" with {' and '.join(named)}",
    }.get(aspect, "")
    return f"{join_ranks(ranks)}: {call.name}{what}{f' ({call.site})' if call.site else ''}"
