"""Several hosts: the same all-reduce inside one and across them, and one level of ring against two."""

from __future__ import annotations

from ..schedule.hosts import FLAT, LEVELS, HostsReport
from ..schedule.records import Comparison
from ..schedule.sweeps import Sweep
from ..units import format_bytes, format_seconds
from . import _html as h
from ._bars import span
from ._base import add
from ._recorded import block
from ._text import count


def text(report: HostsReport) -> str:
    """The record's own text."""
    return str(report)


def head(report: HostsReport) -> str:
    """For instance "2 hosts of 2 ranks, gloo; links: 200mbit"."""
    hosts, ranks = count(report.num_hosts, "host"), count(report.ranks_per_host, "rank")
    return f"{hosts} of {ranks}, {report.inside.backend}; links: {report.link}"


def _point(sweep: Sweep, num_bytes: int, most: float, where: str) -> tuple[str, str]:
    point = next(point for point in sweep.points if point.num_bytes == num_bytes)
    median, low, high = (format_seconds(seconds) for seconds in (point.median_s, point.low_s, point.high_s))
    about = f"{format_bytes(num_bytes)} {where}: {median}, from {low} to {high}"
    return span(point.low_s, point.median_s, point.high_s, most, about), f"{median}, {point.busbw_gb_per_s:.3g} GB/s"


def _swept(report: HostsReport) -> str:
    rows = []
    for size in report.sizes:  # each row has its own scale: it is inside against across that matters
        most = max(p.high_s for sweep in (report.inside, report.across) for p in sweep.points if p.num_bytes == size)
        inside, said_inside = _point(report.inside, size, most, "inside a host")
        across, said_across = _point(report.across, size, most, "across hosts")
        cells = f"<td>{inside}</td><td>{h.esc(said_inside)}</td><td>{across}</td><td>{h.esc(said_across)}</td>"
        rows.append(f'<tr><th scope="row">{format_bytes(size)}</th><td>{report.slower(size):.1f} ×</td>{cells}</tr>')
    inside, across = count(report.inside.world_size, "rank"), count(report.across.world_size, "rank")
    names = ["", "longer", f"{inside} inside a host", "time, busbw", f"{across} across hosts", "time, busbw"]
    return _table(names, rows)


def _compared(report: HostsReport) -> str:
    rows = []
    for each in report.comparisons:
        cells = "".join(_timing(each, name) for name in (FLAT, LEVELS))
        rows.append(f'<tr><th scope="row">{format_bytes(each.num_bytes)}</th><td>{report.gain(each):.2f} ×</td>{cells}</tr>')
    return _table(["", "longer", f"{FLAT}, on one level", "time", f"{LEVELS}, on two", "time"], rows)


def _timing(found: Comparison, name: str) -> str:
    timing = next(timing for timing in found.timings if timing.name == name)
    most = max(each.high_s for each in found.timings if each.name in (FLAT, LEVELS))
    median, low, high = (format_seconds(seconds) for seconds in (timing.median_s, timing.low_s, timing.high_s))
    drawn = span(timing.low_s, timing.median_s, timing.high_s, most, f"{name}: {median}, from {low} to {high}")
    return f"<td>{drawn}</td><td>{h.esc(median)}</td>"


def _table(names: list[str], rows: list[str]) -> str:
    columns = "".join(f'<th scope="col">{h.esc(name)}</th>' for name in names)
    return f'<div class="lk-scroll"><table><thead><tr>{columns}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def html(report: HostsReport) -> str:
    body = h.para(f"{report.reason[0].upper()}{report.reason[1:]}.", "lk-lead") if report.reason else ""
    body += h.para(
        "The library's all-reduce across hosts, and how many times as long it takes as inside one. "
        "A bar is the median, the line its spread; each row has its own scale."
    ) + _swept(report)
    if report.comparisons:
        body += h.para(
            f"All {report.world_size} ranks, message by message: how many times as long one level takes as two. "
            "Here, too, each row has its own scale."
        ) + _compared(report)
    return block(body, report.source, head=head(report))


add(HostsReport, text, html)
