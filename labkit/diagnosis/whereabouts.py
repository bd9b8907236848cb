"""Where ranks are that have not answered and with whom nothing is wrong: a cell that only takes longer than it may."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import join_ranks
from ..wire import Evidence, RankView


def whereabouts(evidence: Evidence, ranks: Iterable[int]) -> str:
    """Who is at what, in a sentence without a full stop; "" if no rank is known.

    >>> whereabouts(Evidence(2, ranks=(RankView(0), RankView(1))), (0, 1))
    'ranks 0 and 1 were in Python'
    """
    places: dict[str, list[int]] = {}
    asked = set(ranks)
    for view in evidence.ranks:
        if view.rank in asked:
            places.setdefault(_place(view), []).append(view.rank)
    return "; ".join(f"{join_ranks(who)} {'was' if len(who) == 1 else 'were'} in {place}" for place, who in places.items())


def _place(view: RankView) -> str:
    """A call without its number: ranks that go on are rarely at the same one."""
    call = view.waiting_in
    site = call.site if call is not None else view.line
    what = call.op if call is not None else "Python"
    return f"{what} ({site})" if site is not None else what
