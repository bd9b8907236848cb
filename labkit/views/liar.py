"""A table as a bandwidth tool prints it, to be read with doubt."""

from __future__ import annotations

from typing import Any

from . import _html as h
from ._base import add

_HEAD = ("size (B)", "count", "type", "time (µs)", "algbw, GB/s", "busbw, GB/s")


def text(table: Any) -> str:
    """As the tool prints it."""
    return repr(table)


def html(table: Any) -> str:
    rows = [
        [str(size), str(count), "float", f"{seconds * 1e6:.1f}", f"{algbw:.3f}", f"{busbw:.3f}"]
        for size, count, seconds, algbw, busbw in table.lines
    ]
    return f'<div class="lk-head">{h.esc(table.title)}</div>{h.para(table.facts, "lk-tag")}{h.table(_HEAD, rows)}'


add(("labkit.exercises.lab03_tables", "Liar"), text, html)
