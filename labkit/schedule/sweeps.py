"""What a sweep over sizes came to: points with spread, bandwidths as the field counts them, a fit and its honesty."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Sequence

from ..document import Printed
from ..errors import UsageError, count
from ..plain import record
from ..units import algbw_gb_per_s, format_bytes, format_seconds
from .algorithm import ALGORITHMS
from .collective import FACTORS, busbw_factor
from .cost import Link
from .external import ExternalResults
from .fit import HeldOut, Sample, hold_out
from .records import Comparison, Rounds, Source

# The library's collectives, and the algorithm whose formula is fitted to each. gloo's all-reduce is a ring at every size.
LIBRARY_MODELS = {
    "all_reduce": "ring",
    "all_gather": "ring-all-gather",
    "reduce_scatter": "ring-reduce-scatter",
    "broadcast": "binomial-broadcast",
    "reduce": "binomial-reduce",
    "all_to_all": "pairwise-all-to-all",
}
_REDUCING = ("all_reduce", "reduce_scatter", "reduce")
CSV_COLUMNS = (
    "name", "collective", "ranks", "size_bytes", "count", "type", "redop", "time_us", "low_us", "high_us",
    "algbw_gb_per_s", "busbw_gb_per_s",
)  # fmt: skip


@record
class Point(Rounds):
    """One size of one contestant: a library collective, or a schedule on the live ranks.

    `num_bytes` is S, the total for all-gather and reduce-scatter; `times_s` are seconds a call, one per round.
    """

    name: str
    collective: str
    world_size: int
    num_bytes: int
    dtype: str
    item_bytes: int
    op: str
    times_s: tuple[float, ...]

    @property
    def count(self) -> int:
        """Elements of one call's count: of a rank's piece where pieces are gathered or scattered."""
        parts = self.world_size if FACTORS[self.collective].times == "n" else 1
        return self.num_bytes // self.item_bytes // parts

    @property
    def algbw_gb_per_s(self) -> float:
        """Bytes over time; 0 where there was no time, as on one acted rank, which sends nothing."""
        return algbw_gb_per_s(self.num_bytes, self.median_s) if self.median_s > 0 else 0.0

    @property
    def busbw_gb_per_s(self) -> float:
        return self.algbw_gb_per_s * busbw_factor(self.collective, self.world_size)

    def sample(self) -> Sample:
        """The same for `fit`."""
        return Sample(LIBRARY_MODELS.get(self.name, self.name), self.world_size, self.num_bytes, self.median_s)


@record
class Sweep(Printed):
    """Points in the order they were measured. `interrupted`: by the caller; `error`: why it ended early otherwise.

    `where`: which ranks took part if not all, and on which hosts, with what link.
    """

    backend: str
    world_size: int
    points: tuple[Point, ...]
    warmups: int = 0
    interrupted: bool = False
    error: str = ""
    source: Source | None = None
    where: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(point.name for point in self.points))

    def of(self, name: str) -> tuple[Point, ...]:
        """The points of one contestant, the smallest first."""
        return tuple(sorted((each for each in self.points if each.name == name), key=lambda each: each.num_bytes))

    def fit(self, name: str, hold: Sequence[int] = ()) -> HeldOut:
        """Latency and bandwidth that explain the points best, without the held-out sizes (the middle one by default)."""
        points = self.of(name)
        sizes = sorted({point.num_bytes for point in points})
        if len(sizes) < 3:
            few = f"{count(len(sizes), 'size')} of {name} {'is' if len(sizes) == 1 else 'are'}"
            raise UsageError(f"{few} too few to fit and hold one out", hint="sweep at least three")
        held = list(hold) or [sizes[len(sizes) // 2]]
        return hold_out([point.sample() for point in points], held)


@record
class Crossing(Printed):
    """Where one algorithm overtakes another: predicted from the fit of few sizes, then measured around there."""

    one: str
    other: str
    world_size: int
    link: Link
    predicted_bytes: float | None
    measured_bytes: float | None
    comparisons: tuple[Comparison, ...]
    source: Source | None = None

    @property
    def sentence(self) -> str:
        """What was predicted, and what was measured."""
        said = format_bytes(self.predicted_bytes) if self.predicted_bytes is not None else "at no size"
        seen = format_bytes(self.measured_bytes) if self.measured_bytes is not None else "at none of the sizes"
        fitted = f"{format_seconds(self.link.alpha_s)} a message, {1e-9 / max(self.link.beta_s_per_byte, 1e-18):.2f} GB/s"
        return f"predicted {said} (from {fitted}), measured {seen}"


def collective_of(name: str) -> str:
    """What a contestant does: a library collective is called like it, an algorithm knows its own."""
    return name if name in LIBRARY_MODELS else ALGORITHMS[name].collective


# ---- as the field's own tools print it, and as CSV
def table(sweep: Sweep, beside: ExternalResults | None = None) -> str:
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


def _head(beside: ExternalResults | None) -> list[str]:
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


def _line(point: Point, beside: ExternalResults | None) -> str:
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
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows(sweep))
    return text.getvalue()
