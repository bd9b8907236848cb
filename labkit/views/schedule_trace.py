"""A schedule's frames as a record draws itself: the schedule's text, and its first and last step as pictures."""

from __future__ import annotations

from ..schedule.trace import Trace, as_text
from . import _html as h
from . import schedule_plain as plain
from ._base import add
from .problem import several
from .schedule_geometry import place
from .schedule_svg import WIDTH, svg

_WIDE = 200  # characters of a line where one can scroll


def text(trace: Trace) -> str:
    """The record's own text."""
    return str(trace)


def html(trace: Trace) -> str:
    scene, last = place(trace), len(trace.frames)
    width = max(scene.width, WIDTH)
    pictures = ""
    for position in dict.fromkeys((min(1, last), last)):
        words = h.para(plain.said(trace, position))
        style = f"flex:1 1 {min(width, 600):.0f}px;min-width:0;max-width:{width:.0f}px"
        pictures += f'<div class="lk-scroll" style="{style}">{svg(trace, position, scene)}{words}</div>'
    wrong = several(trace.problems)
    end = h.para(f"At the end {plain.summary(trace, last)}.")
    return (
        f'<div class="lk-head">{h.esc(plain.title(trace))}</div><div class="lk-grids">{pictures}</div>{end}{wrong}'
        + h.details("every step as text", h.pre(as_text(trace, _WIDE, lines=1)))
    )


add(Trace, text, html)
