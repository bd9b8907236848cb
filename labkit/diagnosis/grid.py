"""From evidence to the picture of its calls: the same alignment that the verdict rests on, as rows and columns.

Where the verdict is a sequence with a slip, calls are aligned by the lines of code that they come from: by number, one skipped
call among equal ones can't be seen. Everywhere else numbers decide which calls meet, and so do they here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..callgrid import CallGrid, CallTrack, MessageTrack, Place, Row
from ..errors import count
from ..makings import OF_ALL, OF_MEMBERS, OWN
from ..ring import SLOTS
from ..vocabulary import Standing
from ..wire import Call, Evidence, Verdict
from . import judge, words
from .align import align
from .alignment import Alignment, Lines
from .columns import Columns, Frame, find_frame, lay_out
from .messages import messages

FOLD_FROM = 8  # ranks; of fewer each has a row
MOST_TRACKS = 4  # groups side by side
MOST_OF_MANY = 2  # of FOLD_FROM ranks or more, the one with the trouble first
MOST_MESSAGES = 12
ROOM = 14  # columns


_ENDS = {
    Standing.DEAD: "dead", Standing.STOPPED: "stopped", Standing.RAISED: "raised", Standing.FINISHED: "left",
    Standing.PYTHON: "in Python", Standing.UNBEGUN: "not begun", Standing.UNASKED: "not asked",
}  # fmt: skip
_ALWAYS = (Standing.DEAD, Standing.STOPPED, Standing.RAISED)


def call_grid(
    evidence: Evidence, verdict: Verdict | None = None, *, cells: int = 1, judged: bool = False, world: Alignment | None = None
) -> CallGrid:
    """The picture of the newest cell that made calls, or of the newest `cells`; with the verdict's own frame and odd ranks.

    `judged`: `verdict` is all there is to say; else the evidence is judged here. `world`: its alignment, where there is one.

    >>> from labkit.wire import RankView
    >>> a = Call(1, 1, "all_reduce", state="done")
    >>> grid = call_grid(Evidence(2, ranks=(RankView(0, calls=(a,)), RankView(1, calls=(a,)))))
    >>> grid.sentence, grid.tracks[0].num_columns
    ('1 call, the same on all 2 ranks', 1)
    """
    if verdict is None and not judged:
        verdict = next(iter(judge(evidence)), None)
    world = align(evidence) if world is None else world
    chosen, lines = _chosen(world, cells)
    tracks = [] if world.algorithm else [_track(world, verdict, group, mine) for group, mine in _by_group(world, lines).items()]
    tracks = [drawn for drawn in tracks if drawn.frame >= 0 or drawn.group not in (OF_ALL, OF_MEMBERS)]
    waited_s = {rank: (wait.call, _waited_s(world, rank)) for rank, wait in world.waits.items()}
    sent = [] if world.algorithm else messages(lines, waited_s)
    shown = [each for each in sent if each.trouble] + [each for each in sent if not each.trouble][::-1]
    shown = [each for each in sent if any(each is one for one in shown[:MOST_MESSAGES])]
    apart = {rank for each in shown if each.trouble for rank in (each.src, each.dst)}
    few = evidence.world_size < FOLD_FROM
    urgent = sorted(tracks, key=lambda drawn: (drawn.frame < 0, drawn.group != "world"))[: MOST_TRACKS if few else MOST_OF_MANY]
    kept = [drawn for drawn in tracks if drawn in urgent] if few else urgent
    sentence, accent = _said(world, verdict, tracks)
    return CallGrid(
        evidence.world_size, sentence, accent, verdict.code if verdict else "", verdict.culprits if verdict else (),
        tuple(_folded(drawn, _folds(evidence.world_size, [drawn], set())) for drawn in kept),
        MessageTrack(_folds(evidence.world_size, tracks, apart), tuple(shown), len(sent) - len(shown)) if shown else None,
        verdict.sides if verdict else words.wait_sides(world, world.waits), chosen, len(tracks) - len(kept),
    )  # fmt: skip


def _chosen(world: Alignment, cells: int) -> tuple[tuple[int, ...], Lines]:
    """The cells that are drawn, and each rank's calls in them."""
    numbers = sorted({call.cell for line in world.calls.values() for call in line})
    newest = [number for number in numbers if number >= world.focus] or numbers[-1:]
    first = min([*numbers[-max(cells, 1) :], *newest], default=0)
    chosen = tuple(number for number in numbers if number >= first and number)
    if first <= min(numbers, default=0):
        return chosen, world.calls
    return chosen, {rank: tuple(call for call in line if call.cell >= first) for rank, line in world.calls.items()}


def _by_group(world: Alignment, lines: Lines) -> dict[str, dict[int, list[Call]]]:
    """The numbered calls by group and rank, from the first number that every full beacon still has."""
    found: dict[str, dict[int, list[Call]]] = {}
    floors: dict[str, int] = {}
    for rank, line in lines.items():
        for group in dict.fromkeys(call.group for call in line if call.group != OWN):
            calls = [call for call in line if call.seq and call.group == group]
            if calls:
                found.setdefault(group, {})[rank] = calls
                if len(world.calls[rank]) >= SLOTS:
                    floors[group] = max(floors.get(group, 0), calls[0].seq)
    for group, floor in floors.items():
        if any(calls[0].seq < floor for calls in found[group].values()):
            found[group] = {rank: [call for call in calls if call.seq >= floor] for rank, calls in found[group].items()}
    return dict(sorted(found.items(), key=lambda item: item[0] != "world"))


def _waited_s(world: Alignment, rank: int) -> float:
    call = world.waits[rank].call
    return max(0.0, (call.returned_s or world.evidence.taken_s) - call.issued_s)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """A track whose rows are still one for each rank."""

    group: str
    track: CallTrack
    frame: int
    rows: dict[int, Row]


def _track(world: Alignment, verdict: Verdict | None, group: str, lines: dict[int, list[Call]]) -> _Drawn:
    named = {r for line in lines.values() for call in line[:1] for r in call.group_ranks}
    everyone, whole = tuple(range(world.evidence.world_size)), group in ("world", OF_ALL)
    members = tuple(sorted(named)) if named and group not in (OF_ALL, OF_MEMBERS) else everyone if whole else tuple(sorted(lines))
    columns = lay_out(world, verdict, group, lines)
    frame = find_frame(world, verdict, group, columns)
    shown = columns.window(frame.column, ROOM)
    odd = set(verdict.culprits) if verdict else set()
    rows = {}
    for rank in range(world.evidence.world_size):
        if rank not in members or rank not in world.views:
            rows[rank] = Row((rank,), member=False)
            continue
        places = tuple(_place(columns, frame, rank, at) for at in shown)
        mine = lines.get(rank, [])
        waits = rank in world.waits and world.waits[rank].call.group == group and not world.waits[rank].call.p2p
        waited_s = _waited_s(world, rank) if waits else frame.late_s(columns, rank)
        rows[rank] = Row(
            (rank,), places, rank in odd, True, len(mine), sum(call.state == "done" for call in mine),
            frame.shift if rank in odd else 0, waited_s,
            "" if waits else _end(world, group, rank),
        )  # fmt: skip
    track = CallTrack(
        group, members, columns.headed(shown), (), shown.index(frame.column) if frame.column in shown else -1, columns.number,
        frame.column if frame.column >= 0 else columns.number, frame.num_wrong, columns.by_site,
    )  # fmt: skip
    return _Drawn(group, track, frame.column, rows)


def _place(columns: Columns, frame: Frame, rank: int, at: int) -> Place:
    call = columns.at(rank, at)
    if call is None:
        return Place(hole=at in frame.columns and rank in frame.lacking)
    return Place(call, loud=at in frame.columns and rank in frame.loud, is_open=call.state in ("issued", "failed", "refused"))


def _end(world: Alignment, group: str, rank: int) -> str:
    """Why a rank does not come to the call that others of this group wait in."""
    standing = world.standing(rank)
    missed = any(rank in wait.absent for wait in world.waits.values() if wait.call.group == group and not wait.call.p2p)
    if standing == Standing.WAITING:
        return f"in {world.waits[rank].call.op}" if missed and rank in world.waits else ""
    return _ENDS.get(standing, "") if missed or standing in _ALWAYS else ""


def _folds(world_size: int, tracks: Sequence[_Drawn], apart: set[int]) -> tuple[tuple[int, ...], ...]:
    """The ranks of each row: those that are alike in all tracks, and in no message that is trouble."""
    if world_size < FOLD_FROM:
        return tuple((rank,) for rank in range(world_size))
    alike: dict[object, list[int]] = {}
    for rank in range(world_size):
        key: object = rank if rank in apart else tuple(_likeness(drawn.rows[rank]) for drawn in tracks)
        alike.setdefault(key, []).append(rank)
    return tuple(sorted(map(tuple, alike.values())))


def _likeness(row: Row) -> object:
    calls = tuple((place.hole, place.loud, place.is_open, place.call and _gist(place.call)) for place in row.places)
    return calls, row.odd, row.member, row.num_calls, row.shift, row.waited_s > 0, row.end


def _gist(call: Call) -> tuple[object, ...]:
    return call.op, call.part, call.shape, call.dtype, call.root, call.reduce_op, call.site


def _folded(drawn: _Drawn, folds: Sequence[tuple[int, ...]]) -> CallTrack:
    rows = tuple(
        replace(drawn.rows[ranks[0]], ranks=ranks, waited_s=max(drawn.rows[rank].waited_s for rank in ranks)) for ranks in folds
    )
    return replace(drawn.track, rows=rows)


def _said(world: Alignment, verdict: Verdict | None, tracks: Sequence[_Drawn]) -> tuple[str, str]:
    if verdict is not None:
        return verdict.sentence, "wait" if verdict.ending == "slow" else "bad"
    waits = words.wait_text(world, world.waits)
    if waits:
        return waits, "wait"
    number = sum(drawn.track.num_columns for drawn in tracks)
    if not number:
        return "no call of a group yet", "good"
    same = f"all {world.evidence.world_size} ranks" if len(tracks) == 1 else "all ranks of a group"
    even = all(len({row.num_calls for row in drawn.rows.values() if row.member}) == 1 for drawn in tracks)
    return (f"{count(number, 'call')}, the same on {same}", "good") if even else (count(number, "call"), "wait")
