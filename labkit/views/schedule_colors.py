"""Colours of a schedule's picture: for colour-blind eyes, light and dark pages, and never without a word or number."""

from __future__ import annotations

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
