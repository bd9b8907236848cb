"""How calls and lines of calls are compared: the one vocabulary of every rule that speaks of a mismatch.

Serves two needs. Raw and safe mode must come to the same verdict, so both use these functions. And a
branch on the rank is legitimate: other lines of code alone never make a rank suspect; only a line of
calls that is the others' with something left out, put in, or swapped does.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ..wire import Call

UNSIZED = ("all_to_all", "object", "barrier")  # ops whose sizes may differ between ranks
# ops that every rank calls from the same line; where a root has a branch of its own the line says nothing
SAME_LINE = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")
MOST_SKIPPED = 8  # one iteration's worth of calls; more is another program, not a slip
RING_DIMS = 6  # the beacon keeps this many dimensions of a shape

Key = tuple[str, int, str]


def num_elements(call: Call) -> int:
    """Elements of the call's tensor; bytes where the beacon has cut the shape.

    >>> num_elements(Call(1, 1, "all_reduce", shape=(2, 3)))
    6
    """
    return call.num_bytes if len(call.shape) >= RING_DIMS and call.num_bytes else prod(call.shape)


def _op(call: Call) -> Hashable:
    return call.op


def _size(call: Call) -> Hashable:
    return (num_elements(call), call.dtype) if _sized(call) else None


def _shape(call: Call) -> Hashable:
    return (call.shape, call.dtype) if _sized(call) else None


def _root(call: Call) -> Hashable:
    return (call.root, call.reduce_op)


def _sized(call: Call) -> bool:
    return not any(word in call.op for word in UNSIZED)


def parties(column: Mapping[int, Call]) -> tuple[str, list[tuple[int, ...]]]:
    """How the ranks at one number disagree: the aspect ("op", "size", "root" or "") and who sides with whom, most first.

    >>> a, b = Call(1, 1, "all_reduce", shape=(8,)), Call(1, 1, "all_reduce", shape=(4,))
    >>> parties({0: a, 1: a, 2: b})
    ('size', [(0, 1), (2,)])
    """
    refused = any(call.state == "refused" for call in column.values())
    size = _shape if refused else _size  # (2, 3) against (3, 2) is harmless on the wire, but the contract minds
    for aspect, key in (("op", _op), ("size", size), ("root", _root)):
        sides: dict[Hashable, list[int]] = {}
        for rank, call in column.items():
            sides.setdefault(key(call), []).append(rank)
        if len(sides) > 1:
            return aspect, by_majority(sides.values())
    return "", []


def by_majority(sides: Iterable[Iterable[int]]) -> list[tuple[int, ...]]:
    """The sides, the one with most ranks first; among equals the one with the lowest rank.

    >>> by_majority([[3], [0, 1, 2]])
    [(0, 1, 2), (3,)]
    """
    return sorted((tuple(sorted(side)) for side in sides), key=lambda side: (-len(side), side))


def is_tie(sides: Sequence[tuple[int, ...]]) -> bool:
    """Nobody has the majority.

    >>> is_tie([(0,), (1,)]), is_tie([(0, 1), (2,)])
    (True, False)
    """
    return len(sides) > 1 and len(sides[0]) == len(sides[1])


def site_key(call: Call) -> Key | None:
    """Which statement a call comes from, as far as that can be told; None without a call site."""
    return None if call.site is None else (call.site.file, call.site.line, call.op)


@dataclass(frozen=True)
class Shift:
    """What makes one line of calls from another: `kind` "swap", "skip" or "extra", from index `at` on.

    `count` calls were left out or put in; for a swap, `at` and `at + count` changed places.
    """

    kind: str
    at: int
    count: int


def shift(line: Sequence[Key], reference: Sequence[Key], *, line_over: bool, reference_over: bool) -> Shift | None:
    """The one slip that turns `reference` into `line`, or None if there is none or it can't be told yet.

    >>> a, b, c = ("cell 1", 1, "all_reduce"), ("cell 1", 2, "all_reduce"), ("cell 1", 3, "all_reduce")
    >>> shift([a, c], [a, b, c], line_over=True, reference_over=False)
    Shift(kind='skip', at=1, count=1)
    >>> shift([b, a, c], [a, b, c], line_over=True, reference_over=True)
    Shift(kind='swap', at=0, count=1)
    """
    shorter = min(len(line), len(reference))
    at = next((i for i in range(shorter) if line[i] != reference[i]), shorter)
    if at == shorter:
        return None
    if line_over and reference_over and len(line) == len(reference):
        return _swap(line, reference, at)
    skip, extra = _gap("skip", line, reference, at), _gap("extra", reference, line, at)
    if skip and extra:  # in a loop both fit; the one that has ended tells which it was
        if line_over != reference_over:
            return skip if line_over else extra
        return skip if len(line) <= len(reference) else extra
    return skip or extra


def _swap(line: Sequence[Key], reference: Sequence[Key], at: int) -> Shift | None:
    for other in range(at + 1, len(line)):
        if line[other] == reference[at] and line[at] == reference[other]:
            mended = list(line)
            mended[at], mended[other] = line[other], line[at]
            return Shift("swap", at, other - at) if mended == list(reference) else None
    return None


def _gap(kind: str, short: Sequence[Key], long: Sequence[Key], at: int) -> Shift | None:
    for count in range(1, MOST_SKIPPED + 1):
        seen = min(len(short) - at, len(long) - at - count)
        if seen < 1:
            return None
        if list(short[at : at + seen]) == list(long[at + count : at + count + seen]):
            return Shift(kind, at, count)
    return None
