"""One frame of a schedule as a still SVG: stands by itself, needs no script and no styles, and follows the page's theme."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import UsageError
from ..schedule import Trace
from . import schedule_plain as plain
from ._html import esc
from .schedule_geometry import Scene, place
from .schedule_style import ADD, COPY, ON_ARROW, palette

WIDTH = 720  # at least, for the legend
LEAST, LEAST_PX = 0.5, 620  # of its size, or in pixels: to this a picture shrinks, then it is scrolled to keep its words
_LEGEND = 34  # height of the legend below the picture
_LINE = 'stroke="currentColor" stroke-opacity="0.45"'
_FAINT = 'fill-opacity="0.75"'


def svg(trace: Trace, position: int | None = None, scene: Scene | None = None) -> str:
    """The picture at a position: 0 is the start, k what step k has done with its arrows, None the end."""
    last = len(trace.frames)
    position = last if position is None else position
    if not 0 <= position <= last:
        raise UsageError(f"{trace.name} has no position {position}", hint=f"0 is the start, {last} the end")
    scene = scene if scene is not None else place(trace)
    width, height = max(scene.width, WIDTH), scene.height + _LEGEND
    left = (width - scene.width) / 2
    key = f"{trace.name}-{trace.world_size}-{position}".replace(" ", "")
    body = f'<g transform="translate({left:.1f} 0)">{_boxes(trace, position, scene)}{_arrows(trace, position, scene, key)}</g>'
    label = esc(f"{plain.title(trace)}. {plain.said(trace, position)}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{label}" '
        f'fill="currentColor" font-size="12" style="display:block;width:100%;max-width:{width:.0f}px;'
        f'min-width:{min(LEAST * width, LEAST_PX):.0f}px;height:auto">'
        f"{_heads(key)}{body}{_legend(trace, scene, scene.height + 16)}</svg>"
    )


def _heads(key: str) -> str:
    shape = '<path d="M0,0L8,4L0,8z" fill="{}"/>'
    size = 'markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto" markerUnits="userSpaceOnUse"'
    marker = '<marker id="{}" ' + size + ">{}</marker>"
    heads = (("add", ADD), ("copy", COPY))
    return "<defs>" + "".join(marker.format(esc(f"lk-{name}-{key}"), shape.format(color)) for name, color in heads) + "</defs>"


def _boxes(trace: Trace, position: int, scene: Scene) -> str:
    parts = []
    sent = plain.counters(trace, position)
    origins = trace.origins(position - 1)
    colors = palette(trace.world_size)
    frame = trace.frames[position - 1] if position else None
    fresh = {(each.rank, each.chunk) for each in frame.changes} if frame else set()
    for rank, (x, y, width, height) in enumerate(scene.boxes):
        parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width}" height="{height}" rx="5" fill="none" {_LINE}/>')
        if not scene.detail:
            parts.append(f'<text x="{x + width / 2:.1f}" y="{y + 14:.1f}" text-anchor="middle">{rank}</text>')
            continue
        (left, top), *below = scene.words_at(rank)
        parts.append(f'<text x="{left:.1f}" y="{top:.1f}" text-anchor="middle" font-weight="600">rank {rank}</text>')
        for (left, top), words in zip(below, sent[rank], strict=True):
            parts.append(f'<text x="{left:.1f}" y="{top:.1f}" text-anchor="middle" font-size="11" {_FAINT}>{esc(words)}</text>')
        for slot, chunk in enumerate(scene.slots[rank]):
            ranks = origins.get((rank, chunk), ())
            parts.append(_cell(trace, scene, (rank, slot), ranks, (rank, chunk) in fresh, colors))
    return "".join(parts)


def _cell(
    trace: Trace, scene: Scene, place: tuple[int, int], ranks: Sequence[int], fresh: bool, colors: list[tuple[str, str]]
) -> str:
    x, y = scene.cell_at(*place)
    width, height = scene.cell
    chunk = scene.slots[place[0]][place[1]]
    color, ink = colors[plain.cell_color(trace, ranks)] if ranks else ("none", "currentColor")
    edge = 'stroke="currentColor" stroke-width="3"' if fresh else _LINE + ("" if ranks else ' stroke-dasharray="3 3"')
    middle = x + width / 2
    words, name = esc(plain.cell_text(trace, ranks)), plain.chunk_name(trace, chunk)
    drawn = (
        f'<rect x="{x + 2:.1f}" y="{y + 2:.1f}" width="{width - 4}" height="{height - 4}" rx="3" fill="{color}" {edge}/>'
        f'<text x="{middle:.1f}" y="{y + 13:.1f}" text-anchor="middle" font-size="10" fill="{ink}" {_FAINT}>{name}</text>'
        f'<text x="{middle:.1f}" y="{y + height - 12:.1f}" text-anchor="middle" font-size="13" font-weight="600" '
        f'fill="{ink}">{words}</text>'
    )
    if ranks and plain.reduces(trace):
        part = (width - 10) / trace.world_size
        marks = "".join(f"M{x + 5 + rank * part:.1f},{y + height - 7:.1f}h{part:.1f}" for rank in ranks)
        drawn += f'<path d="{marks}" stroke="{ink}" stroke-width="3"/>'
    return f"<g><title>{esc(plain.cell_about(chunk, ranks))}</title>{drawn}</g>"


def _arrows(trace: Trace, position: int, scene: Scene, key: str) -> str:
    if not position:
        return ""
    frame = trace.frames[position - 1]
    lines, labels = [], []
    for arrow in plain.arrows(trace, frame, scene):
        x0, y0, x1, y1, x2, y2 = scene.links[arrow.src, arrow.dst]
        color, dash = (ADD, "") if arrow.adds else (COPY, ' stroke-dasharray="6 4"')
        lines.append(
            f'<path d="M{x0:.1f},{y0:.1f}Q{x1:.1f},{y1:.1f} {x2:.1f},{y2:.1f}" fill="none" stroke="{color}" '
            f'stroke-width="{2 if scene.detail else 1.2}"{dash} marker-end="url(#{esc(f"lk-{arrow.kind}-{key}")})"/>'
        )
        if plain.labelled(frame, scene):
            labels.append(_plate(*arrow.at, arrow.label, color))
    return "".join(lines) + "".join(labels)


def _plate(x: float, y: float, label: str, color: str) -> str:
    width = plain.label_width(label)
    return (
        f'<rect x="{x - width / 2:.1f}" y="{y - 8:.1f}" width="{width}" height="16" rx="8" fill="{color}"/>'
        f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" font-size="11" font-weight="600" '
        f'fill="{ON_ARROW}">{esc(label)}</text>'
    )


def _legend(trace: Trace, scene: Scene, y: float) -> str:
    parts, x = [], float(14)
    if scene.detail:
        for index, words in plain.swatches(trace):
            color, ink = palette(trace.world_size)[index]
            parts.append(f'<rect x="{x}" y="{y - 9}" width="26" height="18" rx="3" fill="{color}" {_LINE}/>')
            parts.append(f'<text x="{x + 13}" y="{y + 4}" text-anchor="middle" font-size="11" fill="{ink}">{esc(words)}</text>')
            x += 30
        parts.append(f'<text x="{x + 4}" y="{y + 4}">{esc(plain.legend(trace))}</text>')
        x += 20 + 6.2 * len(plain.legend(trace))
    for name, words in plain.LEGEND:
        color, dash = (ADD, "") if name == "add" else (COPY, ' stroke-dasharray="6 4"')
        parts.append(f'<path d="M{x},{y}h26" stroke="{color}" stroke-width="2.5"{dash}/>')
        parts.append(f'<text x="{x + 32}" y="{y + 4}">{esc(words)}</text>')
        x += 46 + 6.6 * len(words)
    return f"<g>{''.join(parts)}</g>"
