"""The picture of calls as a file: a page, or for slides an SVG, or a PNG that Pillow draws (it comes with the extra "video")."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from .callgrid import CallGrid
from .errors import UsageError, shown
from .files import written_whole
from .views import to_html
from .views._call_still import compose, still
from .views._strokes import STYLES, THEMES, Box, Dot, Group, Line, Mark, Words, color

SCALE = 2  # pixels of the PNG for one of the drawing
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Calls of all ranks</title></head>
<body data-jp-theme-light="{light}" style="font-family:sans-serif;background:{paper}">
{body}
</body></html>
"""
_FINE = 2  # it is drawn this much larger, then made smooth


def save(grid: Any, path: Any, *, theme: str = "light") -> Path:
    """Write "hang.html" (a page, as in a notebook), "hang.svg" or "hang.png" (twice the size), light or dark.

    >>> save(world.calls(), "hang.svg")                                  # doctest: +SKIP
    """
    if not isinstance(grid, CallGrid):
        raise UsageError(f"a {type(grid).__name__} is no picture of calls", hint="give world.calls()")
    if theme not in THEMES:
        raise UsageError(f"no theme {shown(theme)}", hint="there are light and dark")
    if not isinstance(path, (str, Path)) or Path(path).suffix.lower() not in (".html", ".svg", ".png"):
        raise UsageError(f"no still of the kind {shown(str(path))}", hint="name it .html, .svg or .png")
    target = Path(path)
    try:
        with written_whole(target) as part:
            if target.suffix.lower() == ".svg":
                part.write_text(still(grid, theme), encoding="utf-8")
            elif target.suffix.lower() == ".html":
                light, paper = str(theme == "light").lower(), color("bg", theme)
                part.write_text(_PAGE.format(light=light, paper=paper, body=to_html(grid)), encoding="utf-8")
            else:
                _png(grid, theme).save(part, "PNG")
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"can't write {shown(str(path))}: {reason}", hint="name a file in a folder of yours with room") from None
    return target


def _png(grid: CallGrid, theme: str) -> Any:
    try:
        image_of, draw_of, font_of = (import_module(f"PIL.{name}") for name in ("Image", "ImageDraw", "ImageFont"))
    except ImportError:
        raise UsageError("a PNG needs Pillow", hint="install the package pillow, or name the file .svg") from None
    drawing, scale = compose(grid), SCALE * _FINE
    size = (round(drawing.width * scale), round(drawing.height * scale))
    image = image_of.new("RGB", size, color("bg", theme))
    _Pen(draw_of.Draw(image), font_of, scale, theme).draw(drawing.marks)
    return image.resize((size[0] // _FINE, size[1] // _FINE), image_of.Resampling.LANCZOS)


class _Pen:
    """Draws marks with Pillow."""

    def __init__(self, draw: Any, fonts: Any, scale: int, theme: str) -> None:
        self._draw, self._fonts, self._scale, self._theme = draw, fonts, scale, theme

    def draw(self, marks: Iterable[Mark]) -> None:
        for mark in marks:
            match mark:
                case Group():
                    self.draw(mark.marks)
                case Box():
                    self._box(mark)
                case Line():
                    self._line(mark)
                case Dot():
                    self._dot(mark)
                case Words():
                    self._words(mark)

    def _color(self, name: str, tint: int = 100) -> str | None:
        return color(name, self._theme, tint) if name else None

    def _box(self, box: Box) -> None:
        style, scale = STYLES[box.style], self._scale
        corners = [box.x * scale, box.y * scale, (box.x + box.width) * scale, (box.y + box.height) * scale]
        fill, edge = self._color(style.fill, style.tint), None if style.dash else self._color(style.stroke)
        self._draw.rounded_rectangle(corners, box.radius * scale, fill, edge, round(style.width * scale))
        if style.dash:
            x, y, right, low = box.x, box.y, box.x + box.width, box.y + box.height
            self._dashes(((x, y), (right, y), (right, low), (x, low), (x, y)), box.style)

    def _line(self, line: Line) -> None:
        style = STYLES[line.style]
        if style.dash:
            self._dashes(line.points, line.style)
        elif style.fill and not style.stroke:
            self._draw.polygon([(x * self._scale, y * self._scale) for x, y in line.points], self._color(style.fill))
        else:
            points = [(x * self._scale, y * self._scale) for x, y in line.points]
            self._draw.line(points, self._color(style.stroke), max(round(style.width * self._scale), 1))

    def _dashes(self, points: tuple[tuple[float, float], ...], name: str) -> None:
        style, scale = STYLES[name], self._scale
        on, off = style.dash
        for (x1, y1), (x2, y2) in itertools.pairwise(points):
            length = max(abs(x2 - x1), abs(y2 - y1), ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5)
            at = 0.0
            while at < length:
                ends = [at / length, min(at + max(on, 1.5), length) / length]
                dash = [((x1 + (x2 - x1) * part) * scale, (y1 + (y2 - y1) * part) * scale) for part in ends]
                self._draw.line(dash, self._color(style.stroke), round(style.width * scale))
                at += on + off

    def _dot(self, dot: Dot) -> None:
        style, scale = STYLES[dot.style], self._scale
        around = [(dot.x - dot.radius) * scale, (dot.y - dot.radius) * scale]
        around += [(dot.x + dot.radius) * scale, (dot.y + dot.radius) * scale]
        edge = self._color(style.stroke) or self._color(style.fill)
        self._draw.ellipse(around, self._color(style.fill, style.tint), edge, round((style.width or 1) * scale))

    def _words(self, words: Words) -> None:
        style = STYLES[words.style]
        anchor = {"start": "ls", "middle": "ms", "end": "rs"}[words.anchor]
        font = self._fonts.load_default(style.size * self._scale)
        place = (words.x * self._scale, words.y * self._scale)
        ink, bold = self._color(style.fill), self._scale * 0.25 if style.bold else 0
        self._draw.text(place, words.text, ink, font=font, anchor=anchor, stroke_width=bold, stroke_fill=ink)
