"""Waits in Python that may never end, told by the function or by the line: a lock, a queue, a thread, a child, a key."""

from __future__ import annotations

import re

from ..wire import Evidence, RankView
from .where import place

_BY_FUNCTION = (
    (r"^in get of \w*Queue\b", "Nobody puts anything into that queue any more: look at what fills it, and give get() a timeout"),
    (r"^in put of \w*Queue\b", "The queue is full and nobody takes from it: look at what empties it, and give put() a timeout"),
    (r"^in (wait|communicate) of Popen\b", "The child process does not end: see what it waits for, and give it a timeout"),
    (r"^in join of \w*(Thread|Process)\b", "The thread or process that is joined does not end: look at what it waits for"),
)
_BY_LINE = (
    (
        r"^with .*lock|\.acquire\(",
        "If it waits for a lock: one thread can't take a threading.Lock twice (an RLock it can); see who holds it",
    ),
    (r"store\w*\.(wait|get)\(", "If it waits for a key of a store: compare its name with the key that the other ranks set"),
)


def waits_in_vain(evidence: Evidence, view: RankView) -> str:
    """What to do where a rank waits in Python for what may never come; "" if its line does not look like that.

    >>> from labkit.wire import Frame
    >>> stack = (Frame("cell 1", 2, "<module>"), Frame("/usr/lib/python3.11/queue.py", 171, "Queue.get"))
    >>> waits_in_vain(Evidence(2), RankView(0, stack=stack))
    'Nobody puts anything into that queue any more: look at what fills it, and give get() a timeout'
    """
    where, line = place(view), evidence.source_line(view.line)
    by_function = next((advice for pattern, advice in _BY_FUNCTION if re.search(pattern, where)), "")
    return by_function or next((advice for pattern, advice in _BY_LINE if re.search(pattern, line, re.IGNORECASE)), "")
