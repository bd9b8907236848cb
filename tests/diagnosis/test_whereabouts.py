"""Where ranks are that only take longer: folded by place, a call without its number, Python by its line."""

from __future__ import annotations

from labkit.diagnosis import whereabouts
from labkit.wire import Call, CallSite, Evidence, Frame, RankView


def view(rank: int, line: int = 0, op: str = "", number: int = 1) -> RankView:
    site = CallSite("cell 4", line) if line else None
    calls = (Call(number, number, op, site=site),) if op else ()
    return RankView(rank, calls=calls, stack=(Frame("cell 4", line, "<module>"),) if line and not op else ())


def test_ranks_at_one_place_are_told_together() -> None:
    ranks = (view(0, 2, "all_reduce", 7), view(1, 2, "all_reduce", 8), view(2, 3), view(3))
    said = whereabouts(Evidence(4, ranks=ranks), range(4))
    assert (
        said == "ranks 0 and 1 were in all_reduce (cell 4, line 2); rank 2 was in Python (cell 4, line 3); rank 3 was in Python"
    )


def test_only_who_is_asked_for() -> None:
    assert whereabouts(Evidence(2, ranks=(view(0, 2), view(1, 2))), [1]) == "rank 1 was in Python (cell 4, line 2)"
    assert whereabouts(Evidence(2), [0, 1]) == ""
