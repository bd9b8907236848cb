"""The findings as a table for a terminal, as Markdown, and as JSON. Pure."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from labkit.units import format_bytes

from .core import Goal, Measure, Row, Series

Findings = Sequence[tuple[Measure, Sequence[Row]]]
HEAD = ("what", "labkit", "beside", "ratio", "goal", "verdict")
INTRODUCTION = """Written by `python -m benchmarks --markdown docs/figures.md`; nothing in it is edited by hand.
Both sides of a row are measured in turn, in one run on one machine: read ratios, not times.
A value is a median, with the least and the greatest behind it. A ratio is the median of the ratios of neighbours in time."""
_COLORS = {"met": "green", "NOT MET": "bold red", "failed": "bold red"}


def number(value: float, unit: str) -> str:
    """A value with its unit, three digits.

    >>> number(0.0123, "s"), number(2.5e9, "bytes/s"), number(1.0, "")
    ('12.3 ms', '2.33 GiB/s', '1')
    """
    if unit == "s":
        if value < 1e-3:
            return f"{value * 1e6:.3g} µs"
        return f"{value * 1e3:.3g} ms" if value < 1 else f"{value:.3g} s"
    if unit.startswith("bytes"):
        return format_bytes(round(value)) + unit[5:]
    return f"{value:.3g}{' ' if unit else ''}{unit}"


def spread(series: Series | None) -> str:
    """Median and, if there are several values, their least and greatest."""
    if series is None:
        return "-"
    middle = number(series.median, series.unit)
    if len(series.values) == 1:
        return middle
    return f"{middle} ({number(series.low, series.unit)} to {number(series.high, series.unit)})"


def goal_text(goal: Goal | None, unit: str = "s") -> str:
    """The bound in words."""
    if goal is None:
        return "-"
    bound = f"{goal.limit:g}x" if goal.ratio else number(goal.limit, unit)
    return f"{'≥' if goal.at_least else '≤'} {bound}"


def ratio_text(row: Row) -> str:
    """The ratio and its spread."""
    if row.ratio is None:
        return "-"
    around = row.ratio_spread
    return f"{row.ratio:.3g}x" + (f" ({around[0]:.3g} to {around[1]:.3g})" if around and around[0] != around[1] else "")


def verdict(row: Row) -> str:
    """met, NOT MET, or why there is neither."""
    if row.failed:
        return "failed"
    if row.skipped:
        return "skipped"
    return {True: "met", False: "NOT MET", None: "no goal"}[row.met]


def cells(row: Row) -> tuple[str, ...]:
    """A row as the texts of its columns."""
    beside = f"{row.beside.name}: {spread(row.beside)}" if row.beside else "-"
    unit = row.ours.unit if row.ours else "s"
    return row.what, spread(row.ours), beside, ratio_text(row), goal_text(row.goal, unit), verdict(row)


def _remarks(row: Row) -> list[str]:
    return [text for text in (row.failed, row.skipped, row.limits and f"limited by: {row.limits}") if text]


def table(findings: Findings) -> Table:
    """For a terminal."""
    drawn = Table(*HEAD, show_lines=False, title_justify="left")
    for measure, rows in findings:
        drawn.add_section()
        drawn.add_row(Text(measure.title, style="bold"))
        for row in rows:
            *texts, last = cells(row)
            drawn.add_row(*map(Text, texts), Text(last, style=_COLORS.get(last, "")))
    return drawn


def remarks(findings: Findings) -> list[str]:
    """What limits each row, one line each, to go under the table."""
    return [f"{row.what}: {'; '.join(_remarks(row))}" for _, rows in findings for row in rows if _remarks(row)]


def markdown(findings: Findings, machine: str, how: str) -> str:
    """A page: the table, what limits each row, and the facts behind it."""
    lines = ["---", "orphan: true", "---", "", "# Figures", "", INTRODUCTION, "", f"Machine: {machine}. {how}", ""]
    lines += [f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    for measure, rows in findings:
        lines.append(f"| **{measure.title}** |{' |' * (len(HEAD) - 1)}")
        lines += [f"| {' | '.join(cells(row))} |" for row in rows]
    missed = [f"{measure.title}: {row.what}" for measure, rows in findings for row in rows if row.met is False or row.failed]
    lines += ["", "## Goals that are not met", "", *([f"- {text}" for text in missed] or ["None."])]
    lines += ["", "## What limits each"]
    for measure, rows in findings:
        lines += ["", f"### {measure.title}", "", " ".join((measure.run.__doc__ or "").split()), ""]
        for row in rows:
            remarks = "; ".join(_remarks(row))
            lines += [f"- {row.what}: {remarks}"] if remarks else []
            lines += [f"  - {note}" for note in row.notes]
    return "\n".join(lines).replace("\n\n\n", "\n\n").rstrip() + "\n"


def document(findings: Findings, machine: str, **more: Any) -> str:
    """JSON with every value taken."""
    rows = [
        {"measure": measure.name, **dataclasses.asdict(row), "ratio": row.ratio, "verdict": verdict(row)}
        for measure, group in findings
        for row in group
    ]
    return json.dumps({"machine": machine, **more, "rows": rows}, indent=1)
