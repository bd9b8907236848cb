"""NCCL's log as pictures: its rings and trees with the hosts they cross, and a table of what it took for which size."""

from __future__ import annotations

import dataclasses

from ..document import Block, Code, Details, Node, Paragraph, Picture, Table, Tree
from ..schedule.nccl_log import NcclLog, NcclRing, as_text, channels_text, head, regime_cells, transports
from ..schedule.records import Source
from . import _html as h
from ._base import add
from .nccl_shapes import MOST_RANKS, legend, ring_picture, tree_picture

_SHAPES = 4  # of each kind are drawn; the others are in the text
_GAP = "display:flex;flex-wrap:wrap;gap:12px 28px;align-items:flex-end"


def tree(log: NcclLog) -> Tree:
    """The shapes, what NCCL took by size, and the tuner's table; a terminal has the record's own text."""
    parts: list[Node] = _source(log.source) if log.source is not None else []
    parts += [Picture(_pictures(log)), *_choices(log), *_costs(log), *map(Paragraph, transports(log))]
    parts += [Paragraph(f"not in this log: {', '.join(log.missing)}")] if log.missing else []
    parts += [Paragraph(log.left_out)] if log.left_out else []
    parts.append(Details("as text", [Code(as_text(log))]))
    return [Picture(h.as_html([Block(parts, "wait" if log.source is not None else "", head(log))]), as_text(log))]


def _source(source: Source) -> list[Node]:
    """That it was not run here, above all; whose it is, below that."""
    about: list[Node] = [Paragraph(source.about)] if source.about else []
    return [Paragraph(str(dataclasses.replace(source, about="")), "lead"), *about]


def _pictures(log: NcclLog) -> str:
    rings, trees = log.shapes("rings"), log.shapes("trees")
    if not (rings or trees) or log.world_size > MOST_RANKS:
        return ""
    drawn = []
    for channels, ring in rings[:_SHAPES]:
        assert isinstance(ring, NcclRing)
        cut = ", cut off by the log" if ring.cut else ""
        drawn.append(_figure(ring_picture(log, ring), f"ring, {channels_text(channels)}{cut}"))
    drawn += [_figure(tree_picture(log, channels[0]), f"tree, {channels_text(channels)}") for channels, _ in trees[:_SHAPES]]
    more = sum(max(len(found) - _SHAPES, 0) for found in (rings, trees))
    rest = f"<p>{more} more {'shape' if more == 1 else 'shapes'}: see the text</p>" if more else ""
    return f'<div style="{_GAP}">{"".join(drawn)}</div>' + legend(log) + rest


def _figure(picture: str, caption: str) -> str:
    return f'<figure style="margin:0">{picture}<figcaption>{h.esc(caption)}</figcaption></figure>'


def _choices(log: NcclLog) -> list[Node]:
    rows = [(op or "calls", *cells) for op in log.ops for cells in map(regime_cells, log.regimes(op))]
    names = ["collective", "sizes", "algorithm", "protocol", "channels", "time it expects"]
    kept = [column for column in range(len(names)) if column < 4 or any(row[column] != "-" for row in rows)]
    if not rows:
        return []
    return [Table([names[i] for i in kept], [[row[i] for i in kept] for row in rows], "what NCCL took, by size")]


def _costs(log: NcclLog) -> list[Node]:
    rows = [(each.op, each.algorithm, each.protocol, f"{each.latency_us:g} µs", f"{each.gb_per_s:g} GB/s") for each in log.costs]
    if not rows:
        return []
    names = ["collective", "algorithm", "protocol", "latency", "bandwidth"]
    return [Details("the tuner's table: time is about latency + bytes / bandwidth", [Table(names, rows)])]


add(NcclLog, tree)
