"""Pieces of text that records and their views share: ranks by name, folding, counting, tables, and lines that fit a screen."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import TypeVar

from .errors import join_ranks

WIDTH = 80  # characters of a line of text: what every terminal shows
HANGING = "   "  # before the second and later lines of a sentence; what stands below it is set in by 2 or 4

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


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


def code_lines(source: str) -> list[str]:
    """The lines of a source text, as Python numbers them: a form feed or a separator of Unicode's ends no line.

    >>> code_lines("a\\n'\\u2028'\\r\\nb\\n"), "a\\u2028b".splitlines()
    (['a', "'\\u2028'", 'b'], ['a', 'b'])
    """
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def few(names: Sequence[str], limit: int = 3) -> str:
    """The first names, and how many more there are; all of them where only one would be left.

    >>> few("abcd"), few("abcde")
    ('a, b, c, d', 'a, b, c and 2 more')
    """
    rest = len(names) - limit
    return ", ".join(names) if rest < 2 else f"{', '.join(names[:limit])} and {rest} more"


def sentence(text: str) -> str:
    """The text with a full stop, unless it ends with a mark of its own."""
    text = text.strip()
    return text if not text or text[-1] in ".!?" else text + "."


def cut(text: str, limit: int) -> str:
    """A text that is not longer than `limit`, cut between two words in the middle: long messages name the matter at the end.

    >>> cut("one two three four five six", 15)
    'one ... six'
    """
    if len(text) <= limit:
        return text
    room = limit - len(" ... ")
    head, tail = text[: room * 3 // 5], text[len(text) - room * 2 // 5 :]
    return f"{head.rpartition(' ')[0] or head} ... {tail.partition(' ')[2] or tail}"


def columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> str:
    """Rows as an aligned table; the columns in `right` are set to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[i].rjust(width) if i in right else row[i].ljust(width) for i, width in enumerate(widths)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def bands(rows: Sequence[Sequence[str]], right: Collection[int] = (), joined: Collection[int] = (), width: int = WIDTH) -> str:
    """Rows as an aligned table, or as several below each other where one is too wide: each repeats the first column.

    A column in `joined` stays beside the one before it.

    >>> print(bands([["", "first", "second"], ["a", "1", "2"]], right=(1, 2), width=9))
       first
    a      1
    <BLANKLINE>
       second
    a       2
    """
    widths = [2 + max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    groups: list[list[int]] = []
    for i in range(1, len(widths)):
        if i in joined:
            groups[-1].append(i)
        else:
            groups.append([i])
    tables, room = [[0]], width - widths[0] + 2
    for group in groups:
        needed = sum(widths[i] for i in group)
        if len(tables[-1]) > 1 and room < needed:
            tables.append([0])
            room = width - widths[0] + 2
        tables[-1] += group
        room -= needed
    return "\n\n".join(
        columns([[row[i] for i in chosen] for row in rows], right=[place for place, i in enumerate(chosen) if i in right])
        for chosen in tables
    )


def wrapped(line: str, width: int = WIDTH, *, most: int | None = None, rest: str = " ...") -> str:
    """A line of words as lines that fit, the later ones set in; what is more than `most` lines is cut, and `rest` says so.

    >>> print(wrapped("one two three four", width=9, most=2, rest=" ..."))
    one two
       ...
    """
    lines = textwrap.wrap(
        line, width, subsequent_indent=HANGING, break_long_words=False, break_on_hyphens=False, max_lines=most, placeholder=rest
    )
    return "\n".join(lines)
