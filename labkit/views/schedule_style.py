"""How a schedule's picture looks: colours for colour-blind eyes, light and dark pages; and arrows that can be told apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

ADD, COPY = "#d55e00", "#3d94cf"  # of Okabe and Ito's set; an addition is a whole line, a copy a dashed one
ON_ARROW = "#000000"
# cividis: lightness rises all the way, so that it can be read without colour too
_RAMP = ("#00204c", "#2c4770", "#666870", "#958f78", "#c9b869", "#ffe945")

Color = tuple[int, int, int]


def rgb(color: str) -> Color:
    """
    >>> rgb("#ff8000")
    (255, 128, 0)
    """
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def fill(share: float) -> str:
    """The colour of a share from 0 to 1.

    >>> fill(0), fill(1)
    ('#00204c', '#ffe945')
    """
    at = min(max(share, 0.0), 1.0) * (len(_RAMP) - 1)
    low = min(int(at), len(_RAMP) - 2)
    one, two = rgb(_RAMP[low]), rgb(_RAMP[low + 1])
    return "#" + "".join(f"{round(a + (b - a) * (at - low)):02x}" for a, b in zip(one, two, strict=True))


def luminance(color: str) -> float:
    """Relative luminance, as contrast is computed from."""
    parts = [part / 255 for part in rgb(color)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, two: str) -> float:
    """From 1 to 21; text wants 4.5.

    >>> contrast("#000000", "#ffffff")
    21.0
    """
    light, dark = sorted((luminance(one), luminance(two)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def ink(color: str) -> str:
    """Black or white, whichever is read better on a colour."""
    return max("#000000", "#ffffff", key=lambda each: contrast(each, color))


def palette(world_size: int) -> list[tuple[str, str]]:
    """Fill and ink for 1 to `world_size` contributions; where nothing is added up, for each rank's own."""
    fills = [fill(index / max(world_size - 1, 1)) for index in range(world_size)]
    return [(each, ink(each)) for each in fills]


Pair = tuple[int, int]
Point = tuple[float, float]
Curve = tuple[float, float, float, float, float, float]  # start, bend, end


def on_curve(curve: Curve, at: float) -> Point:
    """A point of a quadratic curve, `at` from 0 to 1.

    >>> on_curve((0, 0, 1, 2, 2, 0), 0.5)
    (1.0, 1.0)
    """
    x0, y0, x1, y1, x2, y2 = curve
    rest = 1 - at
    return rest * rest * x0 + 2 * rest * at * x1 + at * at * x2, rest * rest * y0 + 2 * rest * at * y1 + at * at * y2


def overlap(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two rectangles of x, y, width, height touch."""
    (ax, ay, aw, ah), (bx, by, bw, bh) = one, other
    return ax < bx + bw and bx < ax + aw and ay < by + bh and by < ay + ah


def link(pair: Pair, middles: list[Point], size: Point, kind: str, pairs: frozenset[Pair]) -> Curve:
    """From border to border; bent to the inside past other ranks, and aside where there is one the other way."""
    (ax, ay), (bx, by) = (middles[rank] for rank in pair)
    x, y = (ax + bx) / 2, (ay + by) / 2
    if kind == "tree":  # from a box's upper edge to another's lower one, so that no arrow touches a sibling
        side = size[1] / 2 + 3
        return (ax, ay + math.copysign(side, by - ay), x, y, bx, by - math.copysign(side, by - ay))
    count = len(middles)
    if kind == "circle" and (pair[1] - pair[0]) % count not in (1, count - 1):
        cx, cy = (sum(axis) / count for axis in zip(*middles, strict=True))
        x, y = x + (cx - x) * 0.4, y + (cy - y) * 0.4
    if pair[::-1] in pairs:
        length = math.hypot(bx - ax, by - ay)
        aside = 26.0 if size[1] > 30 else 8.0
        x, y = x + (by - ay) / length * aside, y - (bx - ax) / length * aside
    start, end = _border((ax, ay), (x, y), size, 2), _border((bx, by), (x, y), size, 5)
    return (*start, x, y, *end)


def _border(middle: Point, toward: Point, size: Point, off: float) -> Point:
    dx, dy = toward[0] - middle[0], toward[1] - middle[1]
    half_width, half_height = size[0] / 2 + off, size[1] / 2 + off
    scale = min(half_width / abs(dx) if dx else math.inf, half_height / abs(dy) if dy else math.inf)
    return middle[0] + dx * min(scale, 1), middle[1] + dy * min(scale, 1)
