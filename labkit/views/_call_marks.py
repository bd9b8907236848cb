"""Where everything of the picture of calls stands: one drawing for each group, one for the messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..callgrid import CallGrid, CallTrack, Place, Row
from ..wire import Call
from . import _call_words as say
from ._strokes import Box, Drawing, Group, Line, Mark, Words

TILE, STEP = 30, 34  # of a column: the tile, and from one to the next
CHARACTER = 6.7  # of 12 px
STRIP_FROM = 40  # columns: more have a strip above that shows them all
_STRIP, _EDGES, _BRACKET = 46, 9, 24


@dataclass(frozen=True)
class Rows:
    """Names and heights of the rows; all groups share them, so a rank is at one height everywhere."""

    labels: tuple[tuple[str, str], ...]
    tops: tuple[float, ...]
    left: float
    tile: float
    bottom: float


def place_rows(grid: CallGrid, given: Sequence[Row], *, lines: bool, bracket: int = -1) -> Rows:
    """`bracket` is the row below which there is room for one."""
    labels = tuple(say.label(row, grid) for row in given)
    ranks = [row.ranks for row in given]
    two = any(second for _, second in labels)
    tile = 34 if lines or two else 28
    tops, y = [], 0.0
    for at, each in enumerate(ranks):
        tops.append(y)
        y += tile + 10 + (_EDGES if len(each) > 1 else 0) + (_BRACKET if at == bracket else 0)
    widest = max((max(len(first) * CHARACTER, len(second) * 6.1) for first, second in labels), default=0.0)
    return Rows(labels, tuple(tops), widest + 14, tile, y)


def draw_track(grid: CallGrid, track: CallTrack, *, named: bool, wide: bool = True) -> Drawing:
    """One group. `named`: its name stands above. Narrow, there is less room for what is left out and for waits."""
    behind = say.wrong(track) if track.by_site else ""
    odd = next((at for at, row in enumerate(track.rows) if row.odd and row.member), -1)
    lines = say.lines_matter(track)
    rows = place_rows(grid, track.rows, lines=lines, bracket=odd if behind else -1)
    strip = track.num_columns > STRIP_FROM
    top = 30.0 + (14 if named else 0) + (_STRIP if strip else 0)
    xs, gaps, end = _columns(track, rows.left, wide)
    marks: list[Mark] = [Words(0, 11, track.group, "wb")] if named else []
    marks += _numbers(track, xs, top - 12)
    longest = max((row.waited_s for row in track.rows), default=0.0)
    for at, row in enumerate(track.rows):
        y = top + rows.tops[at]
        drawn = _row(track, row, rows.labels[at], (xs, gaps, end), (y, rows.tile), rows.left, lines, wide, longest)
        marks.append(Group(say.about_row(row, track), tuple(drawn), stop=row.member))
        marks += [
            Group(
                say.about_place(place, row, track, i),
                tuple(_place(place, xs[i], y, rows.tile, lines, say.lacks(track, i) if lines else "")),
                place.loud or place.hole,
            )
            for i, place in enumerate(row.places)
            if place.call is not None or place.hole
        ]
    marks += _frames(track, xs, top, rows)
    if behind and odd >= 0:
        marks += _bracket(
            track, xs, top + rows.tops[odd] + rows.tile + (_EDGES if len(track.rows[odd].ranks) > 1 else 0), behind, wide
        )
    if strip:
        marks += _strip(track, rows.left, end, top - 66, wide)
    return Drawing(end + (66 if wide else 46), top + rows.bottom, tuple(marks), f"calls of group {track.group} by rank")


def _columns(track: CallTrack, left: float, wide: bool) -> tuple[list[float], list[tuple[float, float, int]], float]:
    """Where the columns begin, the gaps (from, to, how many columns are left out), and where the last column ends."""
    xs, gaps, x = [], [], left
    for at, column in enumerate(track.columns):
        if column.left_out and at:
            width = 62.0 if wide else 46.0
            gaps.append((x, x + width - 4, column.left_out))
            x += width
        xs.append(x)
        x += STEP
    return xs, gaps, x


def _numbers(track: CallTrack, xs: Sequence[float], y: float) -> list[Mark]:
    """The number of each column; where numbers are long, the first, the last, and the framed one are written out."""
    long = any(column.seq >= 1000 for column in track.columns)
    last = len(track.columns) - 1
    full = {at for at in (0, last, track.frame) if at >= 0} if long else set(range(last + 1))
    marks: list[Mark] = []
    for at, column in enumerate(track.columns):
        if long and at not in full and ({at - 1, at + 1} & full):
            continue
        text = f"{column.seq:,}" if long and at in full else f"{column.seq % 100:02d}" if long else f"#{column.seq}"
        if at in full and at != track.frame and abs(at - track.frame) == 1 and long:
            continue
        marks.append(Words(xs[at] + TILE / 2, y, text, "wxs" if at == track.frame else "wm", "middle"))
    return marks


def _row(
    track: CallTrack, row: Row, label: tuple[str, str], across: tuple[list[float], list[tuple[float, float, int]], float],
    down: tuple[float, float], left: float, lines: bool, wide: bool, longest: float,
) -> list[Mark]:  # fmt: skip
    """The name of a row, its rail, and what comes after its last call; a rank that is not in the group has only a name."""
    (xs, gaps, end), (y, tile) = across, down
    middle = y + tile / 2
    name = "wx" if row.odd and row.member else "w" if row.member else "wm"
    marks: list[Mark] = [Words(left - 10, middle + (4 if not label[1] else -2), label[0], name, "end")]
    marks += [Words(left - 10, middle + 12, label[1], "wm", "end")] if label[1] else []
    if not row.member:
        return [*marks, Words(left, middle + 4, "not in it", "wm")]
    there = [at for at, place in enumerate(row.places) if place.call is not None or place.hole]
    stop = xs[there[-1]] + TILE / 2 if there else left
    marks.append(Line(((left - 4, middle), (stop, middle)), "rail"))
    for start, to, number in gaps:
        if start < stop:
            marks += [Box(start, middle - 7, to - start, 14, "patch", 0), Line(((start, middle), (to, middle)), "dots")]
            text = f"{number:,} more" if wide else f"{number:,} ⋯"
            marks += [Box(start + 3, middle - 7, to - start - 6, 14, "patch", 0)] if row is track.rows[0] else []
            marks += [Words((start + to) / 2, middle + 4, text, "wm", "middle")] if row is track.rows[0] else []
    for i in (1, 2, 3) if len(row.ranks) > 1 else ():
        edge = y + tile + i * 2.6
        marks.append(Line(((left + i * 1.5, edge), (max(stop + TILE / 2 - i * 1.5, left + 20), edge)), "rail"))
    return marks + _after(row, stop + TILE / 2 if there else left, end, middle, tile, wide, longest)


def _after(row: Row, stop: float, end: float, middle: float, tile: float, wide: bool, longest: float) -> list[Mark]:
    """Dots for a wait, longer for a longer one; a bar and a word for a rank that does not come."""
    if row.waited_s:
        length = (26 if wide else 8) * max(row.waited_s / (longest or 1.0), 0.2)
        return [
            Line(((end + 4, middle), (end + 4 + length, middle)), "tail"),
            Words(end + 10 + length, middle + 4, say.seconds(row.waited_s), "ww"),
        ]
    if not row.end:
        return []
    at = max(stop + 4, end) if any(place.hole for place in row.places) or stop > end - 10 else stop + 4
    bar: list[Mark] = [Line(((at + 3, middle - tile / 2 + 6), (at + 3, middle + tile / 2 - 6)), "end")]
    return [*bar, Words(at + 9, middle + 4, row.end, "wxs" if row.odd else "wm")]


def _place(place: Place, x: float, y: float, tile: float, lines: bool, lack: str) -> list[Mark]:
    if place.call is None:
        return [
            Box(x + 1, y + 1, TILE - 2, tile - 2, "hole"),
            *([Words(x + TILE / 2, y + tile - 5, lack, "wxs", "middle")] if lack else []),
        ]
    return draw_tile(place.call, x, y, tile, loud=place.loud, is_open=place.is_open, lines=lines)


def draw_tile(
    call: Call, x: float, y: float, tile: float = 28, *, loud: bool = False, is_open: bool = False, lines: bool = False
) -> list[Mark]:
    """A call: pale where it agrees, full where it is the odd one, hollow where it has not returned."""
    letter, hue = say.family(call)
    marks: list[Mark] = [Box(x, y, TILE, tile, ("l" if loud else "o" if is_open else "t") + hue)]
    if not loud and not is_open:
        marks += [Line(points, f"g{hue}") for points in _pattern(letter, x, y, tile)]
    sub = str(call.site.line) if lines and call.site is not None else ""
    ink = f"wi{hue}" if loud else "wl"
    marks.append(Words(x + TILE / 2, y + tile / 2 + (-1 if sub else 5), letter, ink, "middle"))
    if sub:
        marks.append(Words(x + TILE / 2, y + tile - 4, sub, f"ws{hue}" if loud else "wsl", "middle"))
    return marks


def _pattern(letter: str, x: float, y: float, tile: float) -> list[tuple[tuple[float, float], ...]]:
    low, high, right = y + tile - 4.5, y + 4.5, x + TILE
    bars = {"D": (high, low), "S": (low,), "R": (high,)}.get(letter, ())
    walls = {"G": (x + 4, right - 4), "g": (x + 4,), "C": (right - 4,)}.get(letter, ())
    corners = {
        "B": ((x + 2, y + 9, 7, -7), (right - 9, y + tile - 2, 7, -7)),
        "X": ((x + 2, y + tile - 9, 7, 7), (right - 9, y + 2, 7, 7)),
    }
    return [
        *(((x + 3, at), (right - 3, at)) for at in bars),
        *(((at, y + 3), (at, y + tile - 3)) for at in walls),
        *(((a, b), (a + c, b + d)) for a, b, c, d in corners.get(letter, ())),
    ]


def _frames(track: CallTrack, xs: Sequence[float], top: float, rows: Rows) -> list[Mark]:
    """One around the framed column and what belongs to it."""
    if track.frame < 0:
        return []
    part = [at for at in range(len(xs)) if any(p.hole or p.loud for r in track.rows if r.member for p in r.places[at : at + 1])]
    inside = [at for at, row in enumerate(track.rows) if row.member]
    edges = _EDGES if len(track.rows[inside[-1]].ranks) > 1 else 0
    high, low = top + rows.tops[inside[0]] - 5, top + rows.tops[inside[-1]] + rows.tile + edges + 5
    marks: list[Mark] = []
    for at in sorted({track.frame, *part}):
        if at - 1 in part and at != track.frame:
            continue
        stop = at
        while stop + 1 in part:
            stop += 1
        marks.append(Box(xs[at] - 3.5, high, xs[stop] - xs[at] + TILE + 7, low - high, "frame", 6))
    return marks


def _bracket(track: CallTrack, xs: Sequence[float], y: float, text: str, wide: bool) -> list[Mark]:
    """Under the calls of the odd rank that met another call."""
    row = next(row for row in track.rows if row.odd and row.member)
    behind = [at for at, place in enumerate(row.places) if place.call is not None and at > track.frame and not place.loud]
    if not behind:
        return []
    start, end = xs[behind[0]], xs[behind[-1]] + TILE
    short = text if wide and len(text) * 6.4 < end + 66 else text.partition(":")[0]
    middle = max((start + end) / 2, len(short) * 3.3)
    return [
        Line(((start, y + 4), (start, y + 9), (end, y + 9), (end, y + 4)), "frame"),
        Words(middle, y + 22, short, "wxs", "middle"),
    ]


def _strip(track: CallTrack, left: float, end: float, y: float, wide: bool) -> list[Mark]:
    """All columns at once; lines lead from the part of it that is drawn below."""
    width = end - left
    scale = width / track.num_columns
    first = track.columns[0].left_out * scale
    marks: list[Mark] = [
        Words(left - 10, y + 19, "all calls" if wide and left > 60 else "all", "wm", "end"),
        Box(left, y + 10, width, 9, "all", 1),
    ]
    agree = f"{track.num_agree:,} agree" if track.frame >= 0 else f"{track.num_columns:,} calls"
    marks.append(Words(left + width / 2, y + 5, agree, "wm", "middle"))
    if track.frame >= 0:
        bad = track.num_agree * scale
        marks.append(Box(left + bad, y + 6, max(width - bad, 2), 17, "off", 0))
        off = track.num_columns - track.num_agree
        marks.append(Words(end, y + 5, f"{off:,} off" if off > 1 else "here", "wxs", "end"))
    return [*marks, Line(((left + first, y + 24), (left - 2, y + 41)), "rail"), Line(((end, y + 24), (end - 4, y + 41)), "rail")]
