"""The splits of an all-to-all, compared pair by pair: what one rank gives another must be what that one takes from it.

Sizes may differ from rank to rank in an all-to-all, so neither shapes nor sums say whether the call fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .wire import Call


@dataclass(frozen=True)
class Misfit:
    """One rank gives `gives` rows (or elements, in the form with lists) to another, which takes `takes`."""

    giver: int
    taker: int
    gives: int
    takes: int


def misfits(column: Mapping[int, Call]) -> tuple[Misfit, ...]:
    """The pairs of ranks that do not fit, in the order of the ranks.

    >>> a = Call(1, 1, "all_to_all_single", group_ranks=(0, 1), splits=(1, 2, 1, 3))
    >>> misfits({0: a, 1: Call(1, 1, "all_to_all_single", group_ranks=(0, 1), splits=(3, 1, 1, 1))})
    (Misfit(giver=0, taker=1, gives=2, takes=1),)
    """
    found = []
    for giver, call in sorted(column.items()):
        size = len(call.group_ranks)
        if giver not in call.group_ranks or len(call.splits) != 2 * size:
            continue
        for place, taker in enumerate(call.group_ranks):
            other = column.get(taker)
            if other is None or other.group_ranks != call.group_ranks or len(other.splits) != 2 * size:
                continue
            gives, takes = call.splits[place], other.splits[size + call.group_ranks.index(giver)]
            if gives != takes:
                found.append(Misfit(giver, taker, gives, takes))
    return tuple(found)


def suspects(found: Iterable[Misfit]) -> tuple[int, ...]:
    """The ranks that may be wrong: the one that is part of every misfit, or the ranks of all of them.

    >>> suspects([Misfit(0, 2, 1, 2), Misfit(1, 2, 3, 2)])
    (2,)
    """
    pairs = [{one.giver, one.taker} for one in found]
    common = set.intersection(*pairs) if pairs else set()
    return tuple(sorted(common if len(common) == 1 else set().union(*pairs)))


def unit(call: Call) -> str:
    """What the splits count."""
    return "rows" if call.op == "all_to_all_single" else "elements"


def misfit_text(column: Mapping[int, Call]) -> str:
    """The misfits in words: "rank 1 gives rank 2 2 rows, and rank 2 takes 1 from rank 1"; "" if there are none."""
    found = misfits(column)
    said = []
    for one in found[:4]:
        rows = unit(column[one.giver])
        said.append(f"rank {one.giver} gives rank {one.taker} {one.gives} {rows if one.gives != 1 else rows[:-1]}, "
                    f"and rank {one.taker} takes {one.takes} from rank {one.giver}")  # fmt: skip
    more = f"; and {len(found) - 4} pairs more" if len(found) > 4 else ""
    return "; ".join(said) + more
