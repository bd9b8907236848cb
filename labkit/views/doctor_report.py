"""What the doctor found: a table, its worst lines first to the eye, what to do beside each."""

from __future__ import annotations

from typing import Any

from ..units import format_seconds
from . import _html as h
from ._base import add
from ._text import columns, count

_MARKS = {"ok": ("✓", "ok", "good"), "note": ("i", "note", "info"), "warn": ("!", "WARN", "wait"), "fail": ("✗", "FAIL", "bad")}


def summary(report: Any) -> str:
    """The line that it all comes to."""
    fails, warns, notes = (report.count(status) for status in ("fail", "warn", "note"))
    ranks = count(report.ranks, "rank")
    besides = " and ".join(count(number, word) for number, word in ((warns, "warning"), (notes, "note")) if number)
    if fails:
        return f"{count(fails, 'thing')} will not work for {ranks}" + (f"; besides, {besides}" if besides else "")
    return f"Ready for {ranks}" + (f", with {besides}" if besides else "")


def text(report: Any) -> str:
    lines = [line for result in report.results for line in _lines(result)]
    table = columns(lines) if lines else "nothing was checked"
    return f"{table}\n{summary(report)}. ({format_seconds(report.elapsed_s)})"


def _lines(result: Any) -> list[list[str]]:
    lines = [[_MARKS[result.status][1], result.title, result.detail]]
    return lines + ([["", "", f"-> {result.next_step}"]] if result.next_step else [])


def html(report: Any) -> str:
    accent = "bad" if not report.ok else ("wait" if report.count("warn") else "good")
    lead = h.para(f"{_MARKS['ok' if report.ok else 'fail'][0]} {summary(report)}", "lk-lead")
    return h.block(lead + f'<div class="lk-scroll">{_table(report.results)}</div>', accent)


def _table(results: Any) -> str:
    rows = "".join(_row(result) for result in results)
    head = "".join(f'<th scope="col">{name}</th>' for name in ("status", "check", "finding"))
    return f'<table class="lk-words"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _row(result: Any) -> str:
    symbol, word, accent = _MARKS[result.status]
    step = f'<div class="lk-next">→ {h.esc(result.next_step)}</div>' if result.next_step else ""
    return (
        f'<tr data-status="{h.esc(result.status)}"><td class="lk-status lk-{accent}">{symbol} {word}</td>'
        f'<th scope="row">{h.esc(result.title)}</th><td>{h.esc(result.detail)}{step}</td></tr>'
    )


def check_text(result: Any) -> str:
    return columns(_lines(result))


def check_html(result: Any) -> str:
    return _table([result])


add(("labkit.doctor.records", "DoctorReport"), text, html)
add(("labkit.doctor.records", "CheckResult"), check_text, check_html)
