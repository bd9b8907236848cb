"""Which call stands in which column of the picture, and where its frame is: read off the alignment that was judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..callgrid import Column
from ..calls import site_key
from ..makings import OF_ALL, OF_MEMBERS
from ..vocabulary import CallState, Ending
from ..wire import Call, Verdict
from .alignment import Alignment, SequenceError, Wait
from .makings import uneven
from .sequences import aligned

BEFORE = 5  # columns before the frame, where not all have room
AT_END = 2  # of the last columns


@dataclass(frozen=True)
class Columns:
    """The calls of one group by rank and column; `reference` is the rank whose numbers name the columns."""

    number: int
    by_rank: Mapping[int, Mapping[int, Call]]
    reference: int
    by_site: bool = False

    def at(self, rank: int, column: int) -> Call | None:
        return self.by_rank.get(rank, {}).get(column)

    def column_of(self, rank: int, call: Call) -> int:
        """Where a rank's call stands; -1 if it is not there."""
        return next((at for at, each in self.by_rank.get(rank, {}).items() if each.index == call.index), -1)

    def seq(self, column: int) -> int:
        """The number that the reference gives a column, or whoever has a call there."""
        found = self.at(self.reference, column)
        return found.seq if found else next((line[column].seq for line in self.by_rank.values() if column in line), 0)

    def window(self, frame: int, room: int) -> list[int]:
        """The columns that are shown: all, or those around the frame and the last ones."""
        if self.number <= room:
            return list(range(self.number))
        start = self.number - room
        if frame < 0 or frame - BEFORE >= start:
            return list(range(start, self.number))
        first = max(0, frame - BEFORE)
        return [*range(first, first + room - AT_END), *range(self.number - AT_END, self.number)]

    def headed(self, shown: Sequence[int]) -> tuple[Column, ...]:
        before = [-1, *shown]
        return tuple(Column(self.seq(at), at - left - 1) for left, at in zip(before, shown, strict=False))


@dataclass(frozen=True)
class Frame:
    """The column where the ranks part (-1: none), all columns that are part of it, who has a hole there, whose call is odd."""

    column: int = -1
    columns: tuple[int, ...] = ()
    lacking: frozenset[int] = frozenset()
    loud: frozenset[int] = frozenset()
    num_wrong: int = 0
    met_s: float = 0.0
    shift: int = 0  # calls that the odd ranks have more than the others (fewer: below 0)

    def late_s(self, columns: Columns, rank: int) -> float:
        """How long a rank has waited in the framed call for one that came late."""
        call = columns.at(rank, self.column) if self.met_s else None
        return max(0.0, self.met_s - call.issued_s) if call is not None and rank not in self.loud else 0.0


def lay_out(world: Alignment, verdict: Verdict | None, group: str, lines: dict[int, list[Call]]) -> Columns:
    """By call site where the verdict is one call too few or too many, else by number."""
    error = world.sequence_error
    if error is None or verdict is None or error.track.group != group or error.slip.kind == "swap":
        seqs = sorted({call.seq for line in lines.values() for call in line})
        at = {seq: i for i, seq in enumerate(seqs)}
        most = max(lines, key=lambda rank: (len(lines[rank]), -rank), default=0)
        return Columns(len(seqs), {rank: {at[call.seq]: call for call in line} for rank, line in lines.items()}, most)
    return _by_site(error, lines)


def _by_site(error: SequenceError, lines: dict[int, list[Call]]) -> Columns:
    reference = error.others[0]
    order = sorted(lines, key=lambda rank: (rank != reference, rank in error.ranks, -len(lines[rank]), rank))
    keys = dict(zip(order, _keys([lines[rank] for rank in order]), strict=True))
    has, lacks = (error.others, error.ranks) if error.slip.kind == "skip" else (error.ranks, error.others)
    start = next((at for at, call in enumerate(lines[has[0]]) if call.seq == error.seq), 0)
    gap = keys[has[0]][start : start + error.slip.count]
    short = {rank for rank in lacks if rank in keys and len(keys[rank]) >= start}
    for rank in short:  # what was left out is put in for the moment, so that the hole is where the verdict has it
        keys[rank][start:start] = gap
    placed = dict(zip(order, aligned([keys[rank] for rank in order]), strict=True))
    for rank in short:
        del placed[rank][start : start + len(gap)]
    number = 1 + max((columns[-1] for columns in placed.values() if columns), default=-1)
    by_rank = {rank: dict(zip(placed[rank], lines[rank], strict=True)) for rank in sorted(lines)}
    return Columns(number, by_rank, reference, True)


def _keys(lines: Sequence[Sequence[Call]]) -> list[list[int]]:
    """A whole number for each kind of call. Sites are found by identity first, since to hash one takes longer than all else."""
    quick: dict[tuple[str, int, int], int] = {}
    known: dict[object, int] = {}
    rows = []
    for line in lines:
        row = []
        for call in line:
            near = (call.op, id(call.site), id(call.chain))
            found = quick.get(near)
            if found is None:
                found = quick[near] = known.setdefault(site_key(call), len(known))
            row.append(found)
        rows.append(row)
    return rows


def find_frame(world: Alignment, verdict: Verdict | None, group: str, columns: Columns) -> Frame:
    """Where the verdict is seen in this group's calls."""
    if verdict is None:
        return Frame()
    odd = frozenset(verdict.culprits)
    error, found = world.sequence_error, world.disagreement
    if verdict.rule == "groups-not-alike" or group in (OF_ALL, OF_MEMBERS):
        return _makings_frame(world, group, columns, odd)
    if error is not None:
        return _slip_frame(error, columns, odd) if error.track.group == group else Frame()
    if found is not None and found.track.group == group:
        rank, call = next(iter(found.column.items()))
        at = columns.column_of(rank, call)
        return Frame(at, (at,), odd, odd)
    if verdict.ending == Ending.SLOW:
        return _late_frame(world, columns, odd)
    waits = [wait for wait in world.waits.values() if wait.call.group == group and not wait.call.p2p and wait.absent]
    mine = [wait for wait in waits if wait.rank in odd or odd & set(wait.absent)]
    at = min((columns.column_of(wait.rank, wait.call) for wait in mine), default=-1)
    holes = _absent(mine) & odd
    return Frame(at, (at,), holes, frozenset() if holes else odd) if at >= 0 else Frame()


def _absent(waits: Sequence[Wait]) -> frozenset[int]:
    return frozenset(rank for wait in waits for rank in wait.absent)


def _slip_frame(error: SequenceError, columns: Columns, odd: frozenset[int]) -> Frame:
    kind, number = error.slip.kind, error.slip.count
    has = error.others if kind == "skip" else error.ranks
    line = columns.by_rank.get(has[0], {})
    first = next((at for at, call in line.items() if call.seq == error.seq), -1)
    if first < 0:
        return Frame()
    if kind == "swap":
        pair = (first, first + number)
        done = all(call.state == CallState.DONE for at in pair for call in [columns.at(error.ranks[0], at)] if call)
        return Frame(first, pair, loud=odd, num_wrong=len(pair) if done else 0)
    framed = tuple(at for at in line if first <= at)[:number]
    shorter = error.ranks if kind == "skip" else error.others
    behind = {at: call for at, call in columns.by_rank.get(error.ranks[0], {}).items() if at > framed[-1]}
    ref = columns.by_rank.get(error.others[0], {})
    wrong = sum(call.state == CallState.DONE and (at not in ref or ref[at].seq != call.seq) for at, call in behind.items())
    lacking = frozenset(shorter) & odd
    return Frame(first, framed, lacking, odd, wrong, shift=-number if lacking else number)


def _makings_frame(world: Alignment, group: str, columns: Columns, odd: frozenset[int]) -> Frame:
    """Where the ranks do not make the same group; columns are torch's own numbers. All else follows from it."""
    found = uneven(world) if group in (OF_ALL, OF_MEMBERS) else None
    at = next((at for at in range(columns.number) if found is not None and columns.seq(at) == found.number), -1)
    return Frame(at, (at,), odd, odd) if at >= 0 else Frame()


def _late_frame(world: Alignment, columns: Columns, odd: frozenset[int]) -> Frame:
    """The call to which a culprit came last, by most."""
    late: dict[int, float] = {}
    for rank in odd & set(columns.by_rank):
        for at, call in columns.by_rank[rank].items():
            others = [line[at].issued_s for other, line in columns.by_rank.items() if other not in odd and at in line]
            late[at] = max(late.get(at, 0.0), call.issued_s - max(others, default=call.issued_s))
    at = max(late, key=lambda column: late[column], default=-1)
    if at < 0 or late[at] <= 0:
        return Frame()
    return Frame(at, (at,), loud=odd, met_s=max(columns.by_rank[rank][at].issued_s for rank in odd if rank in columns.by_rank))
