"""What the doctor found: a table, its worst lines first to the eye, what to do beside each."""

from __future__ import annotations

from typing import Any

from ..document import Block, Cell, Paragraph, Picture, Table, Tree, as_text
from ..units import format_seconds
from . import _html as h
from ._base import add
from ._text import count

_MARKS = {"ok": ("✓", "ok", "good"), "note": ("i", "note", "info"), "warn": ("!", "WARN", "wait"), "fail": ("✗", "FAIL", "bad")}


def summary(report: Any) -> str:
    """The line that it all comes to."""
    fails, warns, notes = (report.count(status) for status in ("fail", "warn", "note"))
    ranks = count(report.ranks, "rank")
    besides = " and ".join(count(number, word) for number, word in ((warns, "warning"), (notes, "note")) if number)
    if fails:
        return f"{count(fails, 'thing')} will not work for {ranks}" + (f"; besides, {besides}" if besides else "")
    return f"Ready for {ranks}" + (f", with {besides}" if besides else "")


def tree(report: Any) -> Tree:
    """The summary stands last in a terminal, where the eye is then, and first on a page."""
    accent = "bad" if not report.ok else ("wait" if report.count("warn") else "good")
    lead = Paragraph(
        f"{summary(report)}. ({format_seconds(report.elapsed_s)})", "lead", mark=_MARKS["ok" if report.ok else "fail"][0]
    )
    table = _table(report.results) if report.results else Paragraph("nothing was checked")
    return [Block([Picture(html=h.as_html([lead])), table, Picture(text=as_text([lead]))], accent)]


def _table(results: Any) -> Table:
    return Table(("status", "check", "finding"), [_row(each) for each in results], words=True, row_head=1, head_in_text=False)


def _row(result: Any) -> list[str | Cell]:
    symbol, word, accent = _MARKS[result.status]
    step = f'<div class="lk-next">→ {h.words(result.next_step)}</div>' if result.next_step else ""
    finding = f"{result.detail}\n-> {result.next_step}" if result.next_step else result.detail
    status = Cell(word, f"{symbol} {word}", f"lk-status lk-{accent}")
    return [status, result.title, Cell(finding, h.words(result.detail) + step)]


add(("labkit.doctor.records", "DoctorReport"), tree)
add(("labkit.doctor.records", "CheckResult"), lambda result: [_table([result])])
