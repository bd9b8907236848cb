"""What a call is for those who compare calls, and the one comparison that all of them use.

The contract in the rank (safe mode), the judge and the world must come to the same answer, so they share these functions.
Two calls of one number in one process group agree if operation, number of elements, dtype, root and reduce op are equal, and
if no two tensors of several dimensions are arranged otherwise. A branch on the rank is legitimate: other lines of code alone
never make a rank suspect. Only a sequence of calls does that is the others' with something left out, put in or swapped, or a
line that every rank must pass by the source.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod

from .wire import Call

UNSIZED = ("all_to_all", "object", "barrier")  # ops whose sizes may differ between ranks
# ops that every rank calls from the same line; where a root has a branch of its own the line says nothing
SAME_LINE = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")
MOST_SKIPPED = 8  # one iteration's worth of calls; more is another program, not a slip
RING_DIMS = 6  # the beacon keeps this many dimensions of a shape

Key = tuple[str, int, str]
Sides = list[tuple[int, ...]]


class Aspect(StrEnum):
    """In what two calls of one number differ, the gravest first."""

    OP = "op"
    SIZE = "size"  # number of elements, or dtype: the messages do not fit
    ROOT = "root"  # or the reduce op
    SHAPE = "shape"  # as many elements, arranged otherwise: the messages fit, and the numbers land in other places
    NONE = ""


def num_elements(call: Call) -> int:
    """Elements of the call's tensor; bytes where the beacon has cut the shape.

    >>> num_elements(Call(1, 1, "all_reduce", shape=(2, 3)))
    6
    """
    return call.num_bytes if len(call.shape) >= RING_DIMS and call.num_bytes else prod(call.shape)


def _sized(call: Call) -> bool:
    return not any(word in call.op for word in UNSIZED)


_KEYS: tuple[tuple[Aspect, Callable[[Call], Hashable]], ...] = (
    (Aspect.OP, lambda call: call.op),
    (Aspect.SIZE, lambda call: (num_elements(call) if _sized(call) else None, call.dtype)),
    (Aspect.ROOT, lambda call: (call.root, call.reduce_op)),
)


def parties(column: Mapping[int, Call]) -> tuple[Aspect, Sides]:
    """How the ranks at one number disagree: the gravest aspect, and who sides with whom, the largest side first.

    >>> a, b = Call(1, 1, "all_reduce", shape=(8,)), Call(1, 1, "all_reduce", shape=(4,))
    >>> parties({0: a, 1: a, 2: b})
    (<Aspect.SIZE: 'size'>, [(0, 1), (2,)])
    """
    calls = column.values()
    if len({(c.op, c.shape, c.dtype, c.num_bytes, c.root, c.reduce_op, c.splits) for c in calls}) == 1:
        return Aspect.NONE, []  # nearly all columns, and all that is compared below follows from these
    for aspect, key in _KEYS:
        sides = sides_by(column, key)
        if len(sides) > 1:
            return aspect, sides
    sides = sides_by(column, _arrangement)
    return (Aspect.SHAPE, sides) if len(sides) > 1 and all(_arrangement(call) for call in column.values()) else (Aspect.NONE, [])


def _arrangement(call: Call) -> Hashable:
    """The shape without dimensions of 1; () for what is flat, since a flat tensor has the order of any shape.

    >>> _arrangement(Call(1, 1, "all_reduce", shape=(1, 2, 3))), _arrangement(Call(1, 1, "all_reduce", shape=(6,)))
    ((2, 3), ())
    """
    shape = tuple(size for size in call.shape[:RING_DIMS] if size != 1)
    return shape if len(shape) > 1 and _sized(call) else ()


def other_lines(column: Mapping[int, Call], same_block: Callable[[Sequence[Call]], bool]) -> Sides:
    """Who calls from which line, if these calls must come from one line and do not; empty if all is well.

    The same op written twice is how two reductions get swapped without an error. `same_block` tells by the source whether
    every rank must pass all of these lines in the same order; a line under an `if` of its own, or an unrolled loop, tells
    nothing.
    """
    calls = list(column.values())
    if not all(call.op.startswith(SAME_LINE) and call.site is not None for call in calls):
        return []
    sides = sides_by(column, site_key)
    return sides if len(sides) > 1 and same_block(calls) else []


def sides_by(column: Mapping[int, Call], key: Callable[[Call], Hashable]) -> Sides:
    """The ranks that share a key, the largest side first."""
    sides: dict[Hashable, list[int]] = {}
    for rank, call in column.items():
        sides.setdefault(key(call), []).append(rank)
    return by_majority(sides.values())


def by_majority(sides: Iterable[Iterable[int]]) -> Sides:
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


def unfit(one: Call, other: Call, rank: int) -> str:
    """Why two ends of a message do not fit, in words; "" if they do. A buffer may be larger than what is sent.

    `one` is the call of `rank`, a send or a recv, and `other` that of its peer.

    >>> send = Call(1, 0, "send", root=1, shape=(4,), dtype="int64", num_bytes=32)
    >>> unfit(send, Call(1, 0, "recv", root=0, shape=(2,), dtype="int64", num_bytes=16), 0)
    'rank 0 sends shape (4,), int64, and rank 1 has room for shape (2,), int64'
    """
    sends = "send" in one.op
    send, recv = (one, other) if sends else (other, one)
    sender, receiver = (rank, one.root) if sends else (one.root, rank)
    if send.dtype == recv.dtype and send.num_bytes <= recv.num_bytes:
        return ""
    sent, room = (f"shape {tuple(call.shape)}, {call.dtype}{f' ({call.site})' if call.site else ''}" for call in (send, recv))
    return f"rank {sender} sends {sent}, and rank {receiver} has room for {room}"
