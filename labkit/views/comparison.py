"""All-reduce algorithms side by side on live ranks: a bar and its spread for each, the library's own last."""

from __future__ import annotations

from ..schedule.records import Comparison, Timing
from ..units import format_bytes, format_seconds
from . import _html as h
from ._bars import span
from ._base import add
from ._recorded import block
from ._text import count

_KEY = "The bar is the median, the line reaches from the quickest to the slowest."  # below the table


def text(found: Comparison) -> str:
    """The record's own text."""
    return str(found)


def _row(found: Comparison, each: Timing, most: float) -> str:
    median, low, high = (format_seconds(seconds) for seconds in (each.median_s, each.low_s, each.high_s))
    speed = "" if each is found.library else f"{found.speed(each.name):.2f}"
    drawn = span(each.low_s, each.median_s, each.high_s, most, f"{each.name}: {median}, from {low} to {high}")
    cells = "".join(f"<td>{h.esc(words)}</td>" for words in (median, f"{low} to {high}", speed))
    return f'<tr><th scope="row">{h.esc(each.name)}</th><td>{drawn}</td>{cells}</tr>'


def html(found: Comparison) -> str:
    what = f"all-reduce of {format_bytes(found.num_bytes)} of {found.dtype} on {count(found.world_size, 'rank')}"
    head = f"{what}, {count(len(found.library.times_s), 'round')} in turn{f', {found.where}' if found.where else ''}"
    names = ("", "time", "median", "low to high", "× the library's speed")
    columns = "".join(f'<th scope="col">{h.esc(name)}</th>' for name in names)
    most = max(each.high_s for each in found.timings)
    rows = "".join(_row(found, each, most) for each in found.timings)
    table = f'<div class="lk-scroll"><table><thead><tr>{columns}</tr></thead><tbody>{rows}</tbody></table></div>'
    return block(table + h.para(f"{_KEY} {found.ratios}".rstrip(), "lk-tag"), found.source, head=head)


add(Comparison, text, html)
