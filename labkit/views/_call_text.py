"""The picture of calls in characters: at most 80 columns, a row for each rank, the odd one marked by `>`."""

from __future__ import annotations

from dataclasses import replace

from ..callgrid import CallGrid, CallTrack, MessageTrack, Place, Row
from ..phrases import WIDTH, wrapped
from . import _call_words as say

_STRIP_FROM = 40
_ROOM = 12  # columns
_AFTER, _GAP = 12, 11  # characters of what stands behind the last column, and of how many columns are left out


def as_lines(grid: CallGrid, *, short: bool = False) -> list[str]:
    """The groups one below the other, then the messages, then what the signs mean.

    `short`: only the groups with trouble, and of the letters only those of the framed column.
    """
    if short:
        bad = grid.messages is not None and any(each.trouble for each in grid.messages.messages)
        grid = replace(
            grid, tracks=tuple(track for track in grid.tracks if track.frame >= 0), messages=grid.messages if bad else None
        )
    lines: list[str] = []
    for track in grid.tracks:
        lines += [*([f"{track.group}:"] if len(grid.tracks) > 1 else []), *_track(grid, track)]
    lines += _messages(grid.messages) if grid.messages is not None else []
    return [*lines, *wrapped(_key(grid, short)).split("\n")] if lines else []


def _track(grid: CallGrid, track: CallTrack) -> list[str]:
    rows = [row for row in track.rows if row.member]
    numbers = say.lines_matter(track)
    large = max((column.seq for column in track.columns), default=0) >= 1000
    width = 7 if large else 6 if numbers else 4
    names = ["  ".join(filter(None, say.label(row, grid))) for row in rows]
    left = max(map(len, names), default=0) + 3
    most = (WIDTH - left - _AFTER) // width
    shown = len(track.columns) if len(track.columns) <= min(most, _ROOM) else min((WIDTH - left - _AFTER - _GAP) // width, _ROOM)
    track = say.narrowed(track, max(3, shown))
    rows = [row for row in track.rows if row.member]
    head, marks = " " * left, " " * left
    for at, column in enumerate(track.columns):
        if column.left_out and at:
            more = f"{column.left_out:,} more"
            head, marks = head + more.center(len(more) + 2), marks + " " * (len(more) + 2)
        name = f"{column.seq:,}" if large else f"#{column.seq}"
        head += (f"[{name}]" if at == track.frame else name).center(width)
        marks += ("^" * (len(name) + 2) if at == track.frame else "").center(width)
    lines = [*_strip(track), head.rstrip()]
    for row, name in zip(rows, names, strict=True):
        line = (("> " if row.odd else "  ") + name).ljust(left)
        for at, place in enumerate(row.places):
            if track.columns[at].left_out and at:
                line += ("." * 5).center(len(f"{track.columns[at].left_out:,} more") + 2)
            line += _sign(place, numbers, at == track.frame).center(width)
        lines.append((line + _after(row)).rstrip()[:WIDTH])
    lines += [marks.rstrip()] if track.frame >= 0 else []
    behind = say.wrong(track)
    return [*lines, *([f"{behind.replace('’', chr(39))}".rjust(min(len(head), WIDTH))] if behind else [])]


def _strip(track: CallTrack) -> list[str]:
    """All columns on one line: what agrees, and what does not."""
    if track.num_columns <= _STRIP_FROM or track.frame < 0:
        return []
    wide = WIDTH - 4 - len(f"{track.num_columns:,}")
    bad = max(1, round((track.num_columns - track.num_agree) / track.num_columns * (wide - 2)))
    said = f" {track.num_agree:,} calls agree "
    return [f"1 [{said.center(wide - bad - 2, '=')}{'X' * bad}] {track.num_columns:,}"]


def _sign(place: Place, numbers: bool, framed: bool) -> str:
    """A letter, with its line where that matters; in round brackets while the rank waits."""
    if place.call is None:
        sign = "-" if place.hole else ""
        return f"[{sign}]" if sign and framed else sign
    sign = say.family(place.call)[0] + (str(place.call.site.line) if numbers and place.call.site is not None else "")
    return f"({sign})" if place.is_open else f"[{sign}]" if place.loud else sign


def _after(row: Row) -> str:
    if row.waited_s:
        return f" {say.seconds(row.waited_s)}"
    return f" | {row.end}" if row.end else ""


def _messages(track: MessageTrack) -> list[str]:
    """A line for each message that is trouble; the others are counted."""
    bad = [each for each in track.messages if each.trouble]
    fine = len(track.messages) - len(bad) + track.left_out
    lines = []
    for each in bad:
        arrow = f"rank {each.src} --x  rank {each.dst}" if each.send else f"rank {each.src}  x-> rank {each.dst}"
        lines.append(f"> {arrow.replace('rank -1', 'any rank')}   {say.about_message(each).split(': ', 1)[1]}"[:WIDTH])
    if fine:
        lines.append(f"  {fine:,} {'other ' if bad else ''}message{'s' if fine > 1 else ''}")
    return lines


def _key(grid: CallGrid, framed: bool) -> str:
    rows = [row for track in grid.tracks for row in track.rows]
    places = [place for row in rows for place in row.places]
    letters: dict[str, list[str]] = {}
    shown = [row.places[t.frame] for t in grid.tracks for row in t.rows if row.member and t.frame >= 0] if framed else places
    for call in (place.call for place in shown if place.call is not None):
        names = letters.setdefault(say.family(call)[0], [])
        names += [say.kind(call)] if say.kind(call) not in names else []
    parts = [f"{letter} {', '.join(names)}" for letter, names in letters.items()]
    parts += ["[-] no call"] if any(place.hole for place in places) else []
    parts += ["(x) waits, not returned"] if any(place.is_open for place in places) else []
    parts += ["| its calls end here"] if any(row.end for row in rows) else []
    parts += ["a number: the line"] if any(say.lines_matter(track) for track in grid.tracks) else []
    return "   ".join(parts)
