"""Safe mode: before a collective is issued, its members compare what each is about to do.

Every member writes a fingerprint to the store under (generation, group, request, number in the request) and
reads the others'. A difference becomes a ContractError on every member, at once, and nothing has been
issued: tensors are untouched and the group is still usable. A member that does not come is waited for
until the driver, which sees all ranks, says that it never will (`RankContext.refusal`).

The wait polls with a short sleep instead of blocking in the store, so that an interrupt lands.
"""

from __future__ import annotations

import json
import linecache
import time
from collections.abc import Callable
from typing import Any

from ..diagnosis.source import block
from ..errors import ContractError, join_ranks
from ..wire import Call, CallSite
from .context import RankContext

_LOOKED_AT = ("op", "shape", "dtype", "root", "reduce_op", "site")
_WORDS = {"op": "operation", "reduce_op": "reduce op", "site": "line"}
# members of these give tensors of different size by their nature, or only the root's counts
_SAME_LINE = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")
_SHAPE_FREE = frozenset({"all_to_all", "all_to_all_single", "scatter", "gather", "barrier"})


class Contract:
    """Compares calls across the members of a group, through the generation's store."""

    def __init__(self, context: RankContext, store: Any) -> None:
        self._context, self._store = context, store
        self._turn = -1
        self._count: dict[str, int] = {}
        self._mine: dict[str, list[str]] = {}

    def __call__(self, call: Call) -> None:
        """Raise ContractError if the members of `call`'s group are not all about to do the same."""
        if len(call.group_ranks) < 2:
            return
        context = self._context
        if context.turn != self._turn:
            self._turn, self._count = context.turn, {}
        number = self._count[call.group] = self._count.get(call.group, 0) + 1
        stem = f"contract/{call.group}/{context.turn}/{number}"
        keys = [f"{stem}/{rank}" for rank in call.group_ranks]
        mine = f"{stem}/{context.rank}"
        self._store.set(mine, json.dumps(fingerprint(call)))
        self._wait(keys, call)
        prints = {rank: json.loads(text) for rank, text in zip(call.group_ranks, self._store.multi_get(keys), strict=True)}
        self._tidy(call.group, mine)
        text = difference(prints, _source)
        if text:
            raise ContractError(
                f"the ranks do not agree on {call}: {text}",
                hint="nothing was issued; mend the cell and run it again",
                ranks=call.group_ranks,
            )

    def _wait(self, keys: list[str], call: Call) -> None:
        pause_s = 0.0001
        while not self._store.check(keys):
            if self._context.refusal:
                reason, self._context.refusal = self._context.refusal, ""
                raise ContractError(f"{call} was refused: {reason}", hint="nothing was issued; mend the cell and run it again")
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 0.005)

    def _tidy(self, group: str, key: str) -> None:
        """Keep the store small: when a group's next call has met, every member has read the one before."""
        kept = self._mine.setdefault(group, [])
        kept.append(key)
        if len(kept) > 2:
            self._store.delete_key(kept.pop(0))


def fingerprint(call: Call) -> dict[str, Any]:
    """What must be equal on all members, as plain values."""
    return {
        "op": call.op,
        "shape": [] if call.op in _SHAPE_FREE else list(call.shape),
        "dtype": call.dtype,
        "root": call.root,
        "reduce_op": call.reduce_op,
        "site": [call.site.file, call.site.line] if call.site else [],
    }


def _source(file: str) -> str:
    """The text of a rank cell, as it was compiled here."""
    return "".join(linecache.getlines(file))


def difference(prints: dict[int, dict[str, Any]], source: Callable[[str], str] = lambda file: "") -> str:
    """What differs between members' fingerprints, in words; "" if nothing that matters does.

    The line counts for collectives that every member calls alike, where the source shows that every rank
    must pass both lines in the same order: the same op written twice is how two reductions get swapped
    without an error. A line under an `if` of its own, or an unrolled loop, tells nothing.
    """
    for field in _LOOKED_AT:
        if field == "site" and not _lines_must_agree(list(prints.values()), source):
            continue
        values = {rank: tuple(p[field]) if isinstance(p[field], list) else p[field] for rank, p in prints.items()}
        if len(set(values.values())) > 1:
            return _describe(field, values, prints)
    return ""


def _lines_must_agree(prints: list[dict[str, Any]], source: Callable[[str], str]) -> bool:
    if not all(p["op"].startswith(_SAME_LINE) and p["site"] for p in prints):
        return False
    files = {p["site"][0] for p in prints}
    if len(files) != 1:
        return False
    text = source(files.pop())
    around = {block(text, p["site"][1]) for p in prints}
    if len(around) != 1 or None in around:
        return False
    return not any(arm.startswith("FunctionDef") for _, arm in around.pop() or ())


def _describe(field: str, values: dict[int, Any], prints: dict[int, dict[str, Any]]) -> str:
    sides: dict[Any, list[int]] = {}
    for rank, value in values.items():
        sides.setdefault(value, []).append(rank)
    parts = []
    for value, ranks in sorted(sides.items(), key=lambda side: (-len(side[1]), side[1])):
        site = prints[ranks[0]]["site"]
        place = f" ({CallSite(site[0], site[1])})" if site else ""
        shown = list(value) if isinstance(value, tuple) else value
        op = prints[ranks[0]]["op"]
        what = op if field in ("op", "site") else f"{op} with {_WORDS.get(field, field)} {shown}"
        parts.append(f"{join_ranks(ranks)}: {what}{place}")
    return "; ".join(parts)
