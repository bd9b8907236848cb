"""Small pieces of text that the views share: names of ranks, folding, capping, cleaning, tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import TypeVar

from ..errors import count, join_ranks

__all__ = ["INDENT", "LIMIT", "cap", "clean", "columns", "count", "fold", "indent", "label", "one_line", "sentence"]

LIMIT = 20_000  # characters of one rank's output; more makes a notebook slow to open
INDENT = "  "

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def label(ranks: Collection[int], everyone: Collection[int]) -> str:
    """Ranks by name, "all 4 ranks" if they are the whole world.

    `everyone` is the ranks that were asked. If they are not 0, 1, 2, ... they are only a part of the
    world, and "all" would be untrue.

    >>> label([0, 1], [0, 1]), label([0, 1], [0, 1, 2]), label([0], [0]), label([0, 2], [0, 2])
    ('all 2 ranks', 'ranks 0 and 1', 'rank 0', 'ranks 0 and 2')
    """
    whole = set(everyone) == set(range(len(everyone)))
    if len(ranks) > 1 and set(ranks) == set(everyone) and whole:
        return f"all {len(ranks)} ranks"
    return join_ranks(list(ranks))


def fold(items: Iterable[tuple[int, T]], key: Callable[[T], K]) -> list[tuple[tuple[int, ...], T]]:
    """Put ranks with the same key together, groups in the order of their lowest rank.

    >>> fold([(2, "b"), (0, "a"), (1, "a")], key=str)
    [((0, 1), 'a'), ((2,), 'b')]
    """
    groups: dict[K, tuple[list[int], T]] = {}
    for rank, item in sorted(items, key=lambda pair: pair[0]):
        groups.setdefault(key(item), ([], item))[0].append(rank)
    return [(tuple(ranks), item) for ranks, item in groups.values()]


def clean(text: str) -> str:
    """Text as a terminal would have left it: no colour codes, and a progress bar only in its last state.

    >>> clean("10%\\r50%\\r100%\\n")
    '100%\\n'
    """
    text = _ANSI.sub("", text).replace("\r\n", "\n")
    if "\r" in text:
        # A later, shorter piece overwrites only the start of what was there before it.
        text = "\n".join(_overwritten(line) for line in text.split("\n"))
    return _CONTROL.sub("\ufffd", text)


def _overwritten(line: str) -> str:
    shown = ""
    for piece in line.split("\r"):
        shown = piece + shown[len(piece) :]
    return shown


def cap(text: str, already_cut: int = 0, limit: int = LIMIT, rest: str = "") -> str:
    """The first `limit` characters, and how many more there are.

    >>> cap("abcdef", limit=2, rest="; world.pull gets the rest")
    'ab\\n... 4 more characters; world.pull gets the rest'
    """
    more = max(len(text) - limit, 0) + already_cut
    return f"{text[:limit]}\n... {count(more, 'more character')}{rest}" if more else text


def one_line(text: str, limit: int = 200) -> str:
    """The first line that says something, shortened if need be."""
    first = next((line.strip() for line in clean(text).splitlines() if line.strip()), "")
    return first if len(first) <= limit else first[: limit - 3] + "..."


def indent(text: str, by: str = INDENT) -> str:
    return "\n".join(f"{by}{line}".rstrip() for line in text.split("\n"))


def sentence(text: str) -> str:
    """The text with a full stop, unless it ends with a mark of its own."""
    text = text.strip()
    return text if not text or text[-1] in ".!?" else text + "."


def columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> str:
    """Rows as an aligned table; the columns in `right` are set to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[i].rjust(width) if i in right else row[i].ljust(width) for i, width in enumerate(widths)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
