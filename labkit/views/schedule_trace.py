"""A schedule's frames as a record draws itself: the schedule's text, and its first and last step as pictures."""

from __future__ import annotations

from ..schedule import Trace
from ..schedule.trace import StepFrame
from . import _html as h
from . import schedule_plain as plain
from ._base import add
from ._text import count
from .problem import several
from .schedule_geometry import place
from .schedule_svg import WIDTH, svg

_STEPS = 24  # lines of the text form
_WIDE = 200  # characters of a line


def text(trace: Trace) -> str:
    """Short enough to read: a line per step, then who sent how much, then what is wrong."""
    lines = [plain.title(trace)]
    lines += [_line(frame) for frame in trace.frames[:_STEPS]]
    if len(trace.frames) > _STEPS:
        lines.append(f"... {count(len(trace.frames) - _STEPS, 'more step')}")
    lines.append(f"at the end {plain.summary(trace, len(trace.frames))}")
    return "\n".join([*lines, *(problem.sentence for problem in trace.problems)])


def _line(frame: StepFrame) -> str:
    moves = " ".join(
        f"{t.src}>{t.dst}{'+' if t.reduce else '='}{plain.chunk_range(t.chunk_lo, t.chunk_hi)}" for t in frame.transfers
    )
    line = f"{frame.step} {frame.phase or '-'}: {moves}"
    if len(line) <= _WIDE:
        return line
    cut = line[:_WIDE].rsplit(" ", 1)[0]
    return f"{cut} ... {count(len(frame.transfers), 'transfer')}"


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
        + h.details("every step as text", h.pre(text(trace)))
    )


add(Trace, text, html)
