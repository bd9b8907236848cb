"""The picture of calls on a page: the verdict's sentence, an alignment for each group, who is where, and what marks mean."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..callgrid import CallGrid, CallTrack
from ..document import Block, Code, Group, Node, Paragraph, Picture, Tree, as_text
from ..errors import count, join_ranks
from ..wire import Call, Side
from . import _call_words as say
from . import _html as h
from ._base import add
from ._call_arrows import draw_messages
from ._call_marks import CHARACTER, STEP, draw_tile, draw_track
from ._call_text import as_lines
from ._strokes import Box, Dot, Drawing, Line, Mark, Words, svg
from ._text import one_line, sentence

_NARROW = 345 - 24  # pixels: the narrowest page without its margins
_MARKS = {"bad": "✗", "wait": "…", "good": "✓"}


def drawn(grid: CallGrid, sides: Sequence[Node] = ()) -> str:
    """The groups and messages side by side, as many as fit, with who is where; and what the marks mean. "" without calls."""
    named = len(grid.tracks) > 1 or grid.messages is not None
    parts = [_track(grid, track, named) for track in grid.tracks]
    parts += [svg(draw_messages(grid))] if grid.messages is not None else []
    if not parts:
        return ""
    beside = h.as_html([Group(sides, "lk-sides lk-callsites")]) if sides else ""
    return f'<div class="lk-calls"><div class="lk-callrow">{"".join(parts)}{beside}</div>{_key(grid)}</div>'


def _track(grid: CallGrid, track: CallTrack, named: bool) -> str:
    wide = draw_track(grid, track, named=named)
    if wide.width <= _NARROW:
        return svg(wide)
    label = max((max(len(text) for text in say.label(row, grid)) for row in track.rows), default=6)
    room = max(3, int((_NARROW - 60 - 14 - label * CHARACTER) / STEP) - (1 if track.num_columns > 6 else 0))
    return svg(wide, "lk-wide") + svg(draw_track(grid, say.narrowed(track, room), named=named, wide=False), "lk-narrow")


def calls_of(grid: CallGrid) -> dict[str, Call]:
    """One call of each kind that is drawn, in the order in which they come."""
    places = [place for track in grid.tracks for row in track.rows for place in row.places if place.call is not None]
    found: dict[str, Call] = {}
    for place in places:
        if place.call is not None:
            found.setdefault(say.kind(place.call), place.call)
    return found


def legend(grid: CallGrid) -> list[tuple[tuple[Mark, ...], float, str]]:
    """What each mark means: marks, their width in pixels, words."""
    places = [place for track in grid.tracks for row in track.rows for place in row.places]
    found: list[tuple[tuple[Mark, ...], float, str]] = [
        (tuple(draw_tile(call, 1, 1, 22)), 32.0, name) for name, call in calls_of(grid).items()
    ]
    lines = [track for track in grid.tracks if say.lines_matter(track)]
    numbered = [p.call.site for t in lines for r in t.rows for p in r.places if p.call is not None and p.call.site is not None]
    if numbered:
        found.append(((Words(10, 16, str(numbered[0].line), "wsl", "middle"),), 22.0, "small number: the line"))
    if grid.messages is not None:
        arrow = (Dot(6, 12, 4, "pd"), Line(((6, 12), (24, 12)), "pd"), Line(((22, 7), (31, 12), (22, 17)), "ph"))
        found.append((arrow, 32.0, "send to recv"))
    if any(place.is_open for place in places):
        found.append(((Box(2, 3, 18, 16, "oa"), Line(((25, 11), (39, 11)), "tail")), 42.0, "waits, not returned"))
    if any(place.hole for place in places):
        found.append(((Box(2, 3, 18, 16, "hole"),), 22.0, "no call"))
    if any(len(row.ranks) > 1 for track in grid.tracks for row in track.rows):
        edges = tuple(Line(((2, y), (20, y)), "rail") for y in (7, 11, 15))
        found.append((edges, 22.0, "equal rows, folded"))
    return found


def _key(grid: CallGrid) -> str:
    parts = (f"<span>{svg(Drawing(width, 24, marks))}{h.esc(words)}</span>" for marks, width, words in legend(grid))
    return f'<div class="lk-callkey">{"".join(parts)}</div>'


def side_parts(sides: Sequence[Side], culprits: Collection[int]) -> list[Node]:
    """Who did what, at which line, with the line quoted."""
    return [_side(side, set(side.ranks) <= set(culprits)) for side in sides]


def side_line(side: Side) -> str:
    """For instance "rank 2: called broadcast #5 (cell 7, line 3)"."""
    return f"{join_ranks(side.ranks)}: {side.did}" + (f" ({side.site})" if side.site is not None else "")


def _side(side: Side, odd: bool) -> Group:
    source: list[Node] = [Code(one_line(side.source, 120), "source", indent=6)] if side.source else []
    return Group([Paragraph(side_line(side), indent=2), *source], "lk-side lk-odd" if odd else "lk-side")


def picture(grid: CallGrid, *, in_text: bool = True, short: bool = False) -> list[Node]:
    """The picture with the call sites beside it; in a terminal they stand below it, and alone unless `in_text`.

    `short`: in a terminal only the groups in which the ranks part.
    """
    sides = side_parts(grid.sides, grid.culprits)
    below = as_text(sides)
    lines = as_lines(grid, short=short) if in_text else []
    html = drawn(grid, sides)
    if not html:
        return [Group(sides, "lk-sides")] if sides else []
    return [Picture(html, "\n".join(filter(None, [*lines, below])))]


def tree(grid: CallGrid) -> Tree:
    """The sentence first, then the picture, then the call sites."""
    lead = Paragraph(sentence(grid.sentence), "lead", mark=_MARKS.get(grid.accent, ""), label=grid.code, tag=grid.code)
    notes = [Paragraph(say.detail(track), "detail") for track in say.main(grid)]
    more = [Paragraph(f"{count(grid.groups_left_out, 'more group')} not drawn", "detail")] if grid.groups_left_out else []
    return [Block([lead, *notes, *picture(grid), *more], grid.accent if grid.accent in _MARKS else "")]


add(CallGrid, tree)
