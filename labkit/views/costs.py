"""What collectives cost: time against size, measured and by the model, and where one algorithm overtakes another."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..document import Heading, Items, Node, Paragraph, Picture, Printed, Table, Tree
from ..errors import UsageError
from ..plain import record
from ..schedule import ALGORITHMS, Link, crossover, predict
from ..schedule.checks import check_number, check_world_size
from ..schedule.fit import crossing_of
from ..units import format_bytes, format_seconds
from . import _html as h
from ._base import add
from ._plotly import MIME
from ._text import bands, count, wrapped
from .costs_figure import byte_ticks, layout, traces

Runs = Mapping[str, Mapping[float, float | Sequence[float]]]
_POINTS = 61  # of a model's line
_SPAN = (64.0, 2.0**28)  # bytes, where nothing is measured
_ROWS = 24  # of the tables


@record
class CostPoint:
    """Measured times of one size: the median, and the quickest and the slowest run."""

    name: str
    num_bytes: float
    median_s: float
    low_s: float
    high_s: float
    num_runs: int = 1


@record
class CostLine:
    """What the model says for an algorithm, at many sizes."""

    name: str
    num_bytes: tuple[float, ...]
    seconds: tuple[float, ...]


@record
class CostCrossing:
    """The size from which `other` is cheaper than `one`, both being the cheapest there; `how` is "model" or "measured"."""

    one: str
    other: str
    num_bytes: float
    seconds: float
    how: str

    @property
    def sentence(self) -> str:
        return f"from {format_bytes(self.num_bytes)} on {self.other} is cheaper than {self.one} ({self.how})"


@record
class CostCurves(Printed):
    """Points, lines and crossings of one picture; `note` is said below the title."""

    title: str
    world_size: int
    points: tuple[CostPoint, ...]
    lines: tuple[CostLine, ...]
    crossings: tuple[CostCrossing, ...]
    note: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*(point.name for point in self.points), *(line.name for line in self.lines)]))

    @property
    def sizes(self) -> tuple[float, ...]:
        """The measured sizes, or some of the lines'."""
        if self.points:
            return tuple(sorted({point.num_bytes for point in self.points}))
        if not self.lines:
            return ()
        low, high = self.lines[0].num_bytes[0], self.lines[0].num_bytes[-1]
        return tuple(size for size in byte_ticks(low, high) if low <= size <= high)

    def measured(self, name: str, num_bytes: float) -> CostPoint | None:
        return next((each for each in self.points if (each.name, each.num_bytes) == (name, num_bytes)), None)


def cost_curves(
    world_size: int,
    measured: Runs | None = None,
    link: Link | None = None,
    algorithms: Sequence[str] | None = None,
    *,
    span: tuple[float, float] | None = None,
    title: str = "",
) -> CostCurves:
    """Curves from seconds by name and size in bytes, and from a link's model.

    `measured` is like {"ring": {1024: [seconds, ...]}}; a name that is no algorithm, such as a library's, has points only.
    `algorithms` are the model's lines; left out, those measured. `span` is their smallest and largest size.

    >>> link = Link.of(latency_us=5, gb_per_s=10)
    >>> [each.sentence for each in cost_curves(8, link=link, algorithms=["ring", "recursive-doubling"]).crossings]
    ['from 430 KiB on ring is cheaper than recursive-doubling (model)']
    """
    check_world_size(world_size)
    points = tuple(
        _point(name, size, runs) for name, by_size in (measured or {}).items() for size, runs in sorted(by_size.items())
    )
    names = algorithms if algorithms is not None else [name for name in measured or {} if name in ALGORITHMS]
    sizes = [point.num_bytes for point in points]
    low, high = _checked(span) if span else (min(sizes), max(sizes)) if sizes else _SPAN
    lines = tuple(_line(name, world_size, link, low, high) for name in names) if link is not None else ()
    if not points and not lines:
        raise UsageError("nothing to draw", hint="give measured times, or a link and algorithms")
    compared = [point for point in points if not lines or point.name in names]
    crossings = (*_predicted(lines, world_size, link), *_seen(compared))
    return CostCurves(title or f"time by size on {count(world_size, 'rank')}", world_size, points, lines, crossings)


def _checked(span: Any) -> tuple[float, float]:
    what, hint = f"no sizes from {span!r}", "give the smallest and the largest size in bytes, above 0"
    if not isinstance(span, Sequence) or isinstance(span, str) or len(span) != 2:
        raise UsageError(what, hint=hint)
    low, high = (check_number("a size in bytes", size, above_zero=True) for size in span)
    if low > high:
        raise UsageError(f"no sizes from {low:g} to {high:g} bytes", hint="sizes are above 0, the smaller one first")
    return low, high


def _point(name: str, size: float, runs: float | Sequence[float]) -> CostPoint:
    check_number(f"the size of {name}", size, above_zero=True)
    given = [runs] if isinstance(runs, (str, bytes)) or not isinstance(runs, Iterable) else list(runs)
    if not given:
        raise UsageError(f"{name} has no time at {size:g} bytes", hint="give seconds above 0")
    for each in given:
        check_number(f"the time of {name} at {size:g} bytes", each, above_zero=True)
    times = [float(each) for each in given]
    return CostPoint(name, float(size), statistics.median(times), min(times), max(times), len(times))


def _line(name: str, world_size: int, link: Link, low: float, high: float) -> CostLine:
    sizes = tuple(low * (high / low) ** (step / (_POINTS - 1)) for step in range(_POINTS))
    return CostLine(name, sizes, tuple(predict(name, world_size, size, link).seconds for size in sizes))


def _predicted(lines: Sequence[CostLine], world_size: int, link: Link | None) -> list[CostCrossing]:
    """Where the cheapest line changes."""
    found: list[CostCrossing] = []
    if len(lines) < 2 or link is None:
        return found
    best = [min(lines, key=lambda line: line.seconds[step]).name for step in range(_POINTS)]
    for one, other in itertools.pairwise(best):
        alike = ALGORITHMS[one].collective == ALGORITHMS[other].collective  # else neither can stand in for the other
        size = crossover(one, other, world_size, link) if one != other and alike else None
        if size is not None:
            found.append(CostCrossing(one, other, size, predict(one, world_size, size, link).seconds, "model"))
    return found


def _seen(points: Sequence[CostPoint]) -> list[CostCrossing]:
    """Where the lowest of the medians changes, at sizes that all have: once for each pair, since noise crosses as well."""
    times: dict[str, dict[float, float]] = {}
    for point in points:
        times.setdefault(point.name, {})[point.num_bytes] = point.median_s
    common = sorted(set.intersection(*(set(each) for each in times.values()))) if len(times) > 1 else []
    best = [min(times, key=lambda name: times[name][size]) for size in common]
    pairs = dict.fromkeys(tuple(sorted(pair)) for pair in itertools.pairwise(best) if pair[0] != pair[1])
    found = []
    for one, other in pairs:
        size = crossing_of([(size, times[one][size] / times[other][size]) for size in common])
        if size is not None:
            found.append(crossing_at((one, other), times, size))
    return found


def medians(runs: Runs) -> dict[str, dict[float, float]]:
    """The middle of the runs, by name and size."""
    return {name: {size: _point(name, size, each).median_s for size, each in by_size.items()} for name, by_size in runs.items()}


def crossing_at(
    names: tuple[str, str], times: Mapping[str, Mapping[float, float]], size: float, *, ordered: bool = False
) -> CostCrossing:
    """A measured crossing: who is the cheaper one above that size (`ordered`: the second), and how long both take there."""
    one, other = names
    ratios = [(at, math.log(times[one][at] / times[other][at])) for at in sorted(set(times[one]) & set(times[other]))]
    above, below = ([ratio for at, ratio in ratios if (at > size) is side] for side in (True, False))
    if not ordered and sum(above) / max(len(above), 1) < sum(below) / max(len(below), 1):
        one, other = other, one
    return CostCrossing(one, other, size, math.sqrt(_at(times[one], size) * _at(times[other], size)), "measured")


def _at(times: Mapping[float, float], size: float) -> float:
    """Seconds between two sizes, along a straight line in the logarithms."""
    sizes = sorted(times)
    high = next((index for index, at in enumerate(sizes) if at >= size), len(sizes) - 1)
    low = max(high - 1, 0)
    if sizes[low] == sizes[high]:
        return times[sizes[high]]
    part = math.log(size / sizes[low]) / math.log(sizes[high] / sizes[low])
    return times[sizes[low]] ** (1 - part) * times[sizes[high]] ** part


def _cells(curves: CostCurves, *, narrow: bool = False) -> tuple[list[str], list[list[str]]]:
    modelled = {line.name for line in curves.lines}
    head = ["size"]
    for name in curves.names:
        head += [name] if any(point.name == name for point in curves.points) else []
        head += [f"{name}, model"] if name in modelled else []
    rows = []
    for size in curves.sizes[:_ROWS]:
        row = [format_bytes(size)]
        for name in curves.names:
            point = curves.measured(name, size)
            if any(each.name == name for each in curves.points):
                row.append("-" if point is None else format_seconds(point.median_s) if narrow else spread(point))
            if name in modelled:
                line = next(each for each in curves.lines if each.name == name)
                row.append(format_seconds(modelled_s(line, size)))
        rows.append(row)
    return head, rows


def spread(point: CostPoint) -> str:
    """For instance "1.2 ms (1.1 ms to 1.5 ms)"."""
    if point.num_runs == 1:
        return format_seconds(point.median_s)
    return f"{format_seconds(point.median_s)} ({format_seconds(point.low_s)} to {format_seconds(point.high_s)})"


def modelled_s(line: CostLine, size: float) -> float:
    """A line's seconds at a size: exact, since cost is linear in size."""
    (x0, x1), (y0, y1) = (line.num_bytes[0], line.num_bytes[-1]), (line.seconds[0], line.seconds[-1])
    return y0 if x0 == x1 else y0 + (size - x0) / (x1 - x0) * (y1 - y0)


def _left(curves: CostCurves) -> str:
    more = len(curves.sizes) - _ROWS
    return f"({count(more, 'more size')})" if more > 0 else ""


def tree(curves: CostCurves) -> Tree:
    """A row for each size; a page has the spread of each median, a terminal has room for it with two algorithms."""
    head, rows = _cells(curves)
    said = [each.sentence for each in curves.crossings]
    parts: list[Node] = [Heading(curves.title), *([Paragraph(curves.note)] if curves.note else [])]
    parts.append(Picture(h.as_html([Table(head, rows)]), _table_text(curves)))
    parts += [Paragraph(_left(curves))] if _left(curves) else []
    none = "\n".join(["no algorithm overtakes another"] * (len(curves.names) > 1))
    return [*parts, Picture(h.as_html([Items(said)]), "\n".join(map(wrapped, said)) or none)]


def _table_text(curves: CostCurves) -> str:
    head, rows = _cells(curves, narrow=len(curves.names) > 2)
    models = [i for i, name in enumerate(head) if i > 1 and name == f"{head[i - 1]}, model"]
    return bands([head, *rows], right=range(1, len(head)), joined=models)


def rich(curves: CostCurves) -> dict[str, Any]:
    """The figure for a frontend that has plotly."""
    return {MIME: {"data": traces(curves), "layout": layout(curves), "config": {"displaylogo": False}}}


def figure(curves: CostCurves) -> Any:
    """The same as a plotly Figure, to change or to save."""
    from plotly.graph_objects import Figure

    made = rich(curves)[MIME]
    return Figure(data=made["data"], layout=made["layout"])


add(CostCurves, tree, rich)
