"""A schedule's frames: its text, its first and last step as pictures; and what is wrong with a schedule, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from ..document import Block, Code, Details, Heading, Items, Node, Paragraph, Picture, Tree
from ..schedule import Problem
from ..schedule.trace import Trace, as_text
from . import _html as h
from . import schedule_plain as plain
from ._base import add
from .schedule_geometry import place
from .schedule_svg import WIDTH, svg

_WIDE = 200  # characters of a line where one can scroll
_SHOWN = 4  # sentences that stand open; the rest can be opened


def several(problems: Sequence[Problem]) -> list[Node]:
    """One block for all of them; none for no problem."""
    if not problems:
        return []
    shown: list[Node] = [Paragraph(each.sentence, "lead", mark="✗") for each in problems[:_SHOWN]]
    left = problems[_SHOWN:]
    if left:
        shown.append(Details(f"and {len(left)} more", [Items([each.sentence for each in left])]))
    return [Block(shown, "bad")]


def tree(trace: Trace) -> Tree:
    """Two pictures, what it comes to, and what is wrong; every step as text can be opened."""
    scene, last = place(trace), len(trace.frames)
    width = max(scene.width, WIDTH)
    pictures = ""
    for position in dict.fromkeys((min(1, last), last)):
        words = h.as_html([Paragraph(plain.said(trace, position))])
        style = f"flex:1 1 {min(width, 600):.0f}px;min-width:0;max-width:{width:.0f}px"
        pictures += f'<div class="lk-scroll" style="{style}">{svg(trace, position, scene)}{words}</div>'
    drawn: list[Node] = [
        Heading(plain.title(trace)),
        Picture(f'<div class="lk-grids">{pictures}</div>'),
        Paragraph(f"At the end {plain.summary(trace, last)}."),
        *several(trace.problems),
        Details("every step as text", [Code(as_text(trace, _WIDE, lines=1))]),
    ]
    return [Picture(h.as_html(drawn), str(trace))]


add(Trace, tree)
add(Problem, lambda problem: several([problem]))
