"""What a call is for those who compare calls, and the one comparison that all of them use.

The contract in the rank (safe mode), the judge and the world must come to the same answer, so they share these functions.
Two calls of one number in one process group agree if operation, number of elements, dtype, root and reduce op are equal, and
if no two tensors of several dimensions are arranged otherwise. A branch on the rank is legitimate: other lines of code alone
never make a rank suspect. Only a sequence of calls does that is the others' with something left out, put in or swapped, or a
line that every rank must pass by the source. Where a call comes from is the whole chain of the learner's frames, not its last
line alone: two calls of one helper are two places.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from math import prod

from .wire import Call, CallSite

UNSIZED = ("all_to_all", "object", "barrier")  # ops whose sizes may differ between ranks
# ops that every rank calls from the same line; where a root has a branch of its own the line says nothing
SAME_LINE = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")
JOINED = ("the Join context", "DDP's join")  # a rank without batches makes them for the calls of those who go on
RING_DIMS = 6  # the beacon keeps this many dimensions of a shape

Key = tuple[Hashable, ...]
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
    (Aspect.ROOT, lambda call: call.root),
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
    sides = sides_by(column, lambda call: call.reduce_op)
    if len({call.reduce_op for call in calls} - {""}) > 1:  # a call from C++, such as DDP's, does not say its op
        return Aspect.ROOT, sides
    sides = sides_by(column, _arrangement)
    return (Aspect.SHAPE, sides) if len(sides) > 1 and all(_arrangement(call) for call in column.values()) else (Aspect.NONE, [])


def _arrangement(call: Call) -> Hashable:
    """The shape without dimensions of 1; () for what is flat, since a flat tensor has the order of any shape.

    >>> _arrangement(Call(1, 1, "all_reduce", shape=(1, 2, 3))), _arrangement(Call(1, 1, "all_reduce", shape=(6,)))
    ((2, 3), ())
    """
    shape = tuple(size for size in call.shape[:RING_DIMS] if size != 1)
    return shape if len(shape) > 1 and _sized(call) else ()


def other_lines(column: Mapping[int, Call], same_pass: Callable[[Sequence[CallSite]], bool]) -> Sides:
    """Who calls from where, if these calls must come from one place and do not; empty if all is well.

    The same op written twice is how two reductions get swapped without an error. `same_pass` is asked with the frames at which
    the chains part, which are of one pass through one function: it tells by the source whether every rank must come through
    all of these lines. An arm of an `if`, or an unrolled loop, tells nothing.
    """
    calls = list(column.values())
    if not all(call.op.startswith(SAME_LINE) and call.path for call in calls):
        return []
    if all(call.part for call in calls) and any(call.part in JOINED for call in calls):
        return []  # at the end of `with Join(...)` on a rank, in the loop on another
    sides = sides_by(column, site_key)
    if len(sides) < 2:
        return []
    frames = parting([call.path for call in calls])
    return sides if frames and same_pass(frames) else []


def parting(paths: Sequence[tuple[CallSite, ...]]) -> tuple[CallSite, ...]:
    """The frames at which chains part, one of each; () if they are not of one pass through one function.

    The frames outside of them are equal. A dispatch (two functions called from one line) is no such place, nor is a function
    whose caller is not known.

    >>> a, b = (CallSite("f", 1, "<module>"), CallSite("f", 7, "g")), (CallSite("f", 2, "<module>"), CallSite("f", 7, "g"))
    >>> [frame.line for frame in parting([a, b])]
    [1, 2]
    """
    for depth, frames in enumerate(zip(*paths, strict=False)):
        if len({place(frame) for frame in frames}) > 1:
            known = depth > 0 or frames[0].function in ("", "<module>")
            one = len({(file_name(frame.file), frame.function) for frame in frames}) == 1 and frames[0].function != "<lambda>"
            return frames if known and one else ()
    return ()


@lru_cache(maxsize=4096)
def file_name(file: str) -> str:
    """A file without its folder, which may have another name on every rank: "seg_utils.py", "cell 7"."""
    return file.replace("\\", "/").rsplit("/", 1)[-1]


def place(site: CallSite) -> tuple[str, int]:
    """A line that is the same on every rank, wherever the file lies there.

    >>> place(CallSite("/tmp/rank-2/seg_utils.py", 5))
    ('seg_utils.py', 5)
    """
    return file_name(site.file), site.line


def route(path: tuple[CallSite, ...]) -> str:
    """The lines of a chain in a row, each file said where it begins.

    >>> route((CallSite("cell 3", 16), CallSite("cell 3", 10), CallSite("/tmp/seg_utils.py", 5)))
    'cell 3, line 16 -> line 10 -> seg_utils.py, line 5'
    """
    path = tuple(site for at, site in enumerate(path) if not at or place(site) != place(path[at - 1]))  # a comprehension
    same = [False, *(one.file == two.file for one, two in itertools.pairwise(path))]
    return " -> ".join(f"line {site.line}" if known else str(site) for site, known in zip(path, same, strict=True))


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
    """Where a call comes from, as far as that can be told: its chain and its op; None without a call site."""
    path = call.path
    return (tuple([place(site) for site in path]), call.op) if path else None


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
