"""A timeline as a plotly figure in its plain form: the frontend's own plotly draws it, the kernel needs none.

Never a FigureWidget: that one sends plotly itself, 5 MB, and stores it in the notebook.
"""

from __future__ import annotations

from typing import Any

from ..timeline import Bar, Timeline
from ._html import esc
from ._marks import Mark, about, end_of, marks, meets, unit

MIME = "application/vnd.plotly.v1+json"
_GREY = "#808080"  # read on white and on black
_GRID = "rgba(128,128,128,0.35)"


def figure(line: Timeline, title: str, remarks: list[str]) -> dict[str, Any]:
    """`data` and `layout`; what `plotly.graph_objects.Figure` takes."""
    factor, name = unit(line.span_s)
    used = marks(line)
    data = [
        {
            "type": "bar", "orientation": "h", "name": "waits for the last rank", "showlegend": False, "width": 0.2,
            **_values([(bar, bar.issued_s, meets(bar, line)) for bar in line.bars], line, factor),
            "marker": {"color": [used[bar.op].color for bar in line.bars], "line": {"width": 0}}, "opacity": 0.65,
        }
    ]  # fmt: skip
    data += [_work(op, mark, line, factor) for op, mark in used.items()]
    ranks = [f"rank {rank}" for rank in range(line.world_size)]
    words = "<br>".join(f"<span style='font-size:13px'>{esc(text)}</span>" for text in remarks)
    rows = 1 + len(remarks)
    layout = {
        "title": {"text": f"{esc(title)}<br>{words}" if words else esc(title), "x": 0, "xref": "paper", "xanchor": "left",
                  "y": 1, "yref": "paper", "yanchor": "bottom", "pad": {"b": 10 + 16 * len(remarks)}, "font": {"size": 15}},
        "barmode": "overlay", "hovermode": "closest", "font": {"color": _GREY, "size": 13},
        "height": 128 + 30 * rows + 40 * line.world_size, "margin": {"l": 70, "r": 20, "t": 24 + 30 * rows, "b": 84},
        "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
        "xaxis": {"title": {"text": f"{name} since the first call (thin: waits for the last rank)", "standoff": 8,
                            "font": {"size": 13}},
                  "range": [0, line.span_s * factor * 1.01 or 1], "gridcolor": _GRID,
                  "zeroline": False, "showline": True, "linecolor": _GRID, "ticks": "outside"},
        "yaxis": {"categoryorder": "array", "categoryarray": ranks[::-1], "range": [-0.6, line.world_size - 0.4],
                  "gridcolor": _GRID},
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 0, "yref": "container", "yanchor": "bottom"},
        "uniformtext": {"minsize": 10, "mode": "hide"},
        "hoverlabel": {"align": "left"},
    }  # fmt: skip
    return {"data": data, "layout": layout, "config": {"displaylogo": False}}


def _values(parts: list[tuple[Bar, float, float]], line: Timeline, factor: float) -> dict[str, Any]:
    return {
        "y": [f"rank {bar.rank}" for bar, _, _ in parts],
        "base": [round(start * factor, 4) for _, start, _ in parts],
        "x": [round((end - start) * factor, 4) for _, start, end in parts],
        "hovertext": ["<br>".join(esc(words) for words in about(bar, line)) for bar, _, _ in parts],
        "hoverinfo": "text",
    }


def _work(op: str, mark: Mark, line: Timeline, factor: float) -> dict[str, Any]:
    bars = [bar for bar in line.bars if bar.op == op]
    parts = [(bar, meets(bar, line), end_of(bar, line)) for bar in bars]
    return {
        "type": "bar", "orientation": "h", "name": op, "width": 0.62, **_values(parts, line, factor),
        "text": [str(bar) for bar in bars], "textposition": "inside", "insidetextanchor": "middle", "textangle": 0,
        "insidetextfont": {"color": mark.ink, "size": 12},
        "marker": {"color": mark.color, "line": {"width": 1, "color": _GREY},
                   "pattern": {"shape": mark.hatch, "fgcolor": mark.ink, "fgopacity": 0.35, "size": 7, "solidity": 0.15,
                               "fillmode": "overlay"} if mark.hatch else {"shape": ""}},
    }  # fmt: skip
