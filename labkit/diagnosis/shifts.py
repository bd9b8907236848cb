"""What makes one sequence of calls from another: a call left out, put in, or two that changed places.

The judge compares whole sequences, each call by the place it comes from (`calls.site_key`). A few calls may have no partner:
branches on the rank are legitimate, and a rank may slip in every pass of a loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..calls import Key

MOST_SKIPPED = 8  # one iteration's worth of calls; more is another program, not a slip
_WINDOW = 48  # calls after the first difference that are looked at
_SUBSTITUTE = 1.5  # two calls of other places at one number: dearer than one gap, cheaper than two

Unlike = Callable[[Key, Key], float]
"""How unlike two places are: 0.0 for one place or a branch on the rank, up to 1.0 for two that have nothing in common."""


@dataclass(frozen=True)
class Shift:
    """What makes one line of calls from another: `kind` "swap", "skip" or "extra", from index `at` on.

    `count` calls were left out or put in; for a swap, `at` and `at + count` changed places.
    """

    kind: str
    at: int
    count: int


def exact(one: Key, two: Key) -> float:
    """Two places are one only if they are equal."""
    return float(one != two)


def shift(
    line: Sequence[Key], reference: Sequence[Key], *, line_over: bool, reference_over: bool, unlike: Unlike = exact
) -> Shift | None:
    """The first slip that leads from `reference` to `line`, or None if there is none or it can't be told yet.

    >>> a, b, c = ("cell 1", 1, "all_reduce"), ("cell 1", 2, "all_reduce"), ("cell 1", 3, "all_reduce")
    >>> shift([a, c], [a, b, c], line_over=True, reference_over=False)
    Shift(kind='skip', at=1, count=1)
    >>> shift([b, a, c], [a, b, c], line_over=True, reference_over=True)
    Shift(kind='swap', at=0, count=1)
    >>> shift([a, c, a, c], [a, b, c, a, b, c], line_over=True, reference_over=False)
    Shift(kind='skip', at=1, count=1)
    """
    shorter = min(len(line), len(reference))
    at = next((i for i in range(shorter) if line[i] != reference[i] and unlike(line[i], reference[i])), shorter)
    if at == shorter:
        return None
    if line_over and reference_over and len(line) == len(reference):
        return _swap(line, reference, at, unlike)
    skip = _gap("skip", line, reference, at, line_over, reference_over)
    extra = _gap("extra", reference, line, at, reference_over, line_over)
    if skip and extra:  # in a loop both fit; the one that has ended tells which it was
        if line_over != reference_over:
            return skip if line_over else extra
        return skip if len(line) <= len(reference) else extra
    one = skip or extra
    if one is not None and one.at + 2 * one.count <= max(len(line), len(reference)):
        return one
    return _aligned(line, reference, at, line_over, reference_over, unlike) or one


def _swap(line: Sequence[Key], reference: Sequence[Key], at: int, unlike: Unlike) -> Shift | None:
    """The same calls in another order, if they are; branches with calls of their own face each other."""
    pairs = [(i, line[i], reference[i]) for i in range(at, len(line)) if line[i] != reference[i]]
    both = Counter(mine for _, mine, _ in pairs) & Counter(theirs for _, _, theirs in pairs)
    moved = [(i, mine, theirs) for i, mine, theirs in pairs if mine in both or theirs in both]
    moved = [one for one in moved if unlike(*one[1:])]
    if not moved or Counter(mine for _, mine, _ in moved) != Counter(theirs for _, _, theirs in moved):
        return None
    first, _, wanted = moved[0]
    return Shift("swap", first, next(i for i, mine, _ in moved if mine == wanted) - first)


def _gap(kind: str, short: Sequence[Key], long: Sequence[Key], at: int, short_over: bool, long_over: bool) -> Shift | None:
    """One gap after which all calls are equal again."""
    for count in range(1, MOST_SKIPPED + 1):
        seen = min(len(short) - at, len(long) - at - count)
        if seen < 1:
            return None
        over = (short_over and len(long) > len(short) + count) or (long_over and len(short) > len(long) - count)
        if not over and list(short[at : at + seen]) == list(long[at + count : at + count + seen]):
            return Shift(kind, at, count)
    return None


_LEAST_AGREE = 4  # calls after a gap that prove it where the sequences are of the same calls


def is_plain(slip: Shift, line: Sequence[Key], reference: Sequence[Key]) -> bool:
    """One gap, after which everything agrees that is seen, and enough is seen."""
    short, long = (line, reference) if slip.kind == "skip" else (reference, line)
    rest, beside = list(short[slip.at :]), list(long[slip.at + slip.count :])
    seen = min(len(rest), len(beside))
    return slip.kind != "swap" and seen >= max(_LEAST_AGREE, 2 * slip.count) and rest[:seen] == beside[:seen]


def _aligned(
    line: Sequence[Key], reference: Sequence[Key], at: int, line_over: bool, reference_over: bool, unlike: Unlike
) -> Shift | None:
    """The first gap of the cheapest alignment from `at` on, if after it more calls agree than were left out or put in."""
    mine, theirs = list(line[at : at + _WINDOW]), list(reference[at : at + _WINDOW])
    my_tail = float(reference_over and len(line) <= at + _WINDOW)  # what a call costs that the other can't make any more
    their_tail = float(line_over and len(reference) <= at + _WINDOW)
    costs = _costs(mine, theirs, my_tail, their_tail, unlike)
    i = j = agree = gaps = 0
    found: Shift | None = None
    while i < len(mine) and j < len(theirs):
        together = costs[i + 1][j + 1] + _SUBSTITUTE * unlike(mine[i], theirs[j])
        skip, extra = costs[i][j + 1] + 1, costs[i + 1][j] + 1
        if together <= min(skip, extra):
            agree += mine[i] == theirs[j] and found is not None
            i, j = i + 1, j + 1
            continue
        kind = "skip" if skip < extra or (skip == extra and len(line) <= len(reference)) else "extra"
        gaps += 1
        if found is None:
            found = Shift(kind, at + i, 1)
        elif found.kind == kind and not agree and found.count == gaps - 1 < MOST_SKIPPED:
            found = Shift(kind, found.at, gaps)
        i, j = (i, j + 1) if kind == "skip" else (i + 1, j)
    return found if agree and agree >= gaps else None


def _costs(mine: list[Key], theirs: list[Key], my_tail: float, their_tail: float, unlike: Unlike) -> list[list[float]]:
    """What the rest costs from each pair of places on; calls that the other has not come to yet cost nothing."""
    width, height = len(theirs), len(mine)
    costs = [[0.0] * (width + 1) for _ in range(height + 1)]
    costs[height] = [their_tail * (width - j) for j in range(width + 1)]
    for i in range(height - 1, -1, -1):
        row, below, key = costs[i], costs[i + 1], mine[i]
        row[width] = my_tail * (height - i)
        for j in range(width - 1, -1, -1):
            other = theirs[j]
            if key == other:
                row[j] = min(below[j + 1], below[j] + 1, row[j + 1] + 1)
            else:
                row[j] = min(below[j + 1] + _SUBSTITUTE * unlike(key, other), below[j] + 1, row[j + 1] + 1)
    return costs
