"""Cost curves as plotly's plain values: both axes logarithmic, and every hover a sentence."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

from ..units import format_bytes, format_seconds
from ._html import esc

if TYPE_CHECKING:
    from .costs import CostCrossing, CostCurves, CostLine, CostPoint

_GREY = "#808080"  # read on white and on black
_GRID = "rgba(128,128,128,0.35)"
_WIDE = 48  # characters of a line of the title: what a narrow notebook shows
# Near Okabe and Ito's set, but seen on light and on dark pages; with a shape and a dash each, so that no colour is needed
LOOKS = (
    ("#2f8ccc", "circle", "solid"), ("#d55e00", "square", "dash"), ("#009e73", "diamond", "dot"),
    ("#c2709e", "triangle-up", "dashdot"), ("#b07d00", "x", "longdash"), ("#8d7fd1", "star", "longdashdot"),
)  # fmt: skip


def traces(curves: CostCurves) -> list[dict[str, Any]]:
    """Lines below, points above them, crossings on top."""
    looks = {name: LOOKS[index % len(LOOKS)] for index, name in enumerate(curves.names)}
    made = [_line(line, looks[line.name]) for line in curves.lines]
    for name, look in looks.items():
        points = [point for point in curves.points if point.name == name]
        if points:
            made.append(_points(points, look, curves))
    return [*made, *(_crossing(each) for each in curves.crossings)]


def _line(line: CostLine, look: tuple[str, str, str]) -> dict[str, Any]:
    said = [f"{esc(line.name)}, {format_bytes(x)}: the model says {format_seconds(y)}" for x, y in _pairs(line)]
    return {
        "type": "scatter", "mode": "lines", "name": f"{esc(line.name)}, model", "legendgroup": esc(line.name),
        "x": [round(x, 3) for x in line.num_bytes], "y": [float(f"{y:.6g}") for y in line.seconds],
        "line": {"color": look[0], "dash": look[2], "width": 2.5}, "hovertext": said, "hoverinfo": "text",
        "showlegend": True,
    }  # fmt: skip


def _pairs(line: CostLine) -> list[tuple[float, float]]:
    return list(zip(line.num_bytes, line.seconds, strict=True))


def _points(points: list[CostPoint], look: tuple[str, str, str], curves: CostCurves) -> dict[str, Any]:
    name = esc(points[0].name)
    return {
        "type": "scatter", "mode": "markers", "name": f"{name}, measured", "legendgroup": name,
        "x": [point.num_bytes for point in points], "y": [point.median_s for point in points],
        "error_y": {"type": "data", "symmetric": False, "color": look[0], "thickness": 1.5, "width": 4,
                    "array": [point.high_s - point.median_s for point in points],
                    "arrayminus": [point.median_s - point.low_s for point in points]},
        "marker": {"color": look[0], "symbol": look[1], "size": 9, "line": {"width": 1, "color": _GREY}},
        "hovertext": [_about(point, curves) for point in points], "hoverinfo": "text",
    }  # fmt: skip


def _about(point: CostPoint, curves: CostCurves) -> str:
    """What there is to say of a measured point, in plain words."""
    said = f"{esc(point.name)}, {format_bytes(point.num_bytes)}: {format_seconds(point.median_s)}"
    if point.num_runs > 1:
        spread = f"{format_seconds(point.low_s)} to {format_seconds(point.high_s)}"
        said += f"<br>the middle of {point.num_runs} runs, which took {spread}"
    line = next((each for each in curves.lines if each.name == point.name), None)
    if line is not None:
        (x0, x1), (y0, y1) = (line.num_bytes[0], line.num_bytes[-1]), (line.seconds[0], line.seconds[-1])
        model = y0 if x0 == x1 else y0 + (point.num_bytes - x0) / (x1 - x0) * (y1 - y0)
        said += f"<br>the model says {format_seconds(model)}, {_off(model, point.median_s)}"
    return said


def _off(model: float, measured: float) -> str:
    """
    >>> _off(1.5, 1.0), _off(0.1, 1.0), _off(1.004, 1.0)
    ('50 % too much', '10 times too little', 'as measured')
    """
    if not model:
        return "too little"
    ratio = model / measured
    if abs(ratio - 1) < 0.01:
        return "as measured"
    more = "too much" if ratio > 1 else "too little"
    if not 0.5 <= ratio <= 2:
        return f"{max(ratio, 1 / ratio):.3g} times {more}"
    return f"{abs(ratio - 1) * 100:.0f} % {more}"


def _crossing(crossing: CostCrossing) -> dict[str, Any]:
    hollow = crossing.how == "model"
    return {
        "type": "scatter", "mode": "markers", "name": f"crossover, {crossing.how}", "showlegend": False,
        "x": [crossing.num_bytes], "y": [crossing.seconds], "hovertext": [esc(crossing.sentence)], "hoverinfo": "text",
        "marker": {"symbol": "circle-open" if hollow else "circle-x-open", "size": 17, "color": _GREY, "line": {"width": 3}},
    }  # fmt: skip


def layout(curves: CostCurves) -> dict[str, Any]:
    xs = [point.num_bytes for point in curves.points] + [
        x for line in curves.lines for x in (line.num_bytes[0], line.num_bytes[-1])
    ]
    ys = [y for point in curves.points for y in (point.low_s, point.high_s)] + [y for line in curves.lines for y in line.seconds]
    ys = [y for y in ys if y > 0] or [1e-6]  # a model may cost nothing, which has no place on a logarithmic axis
    axis = {"type": "log", "gridcolor": _GRID, "showline": True, "linecolor": _GREY, "zeroline": False, "ticks": "outside"}
    sizes, times = byte_ticks(min(xs), max(xs)), time_ticks(min(ys), max(ys))
    head = textwrap.wrap(curves.title, _WIDE)
    said = [line for each in _said(curves) for line in textwrap.wrap(each, _WIDE)]
    words = [*map(esc, head), *(f"<span style='font-size:13px'>{esc(line)}</span>" for line in said)]
    below = len(words) - 1  # lines below the first one, which stands at the title's place
    rows = len(curves.lines) + len({point.name for point in curves.points})  # of the legend, where it is narrow
    top, bottom = 48 + 20 * below, 64 + 20 * rows
    return {
        "title": {"text": "<br>".join(words), "x": 0, "xref": "paper", "xanchor": "left", "y": 1, "yref": "paper",
                  "yanchor": "bottom", "pad": {"b": 12 + 19 * below}, "font": {"size": 15}},
        "height": 320 + top + bottom, "margin": {"l": 70, "r": 16, "t": top, "b": bottom},
        "font": {"color": _GREY, "size": 13}, "hovermode": "closest", "hoverlabel": {"align": "left"},
        "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
        "xaxis": {**axis, "title": {"text": "size", "standoff": 6}, "automargin": True, "tickvals": sizes,
                  "ticktext": [format_bytes(size) for size in sizes]},
        "yaxis": {**axis, "title": {"text": "time"}, "tickvals": times, "ticktext": [format_seconds(time) for time in times]},
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 0, "yref": "container", "yanchor": "bottom",
                   "bgcolor": "rgba(0,0,0,0)"},
        "shapes": [{"type": "line", "x0": each.num_bytes, "x1": each.num_bytes, "yref": "paper", "y0": 0, "y1": 1,
                    "line": {"color": _GREY, "width": 1, "dash": "dot" if each.how == "model" else "solid"}}
                   for each in curves.crossings],
    }  # fmt: skip


def _said(curves: CostCurves) -> list[str]:
    """What stands below the title: what is to be known of all of it, and the crossings."""
    names = {line.name for line in curves.lines} or set(curves.names)
    which = "cheaper" if len(names) == 2 else "the cheapest"
    crossed = [f"from {format_bytes(each.num_bytes)} on {each.other} is {which} ({each.how})" for each in curves.crossings]
    return [*filter(None, [curves.note]), *crossed]


def byte_ticks(low: float, high: float) -> list[float]:
    """Powers of two, at most ten of them.

    >>> byte_ticks(1024, 2**20)
    [1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0]
    """
    first, last = math.floor(math.log2(low)), math.ceil(math.log2(high))
    step = next(each for each in (1, 2, 4, 8, 16, 32) if (last - first) / each < 10)
    return [2.0**power for power in range(first - first % step, last + 1, step) if power >= first - 1]


def time_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, with what lies between them where there are few.

    >>> time_ticks(1e-5, 1e-3)
    [1e-05, 2e-05, 5e-05, 0.0001, 0.0002, 0.0005, 0.001]
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    parts = (1, 2, 5) if last - first <= 3 else (1,)
    found = [float(f"{part}e{power}") for power in range(first, last + 1) for part in parts]
    return [time for time in found if time <= 10.0**last]
