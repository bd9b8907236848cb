"""A timeline as a still picture: drawn once, needs no script, and follows the page's theme."""

from __future__ import annotations

import math

from ..timeline import Bar, Timeline
from . import _html as h
from ._marks import MARKS, Mark, about, end_of, marks, meets, unit

_WIDTH, _LEFT, _RIGHT = 760, 56, 14
_ROW, _TALL, _FLAT, _TOP = 32, 22, 6, 8
_CHARACTER = 6.6  # of 11 px
_HATCHES = {
    "/": "M-2,2L2,-2M0,8L8,0M6,10L10,6", "x": "M0,0L8,8M8,0L0,8", "-": "M0,4L8,4", "|": "M4,0L4,8",
    "+": "M0,4L8,4M4,0L4,8", ".": "M3,4L5,4",
}  # fmt: skip


def picture(line: Timeline) -> str:
    """The SVG: a row per rank, an axis of time, and what the marks mean."""
    used = marks(line)
    scale = (_WIDTH - _LEFT - _RIGHT) / (line.span_s or 1.0)
    bottom = _TOP + _ROW * line.world_size
    parts = [_defs(used.values())]
    for rank in range(line.world_size):
        middle = _TOP + _ROW * rank + _ROW / 2
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{middle}" y2="{middle}" class="lk-rail"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{middle + 4}" text-anchor="end">rank {rank}</text>')
    parts += [_bar(bar, line, used[bar.op], scale) for bar in line.bars]
    parts += _ticks(line.span_s, scale, bottom)
    parts += _legend(line, used, bottom + 44)
    height = bottom + 44 + 20 * _legend_rows(used)
    label = h.esc(f"calls of {line.world_size} ranks along time")
    return f'<svg class="lk-timeline" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _defs(used: object) -> str:
    found = "".join(
        f'<pattern id="lk-hatch-{MARKS.index(mark)}" width="8" height="8" patternUnits="userSpaceOnUse">'
        f'<rect width="8" height="8" fill="{mark.color}"/>'
        f'<path d="{_HATCHES[mark.hatch]}" stroke="{mark.ink}" stroke-opacity="0.45" fill="none"/></pattern>'
        for mark in used  # type: ignore[attr-defined]
        if mark.hatch
    )
    return f"<defs>{found}</defs>"


def _fill(mark: Mark) -> str:
    return f"url(#lk-hatch-{MARKS.index(mark)})" if mark.hatch else mark.color


def _bar(bar: Bar, line: Timeline, mark: Mark, scale: float) -> str:
    start, met, end = (_LEFT + seconds * scale for seconds in (bar.issued_s, meets(bar, line), end_of(bar, line)))
    middle = _TOP + _ROW * bar.rank + _ROW / 2
    drawn = f"<title>{h.esc(chr(10).join(about(bar, line)))}</title>"
    if met - start > 0.5 or bar.met_s is None:
        drawn += (
            f'<rect x="{start:.1f}" y="{middle - _FLAT / 2}" width="{max(met - start, 1):.1f}" height="{_FLAT}" '
            f'fill="{mark.color}" class="lk-wait-bar"/>'
        )
    if bar.met_s is not None:
        drawn += (
            f'<rect x="{met:.1f}" y="{middle - _TALL / 2}" width="{max(end - met, 1.5):.1f}" height="{_TALL}" '
            f'fill="{_fill(mark)}" class="lk-work-bar"/>'
        )
    drawn += _words(bar, line, mark, (start, met, end), middle)
    if bar.returned_s is None:
        drawn += f'<text x="{end - 2:.1f}" y="{middle + 5}" text-anchor="end" class="lk-open">▸</text>'
    return f"<g>{drawn}</g>"


def _words(bar: Bar, line: Timeline, mark: Mark, at: tuple[float, float, float], middle: float) -> str:
    """The call's name on the work if it has room there, else above the wait, else nowhere: the hover has it."""
    start, met, end = at
    for name in (str(bar), f"#{bar.seq}" if bar.seq else ""):
        need = len(name) * _CHARACTER + 8
        if name and bar.met_s is not None and end - met > need:
            plate = f'<text x="{(met + end) / 2:.1f}" y="{middle + 4}" text-anchor="middle" class="lk-plate" '
            return plate + f'style="fill:{mark.ink};stroke:{mark.color}">{h.esc(name)}</text>'
        if name and met - start > need:
            return f'<text x="{start + 4:.1f}" y="{middle - 5}" class="lk-name">{h.esc(name)}</text>'
    return ""


def ticks(span_s: float) -> list[float]:
    """Round numbers of seconds, at most seven.

    >>> [round(t, 3) for t in ticks(0.31)]
    [0.0, 0.1, 0.2, 0.3]
    """
    if span_s <= 0:
        return [0.0]
    power = 10.0 ** math.floor(math.log10(span_s / 4))
    step = next(power * n for n in (1, 2, 5, 10) if span_s / (power * n) <= 6)
    return [step * n for n in range(int(span_s / step + 1e-9) + 1)]


def _ticks(span_s: float, scale: float, bottom: float) -> list[str]:
    factor, name = unit(span_s)
    parts = []
    for seconds in ticks(span_s):
        x = _LEFT + seconds * scale
        anchor = "middle" if x < _WIDTH - 40 else "end"
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom + 4}" class="lk-rail"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="{anchor}">{seconds * factor:g} {name}</text>')
    return parts


def _legend_entries(used: dict[str, Mark]) -> list[tuple[str, Mark | None]]:
    return [*used.items(), ("waits for the last rank (thin)", None)]


def _legend_rows(used: dict[str, Mark]) -> int:
    return max(row for _, _, row, _ in _legend_places(used)) + 1


def _legend_places(used: dict[str, Mark]) -> list[tuple[str, float, int, Mark | None]]:
    """Entries from left to right, in as many rows as it takes."""
    places: list[tuple[str, float, int, Mark | None]] = []
    x, row = float(_LEFT), 0
    for name, mark in _legend_entries(used):
        width = 30 + len(name) * _CHARACTER + 16
        if x + width > _WIDTH and x > _LEFT:
            x, row = float(_LEFT), row + 1
        places.append((name, x, row, mark))
        x += width
    return places


def _legend(line: Timeline, used: dict[str, Mark], top: float) -> list[str]:
    parts = []
    for name, x, row, mark in _legend_places(used):
        y = top + 20 * row
        if mark is None:
            parts.append(f'<rect x="{x}" y="{y - 7}" width="22" height="{_FLAT}" class="lk-wait-bar" fill="#888888"/>')
        else:
            parts.append(f'<rect x="{x}" y="{y - 11}" width="22" height="14" fill="{_fill(mark)}" class="lk-work-bar"/>')
        parts.append(f'<text x="{x + 28}" y="{y}">{h.esc(name)}</text>')
    return parts
