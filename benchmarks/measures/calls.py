"""The picture of calls: 64 ranks with 10,000 calls each, one of which skips a call among equal ones."""

from __future__ import annotations

import time

from labkit.diagnosis import align, judge
from labkit.diagnosis.grid import call_grid
from labkit.views import to_html
from labkit.wire import Call, CallSite, Evidence, RankView

from ..bench import Bench
from ..core import Goal, Row, Series, measure

RANKS, CALLS, ODD, AT = 64, 10_000, 37, 9_930
GOAL_S, GOAL_BYTES = 0.5, 32_000


@measure("calls", "The picture of calls, 64 ranks x 10,000 calls", order=14)
def run(bench: Bench) -> list[Row]:
    """From calls that are judged to the page; the judgement by itself beside it. Seconds of the processor, and bytes."""
    seen = evidence()
    world, verdict = align(seen), judge(seen)[0]
    drawn, judged, page = [], [], ""
    for _ in range(bench.rounds(9)):
        began = time.process_time()
        page = to_html(call_grid(seen, verdict, world=world))
        drawn.append(time.process_time() - began)
        began = time.process_time()
        align(seen)
        judged.append(time.process_time() - began)
    what = f"picture of {RANKS} ranks, {CALLS:,} calls each"
    notes = (f"to lay the same calls side by side for the judge: {Series.of('align', judged).median:.1f} s",)
    limits = "each call is looked at a few times, in Python"
    size = Series.of("labkit", [len(page.encode())], "bytes")
    return [
        Row(what, Series.of("labkit", drawn), None, Goal(GOAL_S, ratio=False), limits, notes),
        Row("size of that page, styles included", size, None, Goal(GOAL_BYTES, ratio=False), "rows fold, a window is drawn"),
    ]


def evidence() -> Evidence:
    """A loop of three lines; rank 37 skips one call and so has one less than the others, who wait in their last."""
    sites, members = [CallSite("cell 9", line) for line in (12, 15, 18)], tuple(range(RANKS))
    return Evidence(RANKS, cell=9, targets=members, taken_s=200.0, ranks=tuple(_view(rank, sites, members) for rank in members))


def _view(rank: int, sites: list[CallSite], members: tuple[int, ...]) -> RankView:
    numbers = [number for number in range(CALLS) if rank != ODD or number != AT]
    calls = tuple(
        Call(
            seq, seq, "all_reduce", group_ranks=members, shape=(8,), dtype="float32", num_bytes=32, reduce_op="sum",
            site=sites[number % 3], cell=9, state="issued" if number == CALLS - 1 and rank != ODD else "done",
            issued_s=100 + number * 1e-3, returned_s=100.0005 + number * 1e-3,
        )
        for seq, number in enumerate(numbers, start=1)
    )  # fmt: skip
    return RankView(rank, activity="idle" if rank == ODD else "call", cell=9, generation=1, calls=calls)
