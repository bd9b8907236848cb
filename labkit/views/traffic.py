"""Who sends how much to whom: a table of bytes, coloured by amount, with every number in it."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from ..document import Code, Details, Heading, Paragraph, Picture, Printed, Tree
from ..errors import UsageError, shown
from ..plain import record
from ..schedule import Schedule, traffic
from ..schedule.checks import check_int
from ..units import format_bytes
from . import _html as h
from ._base import add
from ._text import bands, count, wrapped
from .schedule_style import fill, ink

_NUMBERS = 16  # ranks whose numbers fit into the table; above that the colours alone
_TEXT = 12  # ranks whose numbers fit into lines of text
_LARGEST = 128
_TIGHT = "padding:2px 4px"  # 16 ranks fit 1280 px
_SPECK = 11  # size of a cell without a number
_LEAST_PX = 480  # as wide as squares stay where there is less room


@record
class TrafficMatrix(Printed):
    """Bytes from rank to rank: `num_bytes[src][dst]`. `noun` is what the rows are, ranks or hosts."""

    title: str
    num_bytes: tuple[tuple[int, ...], ...]
    noun: str = "rank"

    @property
    def size(self) -> int:
        return len(self.num_bytes)

    @property
    def sent(self) -> tuple[int, ...]:
        return tuple(sum(row) for row in self.num_bytes)

    @property
    def received(self) -> tuple[int, ...]:
        return tuple(sum(column) for column in zip(*self.num_bytes, strict=True))

    @property
    def pairs(self) -> list[tuple[int, int, int]]:
        """Bytes, sender and receiver of everyone who sends, the most first."""
        found = [(num, src, dst) for src, row in enumerate(self.num_bytes) for dst, num in enumerate(row) if num]
        return sorted(found, key=lambda each: (-each[0], each[1:]))

    def __str__(self) -> str:
        return text(self)


def traffic_matrix(
    source: Any, num_elements: int | None = None, itemsize: int = 4, *, title: str = "", noun: str = "rank"
) -> TrafficMatrix:
    """The matrix of a schedule for a tensor of `num_elements`, or of rows of bytes that were counted elsewhere.

    >>> traffic_matrix([[0, 8], [4, 0]]).pairs
    [(8, 0, 1), (4, 1, 0)]
    """
    if isinstance(source, Schedule):
        itemsize = check_int("itemsize", itemsize)
        if num_elements is None:
            raise UsageError(f"how large is the tensor of {source.name}?", hint="give num_elements")
        num_bytes = _rows(traffic(source, num_elements, itemsize))
        size = format_bytes(num_elements * itemsize)
        named = title or f"{source.name}: {source.promise.title} of {size} on {count(source.world_size, 'rank')}"
        return TrafficMatrix(named, num_bytes, noun)
    rows = _rows(source)
    return TrafficMatrix(title or f"traffic of {count(len(rows), noun)}", rows, noun)


def _rows(source: Any) -> tuple[tuple[int, ...], ...]:
    try:
        given = [list(row) for row in source]
    except TypeError:
        given = []
    if not given or any(len(row) != len(given) for row in given):
        raise UsageError("no square matrix of bytes", hint="give a row for every sender, with a number for every receiver")
    return tuple(tuple(_whole(value) for value in row) for row in given)


def _whole(value: Any) -> int:
    """A number of bytes; a float counts if it is whole, as a sum may be."""
    number = isinstance(value, Integral) or (isinstance(value, Real) and float(value).is_integer())
    if not number:
        raise UsageError(f"{shown(value)} is no number of bytes", hint="give whole numbers from 0")
    if value < 0:
        raise UsageError("bytes below 0", hint="count what is sent")
    return int(value)


def summary(matrix: TrafficMatrix) -> str:
    """Who talks, and how much."""
    pairs = matrix.pairs
    if not pairs:
        return "nobody sends anything"
    most, src, dst = pairs[0]
    least = pairs[-1][0]
    each = format_bytes(most) if least == most else f"{format_bytes(least)} to {format_bytes(most)}"
    said = (
        f"{count(len(pairs), 'pair')} of {matrix.size * (matrix.size - 1)} send {each}, together {format_bytes(sum(matrix.sent))}"
    )
    return said if least == most else f"{said}; the most from {matrix.noun} {src} to {matrix.noun} {dst}"


def text(matrix: TrafficMatrix) -> str:
    lines = [wrapped(matrix.title), wrapped(summary(matrix))]
    if matrix.size <= _TEXT:
        head = ["from \\ to", *(str(rank) for rank in range(matrix.size)), "sends"]
        rows = [
            [f"{matrix.noun} {src}", *(format_bytes(num) if num else "." for num in row), format_bytes(matrix.sent[src])]
            for src, row in enumerate(matrix.num_bytes)
        ]
        last = ["gets", *(format_bytes(num) for num in matrix.received), format_bytes(sum(matrix.sent))]
        return "\n".join([*lines, bands([head, *rows, last], right=range(1, len(head)))])
    lines += [f"{matrix.noun} {src} to {matrix.noun} {dst}: {format_bytes(num)}" for num, src, dst in matrix.pairs[:_TEXT]]
    more = len(matrix.pairs) - _TEXT
    return "\n".join([*lines, *([f"... {count(more, 'more pair')}"] if more > 0 else [])])


def tree(matrix: TrafficMatrix) -> Tree:
    """The matrix with its numbers or its colours; a terminal has the busiest pairs."""
    if matrix.size > _LARGEST:
        drawn = h.as_html([Paragraph(summary(matrix)), Details("the busiest pairs", [Code(text(matrix))])])
    else:
        table = _table(matrix) if matrix.size <= _NUMBERS else _specks(matrix)
        drawn = table + h.as_html([Paragraph(summary(matrix))])
    return [Picture(h.as_html([Heading(matrix.title)]) + drawn, text(matrix))]


def _share(num: int, most: int) -> float:
    return num / most if most else 0.0


def _table(matrix: TrafficMatrix) -> str:
    most = max(map(max, matrix.num_bytes))
    top = "".join(f'<th scope="col" style="{_TIGHT}">to {rank}</th>' for rank in range(matrix.size))
    body = ""
    for src, row in enumerate(matrix.num_bytes):
        cells = "".join(_cell(matrix, src, dst, most) for dst in range(matrix.size))
        total = f"<td><b>{h.esc(format_bytes(sum(row)))}</b></td>"
        body += f'<tr><th scope="row">from {h.esc(matrix.noun)} {src}</th>{cells}{total}</tr>'
    gets = "".join(f'<td style="{_TIGHT}"><b>{h.esc(format_bytes(num))}</b></td>' for num in matrix.received)
    body += f'<tr><th scope="row">gets</th>{gets}<td><b>{h.esc(format_bytes(sum(matrix.sent)))}</b></td></tr>'
    return (
        f'<div class="lk-scroll"><table><thead><tr><th></th>{top}<th scope="col">sends</th></tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(matrix: TrafficMatrix, src: int, dst: int, most: int) -> str:
    num = matrix.num_bytes[src][dst]
    if not num:
        return f'<td style="{_TIGHT};opacity:0.5">·</td>'
    color = fill(_share(num, most))
    about = h.esc(f"{matrix.noun} {src} to {matrix.noun} {dst}: {num:,} bytes")
    return f'<td title="{about}" style="{_TIGHT};background:{color};color:{ink(color)}">{h.esc(format_bytes(num))}</td>'


def _specks(matrix: TrafficMatrix) -> str:
    """A square per pair, for worlds whose numbers would not fit."""
    most, left, top = max(map(max, matrix.num_bytes)), 34, 30
    width, height = left + _SPECK * matrix.size + 4, top + _SPECK * matrix.size + 4
    frame = (
        f'<rect x="{left}" y="{top}" width="{_SPECK * matrix.size}" height="{_SPECK * matrix.size}" fill="none" '
        'stroke="currentColor" stroke-opacity="0.45"/>'
    )
    parts = [frame]
    for rank in range(0, matrix.size, 8):
        middle = _SPECK * rank + _SPECK / 2
        parts.append(f'<text x="{left + middle}" y="{top - 6}" text-anchor="middle">{rank}</text>')
        parts.append(f'<text x="{left - 6}" y="{top + middle + 4}" text-anchor="end">{rank}</text>')
    for num, src, dst in matrix.pairs:
        about = h.esc(f"{matrix.noun} {src} to {matrix.noun} {dst}: {format_bytes(num)}")
        place = f'x="{left + _SPECK * dst}" y="{top + _SPECK * src}" width="{_SPECK - 1}" height="{_SPECK - 1}"'
        parts.append(f'<rect {place} fill="{fill(_share(num, most))}"><title>{about}</title></rect>')
    label = h.esc(f"{matrix.title}: senders from top to bottom, receivers from left to right")
    style = f"display:block;width:100%;max-width:{width}px;min-width:{min(width, _LEAST_PX)}px;height:auto"
    corner = f'<text x="{left}" y="10">to, from left to right; from, down</text>'
    return (
        '<div class="lk-scroll">'
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{label}" '
        f'fill="currentColor" font-size="10" style="{style}">{corner}{"".join(parts)}</svg></div>'
    )


add(TrafficMatrix, tree)
