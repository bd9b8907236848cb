"""The report as text for a terminal and as a table for a notebook.

A status is always a word, so that neither form needs colour to be read.
"""

from __future__ import annotations

import html
import io

from ..units import format_seconds
from .records import CheckResult, DoctorReport

_WORDS = {"ok": "ok", "note": "note", "warn": "WARN", "fail": "FAIL"}
_STYLES = {"ok": "green", "note": "cyan", "warn": "bold yellow", "fail": "bold red"}


def to_text(report: DoctorReport, *, width: int = 100, color: bool = False) -> str:
    """The report as lines of at most `width` characters, with ANSI colours if asked for."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    for result in report.results:
        detail = Text(result.detail)
        if result.next_step:
            detail.append(f"\n-> {result.next_step}", style="bold" if result.status in ("warn", "fail") else "")
        table.add_row(Text(_WORDS[result.status], style=_STYLES[result.status]), result.title, detail)
    out = io.StringIO()
    console = Console(
        file=out,
        width=max(width, 40),
        force_terminal=color,
        no_color=not color,
        color_system="standard" if color else None,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(table)
    console.print()
    console.print(Text(summary(report), style=_STYLES["ok" if report.ok else "fail"]))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def summary(report: DoctorReport) -> str:
    """The last line: what it all comes to.

    >>> summary(DoctorReport((CheckResult("shm", "Shared memory", "warn", "64 MiB"),), ranks=4, elapsed_s=2.0))
    'Ready for 4 ranks, with 1 warning. (2.00 s)'
    """
    fails, warns, notes = (report.count(status) for status in ("fail", "warn", "note"))
    ranks = _many(report.ranks, "rank")
    besides = " and ".join(_many(count, word) for count, word in ((warns, "warning"), (notes, "note")) if count)
    if fails:
        first = f"{_many(fails, 'thing')} will not work for {ranks}"
        tail = f"; besides, {besides}" if besides else ""
    else:
        first, tail = f"Ready for {ranks}", f", with {besides}" if besides else ""
    return f"{first}{tail}. ({format_seconds(report.elapsed_s)})"


def _many(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def to_html(report: DoctorReport) -> str:
    """The report as a plain table; no script, no external file, every value escaped."""
    head = "".join(f'<th scope="col" style="text-align:left">{name}</th>' for name in ("Status", "Check", "Finding"))
    rows = "".join(_row(result) for result in report.results)
    caption = html.escape(summary(report))
    return (
        '<table role="table" class="labkit-doctor" style="border-collapse:collapse">'
        f'<caption style="text-align:left">{caption}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    )


def _row(result: CheckResult) -> str:
    weight = "bold" if result.status in ("warn", "fail") else "normal"
    step = f'<br><span class="labkit-next">&rarr; {html.escape(result.next_step)}</span>' if result.next_step else ""
    return (
        f'<tr data-status="{html.escape(result.status)}">'
        f'<td style="font-weight:{weight};vertical-align:top">{_WORDS[result.status]}</td>'
        f'<th scope="row" style="text-align:left;vertical-align:top">{html.escape(result.title)}</th>'
        f'<td style="text-align:left">{html.escape(result.detail)}{step}</td></tr>'
    )
