"""A sweep as the field's own tools print it, and as CSV; another tool's results laid beside."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Sequence

from ..errors import UsageError, count
from ..units import format_bytes, format_seconds
from .beside import Beside
from .sweeps import Point, Sweep

_REDUCING = ("all_reduce", "reduce_scatter", "reduce")
CSV_COLUMNS = (
    "name", "collective", "ranks", "size_bytes", "count", "type", "redop", "time_us", "low_us", "high_us",
    "algbw_gb_per_s", "busbw_gb_per_s",
)  # fmt: skip


def table(sweep: Sweep, beside: Beside | None = None) -> str:
    """Size, count, type, redop, time, algbw, busbw, one block per contestant; lines of facts start with '#'."""
    lines = ["#", f"# {sweep.where}"] if sweep.where and sweep.points else []
    for name in sweep.names:
        points = sweep.of(name)
        theirs = beside if beside is not None and beside.collective in ("", points[0].collective) else None
        lines += ["#", f"# {title(points[0])}", *_head(theirs)]
        lines += [_line(point, theirs) for point in points]
        lines += [f"# {said}" for said in (average(points), fitted(sweep, name)) if said]
    if sweep.interrupted:
        lines.append("# interrupted: what was measured until then is above")
    if sweep.error:
        lines.append(f"# ended early: {sweep.error}")
    return "\n".join(lines) if lines else "# nothing was measured"


def title(point: Point) -> str:
    """What was measured, on how many ranks and how often."""
    own = "" if point.name == point.collective else f", schedule {point.name} on the live ranks"
    return f"{point.collective} on {count(point.world_size, 'rank')}{own}; median of {len(point.times_s)}"


def _head(beside: Beside | None) -> list[str]:
    names = (
        f"#{'size':>11} {'count':>12} {'type':>9} {'redop':>7} {'time':>10} {'low':>10} {'high':>10} {'algbw':>8} {'busbw':>8}"
    )
    units = f"#{'(B)':>11} {'(elements)':>12} {'':>9} {'':>7} {'(us)':>10} {'(us)':>10} {'(us)':>10} {'(GB/s)':>8} {'(GB/s)':>8}"
    if beside is None:
        return [names, units]
    return [f"{names} {'theirs':>10} {'ours/':>8}", f"{units} {'(us)':>10} {'theirs':>8}"]


def reduce_op(point: Point) -> str:
    """What was combined with; "none" where nothing is."""
    return point.op.lower() if point.op and point.collective in _REDUCING else "none"


def _line(point: Point, beside: Beside | None) -> str:
    times = " ".join(f"{seconds * 1e6:>10.1f}" for seconds in (point.median_s, point.low_s, point.high_s))
    speeds = f"{point.algbw_gb_per_s:>8.4f} {point.busbw_gb_per_s:>8.4f}"
    line = f"{point.num_bytes:>12} {point.count:>12} {point.dtype:>9} {reduce_op(point):>7} {times} {speeds}"
    if beside is None:
        return line
    theirs = beside.time_s(point.num_bytes)
    return f"{line} {'-':>10} {'-':>8}" if theirs is None else f"{line} {theirs * 1e6:>10.1f} {point.median_s / theirs:>8.2f}"


def average(points: Sequence[Point]) -> str:
    """The mean of the bus bandwidths, as the field's tools end a table."""
    return f"average bus bandwidth: {statistics.fmean(each.busbw_gb_per_s for each in points):.4g} GB/s"


def fitted(sweep: Sweep, name: str) -> str:
    """What a fit makes of a contestant's points, and how it meets one that it has not seen; "" where none can be made."""
    if len({point.num_bytes for point in sweep.of(name)}) < 4 or sweep.world_size < 2:
        return ""
    try:
        found = sweep.fit(name)
    except UsageError:  # such as a name that no model has; the points are shown all the same
        return ""
    link, (held, *_) = found.fit.link, found.residuals
    speed = f"{1e-9 / link.beta_s_per_byte:.3g} GB/s a link" if link.beta_s_per_byte else "no limit of bandwidth in sight"
    made = f"fit as {held.sample.algorithm}: {format_seconds(link.alpha_s)} a message, {speed}"
    typical = f"typical error {found.fit.typical:.0%}"
    return f"{made}; {typical}; held out {format_bytes(held.sample.num_bytes)}: {held.relative:+.0%}"


def rows(sweep: Sweep) -> list[dict[str, str | int | float]]:
    """The points as plain rows with the columns of `CSV_COLUMNS`."""
    return [dict(zip(CSV_COLUMNS, _row(point), strict=True)) for point in sweep.points]


def _row(point: Point) -> tuple[str | int | float, ...]:
    times = tuple(round(seconds * 1e6, 3) for seconds in (point.median_s, point.low_s, point.high_s))
    speeds = (round(point.algbw_gb_per_s, 6), round(point.busbw_gb_per_s, 6))
    return (
        point.name, point.collective, point.world_size, point.num_bytes, point.count, point.dtype, reduce_op(point), *times,
        *speeds,
    )  # fmt: skip


def to_csv(sweep: Sweep) -> str:
    """The points as CSV."""
    return rows_to_csv(rows(sweep))


def rows_to_csv(table_rows: Sequence[dict[str, str | int | float]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table_rows)
    return text.getvalue()
