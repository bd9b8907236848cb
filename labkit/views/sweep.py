"""A sweep over sizes: a table for each contestant, with what a fit makes of it."""

from __future__ import annotations

from ..schedule.sweeps import Point, Sweep, average, fitted, reduce_op, title
from ..units import format_bytes, format_seconds
from . import _html as h
from ._base import add
from ._recorded import block
from ._text import sentence


def text(sweep: Sweep) -> str:
    """The record's own text."""
    return str(sweep)


def _facts(sweep: Sweep, point: Point) -> str:
    warm = f", after {sweep.warmups} to warm up" if sweep.warmups else ", without warm-up"
    op = reduce_op(point)
    return f"{title(point)} rounds{warm} ({sweep.backend}, {point.dtype}{'' if op == 'none' else f', {op}'})"


def _row(point: Point, digits: int) -> list[str]:
    times = (format_seconds(seconds) for seconds in (point.median_s, point.low_s, point.high_s))
    speeds = (f"{speed:.{digits}f}" for speed in (point.algbw_gb_per_s, point.busbw_gb_per_s))
    return [format_bytes(point.num_bytes), f"{point.count:,}", *times, *speeds]


def _table(points: tuple[Point, ...]) -> str:
    digits = 1 if max(point.busbw_gb_per_s for point in points) >= 10 else 4
    head = ["size", "elements", "time", "low", "high", "algbw, GB/s", "busbw, GB/s"]
    return h.table(head, [_row(point, digits) for point in points])


def html(sweep: Sweep) -> str:
    body = h.para(sentence(sweep.where[0].upper() + sweep.where[1:])) if sweep.where and sweep.points else ""
    for name in sweep.names:
        points = sweep.of(name)
        body += h.para(_facts(sweep, points[0]), "lk-lead") + _table(points)
        body += "".join(h.para(sentence(line[0].upper() + line[1:])) for line in (average(points), fitted(sweep, name)) if line)
    ended = f"ended early: {sweep.error}" if sweep.error else ""
    if sweep.interrupted:
        ended = "interrupted: this was measured until then"
    if ended:
        body += h.para(f"… {ended}", "lk-lead")
    return block(body or h.para("nothing was measured"), sweep.source, "wait" if ended else "")


add(Sweep, text, html)
