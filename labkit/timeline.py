"""Who was in which call, when: every rank's calls of a cell along one axis of time.

Serves one need: to see who waits for whom. A call of a group can't do its work before its last rank has
come, so each bar has two parts: the wait until then, and the work. Times are seconds from the start of
the first call; ranks of one host share one clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .document import Printed
from .wire import Call, CallSite, Evidence, record

ROOM = 60  # calls per rank: more is no picture any more


@record
class Bar:
    """One call of one rank. It waited from `issued_s` to `met_s`, when the last rank of its group came;
    `met_s` is None if not everybody did. `returned_s` is None for a call that was still open."""

    rank: int
    op: str
    seq: int
    issued_s: float
    met_s: float | None = None
    returned_s: float | None = None
    group: str = "world"
    num_bytes: int = 0
    site: CallSite | None = None
    cell: int = 0
    state: str = "done"

    def __str__(self) -> str:
        return f"{self.op} #{self.seq}" if self.seq else self.op


@record
class Straggler:
    """A call that one rank came to later than the first: by how much."""

    rank: int
    call: str
    late_s: float
    site: CallSite | None = None


@record
class Timeline(Printed):
    """The calls of the last cells. `span_s` is the time they took, `left_out` the older calls that are not shown."""

    world_size: int
    cells: tuple[int, ...]
    bars: tuple[Bar, ...]
    span_s: float = 0.0
    left_out: int = 0

    @property
    def ops(self) -> tuple[str, ...]:
        """The kinds of calls, in the order of their first one."""
        return tuple(dict.fromkeys(bar.op for bar in sorted(self.bars, key=lambda bar: bar.issued_s)))

    @property
    def num_open(self) -> int:
        """Calls that have not returned."""
        return sum(bar.returned_s is None for bar in self.bars)

    @property
    def straggler(self) -> Straggler | None:
        """Who came latest to a call that all its ranks have come to; None if there is no such call."""
        found = [bar for bar in self.bars if bar.met_s is not None and bar.issued_s == bar.met_s and bar.seq]
        first: dict[tuple[str, int, str], float] = {}
        for bar in self.bars:
            first[_key(bar)] = min(bar.issued_s, first.get(_key(bar), bar.issued_s))
        late = [Straggler(bar.rank, str(bar), bar.issued_s - first[_key(bar)], bar.site) for bar in found]
        return max(late, key=lambda one: one.late_s, default=None)


def make_timeline(evidence: Evidence, cells: int = 1) -> Timeline:
    """The timeline of the newest `cells` cells that made calls.

    >>> from .wire import RankView
    >>> early = Call(1, 1, "all_reduce", cell=7, state="done", issued_s=10.0, returned_s=10.5)
    >>> late = Call(1, 1, "all_reduce", cell=7, state="done", issued_s=10.4, returned_s=10.5)
    >>> line = make_timeline(Evidence(2, ranks=(RankView(0, calls=(early,)), RankView(1, calls=(late,)))))
    >>> line.straggler.rank, round(line.straggler.late_s, 3), round(line.span_s, 3)
    (1, 0.4, 0.5)
    """
    calls = {view.rank: view.calls for view in evidence.ranks}
    numbers = sorted({call.cell for those in calls.values() for call in those if call.cell})[-max(1, cells) :]
    wanted = {rank: [call for call in those if call.cell in numbers and call.issued_s] for rank, those in calls.items()}
    since = max((those[-ROOM].issued_s for those in wanted.values() if len(those) > ROOM), default=0.0)
    shown = {rank: [call for call in those if call.issued_s >= since] for rank, those in wanted.items()}
    left_out = sum(map(len, wanted.values())) - sum(map(len, shown.values()))
    every = [call for those in shown.values() for call in those]
    if not every:
        return Timeline(evidence.world_size, tuple(numbers), ())
    start = min(call.issued_s for call in every)
    end = max(max(call.issued_s, call.returned_s) for call in every)
    if any(call.state == "issued" for call in every):
        end = max(end, evidence.taken_s)
    met = _met(shown, range(evidence.world_size))
    bars = [_bar(rank, call, met, start) for rank, those in sorted(shown.items()) for call in those]
    return Timeline(evidence.world_size, tuple(numbers), tuple(bars), end - start, left_out)


def _bar(rank: int, call: Call, met: Mapping[tuple[str, int, str], float], start: float) -> Bar:
    came = met.get(_key(call)) if call.seq else call.issued_s
    returned = None if call.state == "issued" else max(call.returned_s, call.issued_s)
    return Bar(
        rank, call.op, call.seq, call.issued_s - start, None if came is None else came - start,
        None if returned is None else returned - start, call.group, call.num_bytes, call.site, call.cell, call.state,
    )  # fmt: skip


def _met(calls: Mapping[int, Sequence[Call]], everyone: Iterable[int]) -> dict[tuple[str, int, str], float]:
    """When the last rank came to each call that all ranks of its group have come to."""
    came: dict[tuple[str, int, str], dict[int, Call]] = {}
    for rank, those in calls.items():
        for call in those:
            if call.seq:
                came.setdefault(_key(call), {})[rank] = call
    return {
        key: max(call.issued_s for call in by_rank.values())
        for key, by_rank in came.items()
        if set(by_rank) >= set(next(iter(by_rank.values())).group_ranks or everyone)
    }


def _key(call: Call | Bar) -> tuple[str, int, str]:
    return call.group, call.seq, call.op
