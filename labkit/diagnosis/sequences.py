"""Sequences of calls laid side by side, as biologists align sequences: equal calls in one column, a gap where one is missing.

Each sequence is a list of whole numbers, one per kind of call (an op at a call site). Equal sequences are aligned once. Two
sequences are compared by Myers' greedy method, whose cost grows with what differs and not with what is equal.
"""

from __future__ import annotations

from collections.abc import Sequence

MOST_EDITS = 200  # what differs more is laid side by side by number: nothing is a gap in another program

Pair = tuple[int | None, int | None]


def aligned(lines: Sequence[Sequence[int]]) -> list[list[int]]:
    """For each sequence, the column of each of its items; the first sequence is the one that the others are laid to.

    >>> aligned([[1, 2, 3, 1, 2, 3], [1, 2, 3, 2, 3]])
    [[0, 1, 2, 3, 4, 5], [0, 1, 2, 4, 5]]
    >>> aligned([[1, 2], [1, 9, 2]])
    [[0, 2], [0, 1, 2]]
    """
    if not lines:
        return []
    names = list(range(len(lines[0])))  # the columns in their order, by names that stay when others come between them
    keys = dict(enumerate(lines[0]))
    placed: list[list[int]] = [list(names)]
    known: dict[tuple[int, ...], list[int]] = {tuple(lines[0]): placed[0]}
    for line in lines[1:]:
        found = known.get(tuple(line))
        if found is None:
            names, found = _lay(names, keys, line)
            known[tuple(line)] = found
        placed.append(found)
    at = {name: i for i, name in enumerate(names)}
    return [[at[name] for name in found] for found in placed]


def _lay(names: list[int], keys: dict[int, int], line: Sequence[int]) -> tuple[list[int], list[int]]:
    """The columns with those that a further sequence needs, and the columns of its items."""
    order: list[int] = []
    found: list[int] = []
    for i, j in pairs([keys[name] for name in names], line):
        if i is not None:
            name = names[i]
        else:
            assert j is not None
            name = len(keys)
            keys[name] = line[j]
        order.append(name)
        if j is not None:
            found.append(name)
    return order, found


def pairs(one: Sequence[int], two: Sequence[int]) -> list[Pair]:
    """The two sequences item by item: (i, j) side by side, (i, None) or (None, j) where one of them has a gap.

    >>> pairs([1, 2, 3], [1, 3])
    [(0, 0), (1, None), (2, 1)]
    >>> pairs([1, 2], [1, 9])
    [(0, 0), (1, 1)]
    """
    start, shorter = 0, min(len(one), len(two))
    while start < shorter and one[start] == two[start]:
        start += 1
    end = 0
    while end < shorter - start and one[-1 - end] == two[-1 - end]:
        end += 1
    middle = _edits(one[start : len(one) - end], two[start : len(two) - end])
    found: list[Pair] = [(i, i) for i in range(start)]
    found += _unswapped(_side_by_side(middle, start), one, two)
    return found + [(len(one) - back, len(two) - back) for back in range(end, 0, -1)]


def _edits(one: Sequence[int], two: Sequence[int]) -> list[Pair]:
    """The shortest way from one sequence to the other (Myers 1986); by number where that is longer than MOST_EDITS."""
    if not one or not two:
        return [(i, None) for i in range(len(one))] + [(None, j) for j in range(len(two))]
    furthest, trace = {1: 0}, []
    for edits in range(min(len(one) + len(two), MOST_EDITS) + 1):
        trace.append(dict(furthest))
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and furthest[k - 1] < furthest[k + 1])
            x = furthest[k + 1] if down else furthest[k - 1] + 1
            y = x - k
            while x < len(one) and y < len(two) and one[x] == two[y]:
                x, y = x + 1, y + 1
            furthest[k] = x
            if x >= len(one) and y >= len(two):
                return _way_back(trace, len(one), len(two))
    longer = range(max(len(one), len(two)))
    return [(i if i < len(one) else None, i if i < len(two) else None) for i in longer]


def _way_back(trace: list[dict[int, int]], x: int, y: int) -> list[Pair]:
    found: list[Pair] = []
    for edits in range(len(trace) - 1, -1, -1):
        furthest, k = trace[edits], x - y
        down = k == -edits or (k != edits and furthest[k - 1] < furthest[k + 1])
        before = k + 1 if down else k - 1
        x0 = furthest[before] if edits else 0
        y0 = x0 - before if edits else 0
        while x > max(x0, 0) and y > max(y0, 0) and (x, y) != (x0, y0):
            x, y = x - 1, y - 1
            found.append((x, y))
        if edits:
            found.append((None, y0) if down else (x0, None))
        x, y = x0, y0
    return found[::-1]


def _side_by_side(edits: list[Pair], start: int) -> list[Pair]:
    """Where one sequence has an item and the other has another one, the two stand in one column."""
    found: list[Pair] = []
    gone: list[int] = []
    come: list[int] = []

    def close() -> None:
        both = min(len(gone), len(come))
        found.extend(zip(gone, come, strict=False))
        found.extend((i, None) for i in gone[both:])
        found.extend((None, j) for j in come[both:])
        gone.clear()
        come.clear()

    for i, j in edits:
        if i is not None and j is not None:
            close()
            found.append((i + start, j + start))
        elif i is not None:
            gone.append(i + start)
        elif j is not None:
            come.append(j + start)
    close()
    return found


def _unswapped(found: list[Pair], one: Sequence[int], two: Sequence[int]) -> list[Pair]:
    """Two neighbours that changed places are two columns that differ, and no gap."""
    result = list(found)
    for at in range(len(result) - 2):
        (a, b), (c, d), (e, f) = result[at : at + 3]
        if a is not None and b is None and e is None and f is not None and c is not None and d is not None and one[a] == two[f]:
            result[at : at + 3] = [(a, d), (c, f), (None, None)]
        elif a is None and b is not None and e is not None and f is None and c is not None and d is not None and one[e] == two[b]:
            result[at : at + 3] = [(c, b), (e, d), (None, None)]
    return [pair for pair in result if pair != (None, None)]
