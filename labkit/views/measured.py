"""What was measured or predicted: sweeps over sizes, algorithms side by side, where one overtakes another, hosts, a price."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ..document import Block, Cell, Heading, Node, Paragraph, Picture, Table, Tree, tree_of
from ..schedule import Price, predict
from ..schedule.hosts import FLAT, LEVELS, HostsReport
from ..schedule.records import Comparison, Source, Timing, with_source
from ..schedule.sweeps import Crossing, Point, Sweep, average, fitted, reduce_op, table, title
from ..units import format_bytes, format_seconds
from . import _html as h
from . import costs
from ._base import add
from ._html import as_html
from ._text import count, sentence

_PARTS = (("latency", "latency_s"), ("transfer", "transfer_s"), ("reducing", "reduce_s"))
_BAR_KEY = "The bar is the median, the line reaches from the quickest to the slowest."
_WIDTH, _HEIGHT = 180, 14  # of a span


# ---- bars: a whole and its parts, a middle and its spread; numbers stand beside them as text


def bar(parts: Sequence[tuple[str, float]], about: str) -> str:
    """One bar, as long as its place allows: style class and amount of each part.

    >>> bar([("lk-latency", 1.0), ("lk-transfer", 3.0)], "a quarter").count("<span")
    3
    """
    whole = sum(amount for _, amount in parts) or 1.0
    drawn = "".join(f'<span class="lk-part {name}" style="width:{amount / whole:.2%}"></span>' for name, amount in parts)
    return f'<span class="lk-bar" role="img" aria-label="{h.esc(about)}" title="{h.esc(about)}">{drawn}</span>'


def key(name: str) -> str:
    """The patch of colour that stands beside a part's words."""
    return f'<span class="lk-key {name}" aria-hidden="true"></span>'


def span(low: float, middle: float, high: float, most: float, about: str) -> str:
    """A bar up to the middle with a line from low to high; `most` is the whole width."""
    at_low, at_middle, at_high = (min(value / most, 1.0) * (_WIDTH - 2) if most else 0.0 for value in (low, middle, high))
    line = _HEIGHT / 2
    return (
        f'<svg class="lk-span" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'preserveAspectRatio="none" role="img" aria-label="{h.esc(about)}"><title>{h.esc(about)}</title>'
        f'<rect class="lk-span-bar" x="0" y="1" width="{at_middle:.1f}" height="{_HEIGHT - 2}"/>'
        f'<path class="lk-span-line" d="M{at_low:.1f},{line:g}H{at_high:.1f}M{at_low:.1f},3v8M{at_high:.1f},3v8"/></svg>'
    )


def recorded(parts: Sequence[Node], source: Source | None, accent: str = "", head: str = "") -> Block:
    """A block; a record that was made elsewhere says so first, and has the bar of what waits."""
    if source is None:
        return Block(parts, accent, head)
    return Block([Paragraph(str(source), "lead"), *([Heading(head)] if head else []), *parts], "wait")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# ---- a sweep
def _facts(sweep: Sweep, point: Point) -> str:
    warm = f", after {sweep.warmups} to warm up" if sweep.warmups else ", without warm-up"
    op = reduce_op(point)
    return f"{title(point)} rounds{warm} ({sweep.backend}, {point.dtype}{'' if op == 'none' else f', {op}'})"


def _row(point: Point, digits: int) -> list[str]:
    times = (format_seconds(seconds) for seconds in (point.median_s, point.low_s, point.high_s))
    speeds = (f"{speed:.{digits}f}" for speed in (point.algbw_gb_per_s, point.busbw_gb_per_s))
    return [format_bytes(point.num_bytes), f"{point.count:,}", *times, *speeds]


def _points(points: tuple[Point, ...]) -> Table:
    digits = 1 if max(point.busbw_gb_per_s for point in points) >= 10 else 4
    head = ["size", "elements", "time", "low", "high", "algbw, GB/s", "busbw, GB/s"]
    return Table(head, [_row(point, digits) for point in points])


def sweep_tree(sweep: Sweep) -> Tree:
    """A table for each contestant, with what a fit makes of it; a terminal has the form of the field's own tools."""
    parts: list[Node] = [Paragraph(sentence(_capital(sweep.where)))] if sweep.where and sweep.points else []
    for name in sweep.names:
        points = sweep.of(name)
        parts += [Paragraph(_facts(sweep, points[0]), "lead"), _points(points)]
        parts += [Paragraph(sentence(_capital(line))) for line in (average(points), fitted(sweep, name)) if line]
    ended = f"ended early: {sweep.error}" if sweep.error else ""
    if sweep.interrupted:
        ended = "interrupted: this was measured until then"
    parts += [Paragraph(ended, "lead", mark="…")] if ended else []
    block = recorded(parts or [Paragraph("nothing was measured")], sweep.source, "wait" if ended else "")
    return [Picture(h.as_html([block]), with_source(table(sweep), sweep.source))]


# ---- a comparison
def _times(each: Timing | Point, most: float, about: str) -> tuple[Cell, str, str]:
    """The bar, the median, and the spread."""
    median, low, high = (format_seconds(seconds) for seconds in (each.median_s, each.low_s, each.high_s))
    drawn = span(each.low_s, each.median_s, each.high_s, most, f"{about}: {median}, from {low} to {high}")
    return Cell("", drawn), median, f"{low} to {high}"


def comparison_tree(found: Comparison) -> Tree:
    """A bar and its spread for each algorithm, the library's own last."""
    what = f"all-reduce of {format_bytes(found.num_bytes)} of {found.dtype} on {count(found.world_size, 'rank')}"
    rounds = count(len(found.library.times_s), "round")
    head = f"{what}, median of {rounds} in turn{f', {found.where}' if found.where else ''}"
    most = max(each.high_s for each in found.timings)
    rows: list[list[str | Cell]] = []
    for each in found.timings:
        drawn, median, spread = _times(each, most, each.name)
        speed = f"{found.speed(each.name):.2f}"
        ours = "" if each is found.library else Cell(f"{speed} of the library's speed", speed)
        rows.append([each.name, drawn, median, Cell(f"({spread})", spread), ours])
    head_of_table = ("", "time", "median", "low to high", "× the library's speed")
    table = Table(head_of_table, rows, right=(2,), head_in_text=False)
    parts: list[Node] = [table, _drawn_only(_BAR_KEY)]
    parts += [Paragraph(found.ratios, "tag")] if found.ratios else []
    return [recorded(parts, found.source, head=head)]


# ---- hosts
def _swept(report: HostsReport) -> Table:
    rows = []
    for size in report.sizes:  # each row has its own scale: it is inside against across that matters
        points = [next(p for p in sweep.points if p.num_bytes == size) for sweep in (report.inside, report.across)]
        most = max(point.high_s for point in points)
        cells: list[str | Cell] = [format_bytes(size), f"{report.slower(size):.1f} ×"]
        for point, where in zip(points, ("inside a host", "across hosts"), strict=True):
            drawn, median, _ = _times(point, most, f"{format_bytes(size)} {where}")
            cells += [drawn, f"{median}, {point.busbw_gb_per_s:.3g} GB/s"]
        rows.append(cells)
    inside, across = count(report.inside.world_size, "rank"), count(report.across.world_size, "rank")
    return Table(["", "longer", "", f"{inside} inside a host", "", f"{across} across hosts"], rows, right=(1,))


def _compared(report: HostsReport) -> Table:
    rows = []
    for each in report.comparisons:
        timings = [next(timing for timing in each.timings if timing.name == name) for name in (FLAT, LEVELS)]
        most = max(timing.high_s for timing in timings)
        cells: list[str | Cell] = [format_bytes(each.num_bytes), f"{report.gain(each):.2f} ×"]
        for timing in timings:
            cells += _times(timing, most, timing.name)[:2]
        rows.append(cells)
    return Table(["", "longer", "", f"{FLAT}, on one level", "", f"{LEVELS}, on two"], rows, right=(1,))


def hosts_tree(report: HostsReport) -> Tree:
    """The same all-reduce inside one host and across hosts, and one level of ring against two."""
    parts: list[Node] = [Paragraph(f"Recorded, since {report.reason}.", "lead")] if report.reason else []
    said = "The library's all-reduce, its time and its busbw, and how many times as long it takes across hosts as inside one."
    parts += [Paragraph(said), _drawn_only(f"{_BAR_KEY[:-1]}; each row has its own scale."), _swept(report)]
    if report.comparisons:
        said = f"All {report.world_size} ranks, message by message: how many times as long one level takes as two."
        parts += [Paragraph(said), _drawn_only("Here, too, each row has its own scale."), _compared(report)]
    hosts, ranks = count(report.num_hosts, "host"), count(report.ranks_per_host, "rank")
    return [recorded(parts, report.source, head=f"{hosts} of {ranks}, {report.inside.backend}; links: {report.link}")]


def _drawn_only(text: str) -> Picture:
    """How a bar is read: a terminal has none."""
    return Picture(h.as_html([Paragraph(text, "tag")]))


# ---- a price
def _brief(seconds: float) -> str:
    """
    >>> _brief(2e-7), _brief(0.0), _brief(2e-5)
    ('under 1 µs', '0 µs', '20 µs')
    """
    return "under 1 µs" if 0 < seconds < 5e-7 else format_seconds(seconds)


def price_tree(price: Price) -> Tree:
    """A predicted time and what it is made of: how much is messages, how much bytes."""
    parts = [(name, getattr(price, field)) for name, field in _PARTS]
    parts = [(name, seconds) for name, seconds in parts if seconds or name != "reducing"]
    whole = price.seconds or 1.0
    about = ", ".join(f"{seconds / whole:.0%} {name}" for name, seconds in parts)
    said = "".join(
        f"<div>{key(f'lk-{name}')} {h.esc(_brief(seconds))} {name}, {seconds / whole:.0%}</div>" for name, seconds in parts
    )
    drawn = bar([(f"lk-{name}", seconds) for name, seconds in parts], about)
    head = f"{price.name}, {format_bytes(price.num_bytes)} on {count(price.world_size, 'rank')}"
    lead = h.as_html([Heading(head), Paragraph(_brief(price.seconds), "lead")])
    text = " + ".join(f"{_brief(seconds)} {name}" for name, seconds in parts)
    return [Picture(f'<div class="lk-price">{lead}{drawn}{said}</div>', f"{head}: {_brief(price.seconds)} = {text}")]


def crossing_curves(crossing: Crossing) -> costs.CostCurves | None:
    """The picture's points and lines, with the record's own crossings; None if nothing was measured."""
    names = [crossing.one, crossing.other]
    runs: dict[str, dict[float, Sequence[float]]] = {
        name: {each.num_bytes: timing.times_s for each in crossing.comparisons for timing in each.timings if timing.name == name}
        for name in names
    }
    if not all(runs.values()):
        return None
    drawn = costs.cost_curves(crossing.world_size, runs, crossing.link, names)
    return dataclasses.replace(drawn, crossings=tuple(_crossings(crossing, runs)), note=_nowhere(crossing))


def _nowhere(crossing: Crossing) -> str:
    """Which of the two crossings there isn't."""
    found = (("by the model", crossing.predicted_bytes), ("as measured", crossing.measured_bytes))
    missing = " and ".join(how for how, size in found if size is None)
    return f"{missing} neither overtakes the other" if missing else ""


def _crossings(crossing: Crossing, runs: costs.Runs) -> list[costs.CostCrossing]:
    names = crossing.one, crossing.other
    found = []
    if crossing.predicted_bytes is not None:
        size = crossing.predicted_bytes
        prices = {name: predict(name, crossing.world_size, 2 * size, crossing.link).seconds for name in names}
        other = min(names, key=lambda name: prices[name])
        seconds = predict(names[0], crossing.world_size, size, crossing.link).seconds
        found.append(costs.CostCrossing(names[other == names[0]], other, size, seconds, "model"))
    if crossing.measured_bytes is not None:
        ordered = (found[0].one, found[0].other) if found else names  # it was looked for in the predicted direction
        found.append(costs.crossing_at(ordered, costs.medians(runs), crossing.measured_bytes, ordered=bool(found)))
    return found


def crossing_tree(crossing: Crossing) -> Tree:
    """The sentence, and both curves; a terminal has the sentence alone."""
    head = f"{crossing.one} and {crossing.other} on {count(crossing.world_size, 'rank')} cross"
    drawn = crossing_curves(crossing)
    table = as_html(tree_of(drawn)) if drawn is not None else ""
    parts: list[Node] = [Picture(as_html([Heading(head)])), Paragraph(crossing.sentence, label=head), Picture(table)]
    return [recorded(parts, crossing.source)]


def crossing_rich(crossing: Crossing) -> dict[str, Any]:
    """The figure for a frontend that has plotly."""
    drawn = crossing_curves(crossing)
    if drawn is None:
        return {}
    said = [str(crossing.source) if crossing.source is not None else "", drawn.note]
    return costs.rich(dataclasses.replace(drawn, note="; ".join(filter(None, said))))


add(Sweep, sweep_tree)
add(Comparison, comparison_tree)
add(HostsReport, hosts_tree)
add(Price, price_tree)
add(Crossing, crossing_tree, crossing_rich)
