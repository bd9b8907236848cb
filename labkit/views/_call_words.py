"""The words and letters of the picture of calls, which its text, its page and its still share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ..callgrid import CallGrid, CallTrack, Message, Place, Row
from ..diagnosis.words import named
from ..errors import count, join_ranks
from ..units import format_bytes, format_seconds
from ..wire import Call

# the longest name that an op begins with counts: letter, hue ("a" sums, "b" copies, "n" only meets)
_FAMILIES: tuple[tuple[str, str, str], ...] = (
    ("all_reduce", "A", "a"), ("reduce_scatter", "S", "a"), ("reduce", "R", "a"), ("broadcast", "B", "b"),
    ("all_gather", "G", "b"), ("gather", "g", "b"), ("scatter", "C", "b"), ("all_to_all", "X", "b"), ("barrier", "|", "n"),
    ("monitored_barrier", "|", "n"), ("send", "s", "b"), ("recv", "r", "b"),
    ("new_group", "N", "n"), ("split_group", "N", "n"),
)  # fmt: skip
_BUCKET = "DDP's gradient bucket"


def family(call: Call) -> tuple[str, str]:
    """Letter and hue of a call.

    >>> family(Call(1, 1, "all_gather_into_tensor")), family(Call(1, 1, "all_reduce", part="DDP's gradient bucket 0 of step 3"))
    (('G', 'b'), ('D', 'a'))
    """
    if call.part.startswith(_BUCKET):
        return "D", "a"
    found = [(letter, hue) for name, letter, hue in _FAMILIES if call.op.startswith(name)]
    return found[0] if found else ("?", "n")


def kind(call: Call) -> str:
    """What a letter stands for.

    >>> kind(Call(1, 1, "all_reduce", part="DDP's gradient bucket 0 of step 3")), kind(Call(1, 1, "barrier"))
    ("DDP's gradient bucket", 'barrier')
    """
    return re.split(r" of | \d| \(", call.part)[0] or call.name


def seconds(value: float) -> str:
    """How long a wait is, short enough to stand beside a row.

    >>> seconds(0.42), seconds(8.13), seconds(30.2), seconds(95.0)
    ('0.4 s', '8.1 s', '30 s', '1 min 35 s')
    """
    return f"{value:.1f} s" if value < 9.95 else f"{value:.0f} s" if value < 59.5 else format_seconds(value)


def spans(ranks: Sequence[int]) -> str:
    """Ranks as short as can be.

    >>> spans([0, 1, 2, 5, 7, 8])
    '0–2, 5, 7, 8'
    """
    return join_ranks(ranks).split(" ", 1)[1].replace("-", "–").replace(" and ", ", ")


def label(row: Row, grid: CallGrid) -> tuple[str, str]:
    """Who a row is, and for folded ranks which ones: those, or all but the few others."""
    if len(row.ranks) == 1:
        return f"rank {row.ranks[0]}", f"{'+' if row.shift > 0 else '−'}{count(abs(row.shift), 'call')}" if row.shift else ""
    others = [rank for rank in range(grid.world_size) if rank not in row.ranks]
    which = spans(row.ranks)
    if len(which) > 12 and others:
        which = f"all but {spans(others)}"
    return f"{len(row.ranks)} ranks", which if len(which) <= 14 else ""


def about_call(call: Call) -> str:
    """All there is to say of one call, in one line."""
    size = f"{'x'.join(map(str, call.shape)) or 'scalar'} {call.dtype} ({format_bytes(call.num_bytes)})" if call.dtype else ""
    parts = [size, call.reduce_op, f"root {call.root}" if call.root >= 0 and call.seq else "", *_place(call)]
    if call.state == "done" and call.returned_s >= call.issued_s > 0:
        parts.append(f"returned after {format_seconds(call.returned_s - call.issued_s)}")
    elif call.state != "done":
        parts.append("not returned" if call.state in ("issued", "begun") else call.state)
    return f"{named(call)}: " + ", ".join(filter(None, parts))


def _place(call: Call) -> list[str]:
    found = [str(call.site)] if call.site is not None else []
    return [*found, f"called from {', '.join(f'line {each.line}' for each in call.chain[:-1])}"] if call.chain[:-1] else found


def about_place(place: Place, row: Row, track: CallTrack, at: int) -> str:
    """What is said of one mark."""
    who = join_ranks(row.ranks)
    if place.call is not None:
        return f"{who}: {about_call(place.call)}"
    other = next((r.places[at].call for r in track.rows if r.member and r.places[at].call is not None), None)
    return f"{who}: no call here, where others have {named(other)}" if other else f"{who}: no call here"


def lacks(track: CallTrack, at: int) -> str:
    """The line of the call that a hole of this column stands for, or ""."""
    call = next((row.places[at].call for row in track.rows if row.member and row.places[at].call is not None), None)
    return str(call.site.line) if call is not None and call.site is not None else ""


def about_row(row: Row, track: CallTrack) -> str:
    """A row as one sentence."""
    who, has = join_ranks(row.ranks), "has" if len(row.ranks) == 1 else "have each"
    if not row.member:
        return f"{who}: not in group {track.group}"
    said = [f"{count(row.num_done, 'call')} returned" if row.num_calls else f"{has} made no call"]
    hole = next((at for at, place in enumerate(row.places) if place.hole), -1)
    if hole >= 0:
        said.append(f"no call #{track.columns[hole].seq:,}")
    last = next((place.call for place in reversed(row.places) if place.is_open), None)
    if row.waited_s and last is not None:
        where = f" ({last.site})" if last.site is not None else ""
        said.append(f"{'waits' if len(row.ranks) == 1 else 'wait'} {seconds(row.waited_s)} in {named(last)}{where}")
    elif row.waited_s:
        said.append(f"waited {seconds(row.waited_s)}")
    if row.end:
        said.append({"left": "its cell has ended"}.get(row.end, row.end) if len(row.ranks) == 1 else row.end)
    return f"{track.group}: {who}: {', '.join(said)}" if track.group != "world" else f"{who}: {', '.join(said)}"


def about_message(each: Message) -> str:
    """A message as one sentence."""
    way = f"rank {each.src} to rank {each.dst}" if each.src >= 0 else f"any rank to rank {each.dst}"
    half = each.send or each.recv
    where = f" ({half.site})" if half is not None and half.site is not None else ""
    if each.send and each.recv:
        return f"{way}: sent and received"
    lack = lacks_half(each)
    return f"{way}: {lack}{f', waits {seconds(each.waited_s)}' if each.trouble else ''}{where}"


def lacks_half(each: Message) -> str:
    """What is missing of half a message: "no recv", "no send with tag 3"."""
    half = each.send or each.recv
    return ("no recv" if each.send else "no send") + (f" with tag {half.tag}" if half is not None and half.tag else "")


def detail(track: CallTrack) -> str:
    """The group, its ranks, and which calls agree."""
    parts = [f"group {track.group}, {count(len(track.members), 'rank')}"]
    first = track.columns[0].seq if track.columns else 0
    if track.columns and track.columns[0].left_out:
        parts.append(f"{count(track.columns[0].left_out, 'earlier call')} not drawn")
    if 0 < track.num_agree < track.num_columns:
        start = first - track.columns[0].left_out
        parts.append(
            f"calls #{start:,} to #{start + track.num_agree - 1:,} agree" if track.num_agree > 1 else f"call #{start} agrees"
        )
    elif track.num_agree == track.num_columns and track.num_columns:
        parts.append(count(track.num_columns, "call"))
    if track.by_site:
        parts.append("columns are aligned by line, not by number")
    return "; ".join([", ".join(parts[:2]), *parts[2:]])


def main(grid: CallGrid) -> tuple[CallTrack, ...]:
    """The group that the picture is about: the first in which the ranks part, else the first."""
    return tuple(track for track in grid.tracks if track.frame >= 0)[:1] or grid.tracks[:1]


def wrong(track: CallTrack) -> str:
    """For instance "39 wrong sums: each met the others' call before it"; "" where there are none."""
    if not track.num_wrong:
        return ""
    calls = [place.call for row in track.rows if row.odd for place in row.places if place.call is not None]
    noun = "wrong sum" if all(family(call)[1] == "a" for call in calls) else "wrong result"
    shift = next((row.shift for row in track.rows if row.odd and row.shift), 0)
    each = {-1: ": each met the others’ call before it", 1: ": each met the others’ call after it"}.get(shift, "")
    return count(track.num_wrong, noun) + each


def narrowed(track: CallTrack, room: int) -> CallTrack:
    """The track with so many of its columns: the frame, its neighbours and the last ones first."""
    last, frame = len(track.columns) - 1, track.frame
    if last < room:
        return track
    near = [frame, last, frame + 1, frame - 1, last - 1] if frame >= 0 else []
    near += [at for step in range(2, last + 1) for at in ((frame + step, frame - step) if frame >= 0 else ())]
    kept: list[int] = []
    for at in [*near, *range(last, -1, -1)]:
        if 0 <= at <= last and at not in kept and len(kept) < room:
            kept.append(at)
    kept.sort()
    left, columns = 0, []
    for at, column in enumerate(track.columns):
        left += column.left_out
        if at in kept:
            columns.append(replace(column, left_out=left))
            left = 0
        else:
            left += 1
    rows = [replace(row, places=tuple(row.places[at] for at in kept) if row.member else ()) for row in track.rows]
    return replace(track, columns=tuple(columns), frame=kept.index(frame) if frame >= 0 else -1, rows=tuple(rows))


def lines_matter(track: CallTrack) -> bool:
    """The line belongs under the letter: the columns are aligned by it, or calls of one column come from several."""
    if track.by_site:
        return True
    for at in range(len(track.columns)):
        calls = [row.places[at].call for row in track.rows if row.member]
        if len({(call.op, call.site) for call in calls if call is not None}) > len(
            {call.op for call in calls if call is not None}
        ):
            return True
    return False
