"""Where the ranks of a schedule's picture stand: a ring as a ring, a tree as a tree, anything else on a circle.

One geometry serves the still picture, the stepper and the video, so that they show the same thing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ..schedule import Trace
from .schedule_style import Curve, Pair, Point, link, on_curve, overlap

DETAIL = 16  # ranks whose chunks are drawn; above that the pattern alone
MANY_CHUNKS = 40  # of one rank; more would be specks
TITLE, FOOT, PAD = 22, 32, 6  # of a rank's box, above and below its chunks and at their sides
WORDS = 78  # width of a box's words where they stand beside its chunk
EDGE = 14  # around the whole picture
LABEL = 17  # height of an arrow's label
_FINE = 720  # points of the curve that ranks are placed on
_PLACES = (0.5, 0.4, 0.6, 0.3, 0.7, 0.22, 0.78, 0.45, 0.35, 0.55, 0.65)  # of a label along its arrow, the best first


@dataclass(frozen=True)
class Scene:
    """`boxes[rank]` is x, y, width, height; `slots[rank]` the chunks that have a cell in it, none without `detail`.

    A box's words stand above and below its chunks, or `beside` its only one.
    """

    kind: str
    width: float
    height: float
    detail: bool
    boxes: tuple[tuple[float, float, float, float], ...]
    slots: tuple[tuple[int, ...], ...]
    cell: tuple[int, int]
    columns: int
    links: dict[Pair, Curve]
    beside: bool = False

    def cell_at(self, rank: int, slot: int) -> Point:
        """The corner of a cell."""
        x, y, width, _ = self.boxes[rank]
        if self.beside:
            return x + PAD, y + PAD
        used = min(self.columns, len(self.slots[rank]))
        left = x + (width - used * self.cell[0]) / 2
        return left + slot % self.columns * self.cell[0], y + TITLE + slot // self.columns * self.cell[1]

    def words_at(self, rank: int) -> tuple[Point, Point, Point]:
        """Where a box's three lines are centred, each on its baseline: the rank, its bytes and its messages."""
        x, y, width, height = self.boxes[rank]
        if self.beside:
            middle, y = x + PAD + self.cell[0] + WORDS / 2, y + height / 2
            return (middle, y - 10), (middle, y + 5), (middle, y + 18)
        middle = x + width / 2
        return (middle, y + 15), (middle, y + height - 20), (middle, y + height - 7)

    def labels_at(self, arrows: Sequence[tuple[Pair, float]]) -> list[Point]:
        """Where the labels of arrows that are seen together stand, given their widths: clear of boxes and of one another."""
        taken = [*self.boxes]
        found = []
        for pair, width in arrows:
            points = [on_curve(self.links[pair], at) for at in _PLACES]
            corners = [(x - width / 2, y - LABEL / 2, width, LABEL) for x, y in points]
            free = [index for index, corner in enumerate(corners) if not any(overlap(corner, other) for other in taken)]
            best = free[0] if free else 0
            taken.append(corners[best])
            found.append(points[best])
        return found


def pairs_of(trace: Trace) -> tuple[Pair, ...]:
    """Who ever sends to whom."""
    return tuple(sorted({(each.src, each.dst) for frame in trace.frames for each in frame.transfers}))


def kind_of(trace: Trace) -> str:
    """ "ring" if everybody only sends to the next rank, "tree" if the pairs make one, else "circle"."""
    size, pairs = trace.world_size, pairs_of(trace)
    if all((dst - src) % size == 1 for src, dst in pairs):
        return "ring"
    return "tree" if len(depths(trace)) == size and len({frozenset(pair) for pair in pairs}) == size - 1 else "circle"


def depths(trace: Trace) -> dict[int, int]:
    """Steps from the root along the pairs, for every rank that is reached."""
    neighbours = _neighbours(pairs_of(trace))
    found, edge = {trace.root: 0}, [trace.root]
    while edge:
        rank = edge.pop(0)
        for other in neighbours.get(rank, []):
            if other not in found:
                found[other] = found[rank] + 1
                edge.append(other)
    return found


def _deep(trace: Trace) -> bool:
    """Whether a tree is rather high than wide, so that flat boxes let it be seen as a whole."""
    leaves = sum(len(others) == 1 for others in _neighbours(pairs_of(trace)).values())
    return 2 * (max(depths(trace).values()) + 1) > leaves


def _neighbours(pairs: Iterable[Pair]) -> dict[int, list[int]]:
    found: dict[int, set[int]] = {}
    for src, dst in pairs:
        found.setdefault(src, set()).add(dst)
        found.setdefault(dst, set()).add(src)
    return {rank: sorted(others) for rank, others in found.items()}


def place(trace: Trace, *, portrait: bool = False) -> Scene:
    """The geometry of a trace's picture; `portrait` for one that is higher than wide."""
    slots = _slots(trace)
    most = max(map(len, slots), default=0)
    detail = trace.world_size <= DETAIL and most <= MANY_CHUNKS
    cell = _cell(trace.world_size)
    columns = _columns(trace.world_size, most, portrait)
    kind = kind_of(trace)
    beside = detail and kind == "tree" and most == 1 and not portrait and _deep(trace)
    if beside:
        size: Point = (2 * PAD + cell[0] + WORDS, 2 * PAD + cell[1])
    elif detail:
        rows = -(-most // columns) if most else 0
        size = (max(columns * cell[0] + 2 * PAD, 88.0), TITLE + rows * cell[1] + FOOT + PAD)
    else:
        slots, size = ((),) * trace.world_size, (30.0, 20.0)
    middles = _tree(trace, size, portrait) if kind == "tree" else _ellipse(trace, size, portrait)
    left, top = (min(point[axis] for point in middles) - size[axis] / 2 - EDGE for axis in (0, 1))
    middles = [(x - left, y - top) for x, y in middles]
    width, height = (max(point[axis] for point in middles) + size[axis] / 2 + EDGE for axis in (0, 1))
    pairs = frozenset(pairs_of(trace))
    links = {pair: link(pair, middles, size, kind, pairs) for pair in sorted(pairs)}
    boxes = tuple((x - size[0] / 2, y - size[1] / 2, *size) for x, y in middles)
    return Scene(kind, width, height, detail, boxes, slots, cell, columns, links, beside)


def _slots(trace: Trace) -> tuple[tuple[int, ...], ...]:
    """The chunks that a rank ever holds."""
    changes = [*trace.start, *(change for frame in trace.frames for change in frame.changes)]
    held: list[set[int]] = [set() for _ in range(trace.world_size)]
    for change in changes:
        held[change.rank].add(change.chunk)
    return tuple(tuple(sorted(chunks)) for chunks in held)


def _cell(world_size: int) -> tuple[int, int]:
    if world_size <= 4:
        return 40, 44
    return (34, 40) if world_size <= 8 else (28, 36)


def _columns(world_size: int, most: int, portrait: bool) -> int:
    if most <= 4:
        return max(most, 1)
    if portrait or (most <= 8 and world_size > 4):
        return 4
    return min(most, 8)


def _ellipse(trace: Trace, size: Point, portrait: bool) -> list[Point]:
    """Clockwise from the top, as large as the room lets boxes be, but wide enough that arrows pass beside boxes."""
    count = trace.world_size
    gap = 54.0 if count <= 8 else 48.0 if count <= DETAIL else 12.0
    ring = kind_of(trace) == "ring"
    pitch = (size[0] + (gap if ring or count > 8 else 2 * gap), size[1] + gap)
    room = (0.85, 1.0) if portrait else (1.7, 1.0)

    def fits(middles: list[Point]) -> float:
        spans = (max(point[axis] for point in middles) - min(point[axis] for point in middles) + size[axis] for axis in (0, 1))
        return min(have / span for have, span in zip(room, spans, strict=True))

    rounds = sorted((_round(count, pitch, aspect / 10) for aspect in range(5, 25)), key=fits, reverse=True)
    if ring or count > DETAIL:
        return rounds[0]
    best, fewest = rounds[0], len(pairs_of(trace)) * count
    for more, middles in itertools.product((1.0, 1.15, 1.3, 1.5), rounds[:5]):
        wider = [(x * more, y * more) for x, y in middles]
        crossings = _crossings(trace, wider, size)
        if crossings < fewest:
            best, fewest = wider, crossings
        if not fewest:
            break
    return best


def _crossings(trace: Trace, middles: list[Point], size: Point) -> int:
    """How many arrows run through a box that they have nothing to do with."""
    pairs = sorted(pairs_of(trace))
    both = frozenset(pairs)
    curves = [link(pair, middles, size, "circle", both) for pair in pairs]
    points = np.array([[on_curve(curve, step / 20) for step in range(1, 20)] for curve in curves])
    away = np.abs(points[:, :, None] - np.array(middles)) - np.array([size[0] / 2 + 4, size[1] / 2 + 4])
    inside = (away < 0).all(axis=3).any(axis=1)
    for index, pair in enumerate(pairs):
        inside[index, list(pair)] = False
    return int(inside.sum())


@cache
def _curve() -> tuple[Any, Any]:
    """A closed curve, clockwise from the top: a circle, a little squarer, so that more of the picture is used."""
    turns = np.linspace(0, 2 * math.pi, _FINE + 1)
    across, up = np.sin(turns), np.cos(turns)
    return np.copysign(abs(across) ** 0.8, across), -np.copysign(abs(up) ** 0.8, up)


def _round(world_size: int, pitch: Point, aspect: float) -> list[Point]:
    """Even places on a rounded curve, no two of them nearer than `pitch` both across and down."""
    x, y = _curve()
    x = x * aspect
    steps = np.maximum(abs(np.diff(x)) / pitch[0], abs(np.diff(y)) / pitch[1])
    ways = np.concatenate(([0.0], np.cumsum(steps)))
    at = ways[-1] * np.arange(world_size) / world_size
    places = np.array([np.interp(at, ways, x), np.interp(at, ways, y)])
    apart = (abs(places[:, :, None] - places[:, None, :]) / np.array(pitch)[:, None, None]).max(axis=0)
    nearest = apart[np.triu_indices(world_size, 1)].min(initial=math.inf) if world_size > 1 else 1.0
    return [(float(x), float(y)) for x, y in (places / nearest).T]


def _tree(trace: Trace, size: Point, portrait: bool) -> list[Point]:
    """Root on top; a parent stands over the middle of its children."""
    deep = depths(trace)
    children = {
        rank: [other for other in others if deep[other] > deep[rank]] for rank, others in _neighbours(pairs_of(trace)).items()
    }
    at: dict[int, float] = {}
    leaves = iter(range(trace.world_size))

    def settle(rank: int) -> float:
        below = [settle(child) for child in children.get(rank, [])]
        at[rank] = (below[0] + below[-1]) / 2 if below else float(next(leaves))
        return at[rank]

    settle(trace.root)
    across = size[0] + (22 if portrait or trace.world_size <= 8 else 14)
    down = size[1] + (90 if portrait else 50)
    return [(at[rank] * across, deep[rank] * down) for rank in range(trace.world_size)]
