"""The whole picture of calls as one drawing of fixed size: for a slide, where nothing wraps and nothing can be pointed at."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import replace

from ..callgrid import CallGrid
from . import _call_words as say
from ._call_arrows import draw_messages
from ._call_marks import draw_track
from ._html import esc
from ._strokes import Box, Dot, Drawing, Group, Line, Mark, Words, color, markup, number
from ._text import sentence
from .calls import legend, side_line

_WIDE, _MARGIN, _LINE = 960, 24, 19  # pixels
_FONT = "system-ui, 'DejaVu Sans', sans-serif"


def compose(grid: CallGrid) -> Drawing:
    """Sentence, pictures, call sites and key, below each other."""
    marks: list[Mark] = []
    y = _MARGIN + 12.0
    for at, line in enumerate(textwrap.wrap(sentence(grid.sentence), 104)):
        marks.append(Words(_MARGIN, y, ("× " if grid.accent == "bad" and not at else "") + line, "wb"))
        y += _LINE
    for track in say.main(grid):
        marks.append(Words(_MARGIN, y, say.detail(track), "wm"))
        y += _LINE
    named = len(grid.tracks) > 1 or grid.messages is not None
    drawings = [draw_track(grid, track, named=named) for track in grid.tracks]
    drawings += [draw_messages(grid)] if grid.messages is not None else []
    placed, y = _placed(drawings, y + 4)
    marks += placed
    for side in grid.sides:
        odd = set(side.ranks) <= set(grid.culprits)
        marks.append(Box(_MARGIN, y, 5 if odd else 3, 30 if side.source else 14, "off" if odd else "late", 0))
        marks.append(Words(_MARGIN + 12, y + 11, textwrap.shorten(side_line(side), 130), "wx" if odd else "w"))
        marks += [Words(_MARGIN + 12, y + 28, textwrap.shorten(side.source, 120), "wm")] if side.source else []
        y += 42 if side.source else 24
    x = float(_MARGIN)
    for shown, width, words in legend(grid):
        if x + width + len(words) * 6.4 > _WIDE - _MARGIN:
            x, y = float(_MARGIN), y + 28
        marks += shift(shown, x, y)
        marks.append(Words(x + width + 5, y + 16, words, "wm"))
        x += width + 24 + len(words) * 6.4
    width = max([_WIDE, *(drawing.width + 2 * _MARGIN for drawing in drawings)])
    return Drawing(width, y + 24 + _MARGIN, tuple(marks), grid.sentence)


def _placed(drawings: Iterable[Drawing], top: float) -> tuple[list[Mark], float]:
    """The drawings beside each other, as many as fit, and where they end."""
    marks: list[Mark] = []
    x, y, high = float(_MARGIN), top, 0.0
    for drawing in drawings:
        if x > _MARGIN and x + drawing.width > _WIDE - _MARGIN:
            x, y, high = float(_MARGIN), y + high + 12, 0.0
        marks += shift(drawing.marks, x, y)
        x, high = x + drawing.width + 26, max(high, drawing.height)
    return marks, y + high + 10


def shift(marks: Iterable[Mark], x: float, y: float) -> list[Mark]:
    """The marks moved to the right and down."""
    moved: list[Mark] = []
    for mark in marks:
        match mark:
            case Group():
                moved.append(replace(mark, marks=tuple(shift(mark.marks, x, y))))
            case Line():
                moved.append(replace(mark, points=tuple((a + x, b + y) for a, b in mark.points)))
            case Box() | Dot() | Words():
                moved.append(replace(mark, x=mark.x + x, y=mark.y + y))
    return moved


def still(grid: CallGrid, theme: str = "light") -> str:
    """The picture as an SVG that stands by itself: plain colours, no script, no styles of a page."""
    drawing = compose(grid)
    size = f'width="{number(drawing.width)}" height="{number(drawing.height)}"'
    view = f'viewBox="0 0 {number(drawing.width)} {number(drawing.height)}"'
    ground = f'<rect width="100%" height="100%" fill="{color("bg", theme)}"/>'
    body = ground + markup(drawing.marks, theme)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view} font-family="{_FONT}">'
    return f"{head}<title>{esc(drawing.about)}</title>{body}</svg>"
