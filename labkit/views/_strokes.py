"""What a picture of calls is made of: boxes, lines, dots and words, each with the name of its style.

A page draws them with the classes of `calls.css`, which follow its theme. A still has the same styles as plain colours, so
that any program shows it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ._html import esc

THEMES: dict[str, dict[str, str]] = {
    "light": {"a": "#1668c4", "b": "#b08400", "d": "#149c7a", "bad": "#b92d00", "wait": "#8a6100", "good": "#007a5a",
              "fg": "#1f1f1f", "mute": "#5c5c5c", "line": "#8a8a8a", "bg": "#ffffff", "a-ink": "#ffffff", "b-ink": "#000000"},
    "dark": {"a": "#3d95e8", "b": "#f3d06a", "d": "#4fd6a8", "bad": "#ff6a3d", "wait": "#e8b13a", "good": "#3fcf9f",
             "fg": "#e6e6e6", "mute": "#ababab", "line": "#7d7d7d", "bg": "#111111", "a-ink": "#000000", "b-ink": "#000000"},
}  # fmt: skip


@dataclass(frozen=True)
class Style:
    """Fill and stroke as names of the theme's colours, mixed with the ground by so many percent; `size` is the words'."""

    fill: str = ""
    stroke: str = ""
    width: float = 0.0
    dash: tuple[float, ...] = ()
    tint: int = 100
    size: int = 12
    bold: bool = False


STYLES: dict[str, Style] = {
    "ta": Style("a", "a", 1.6, tint=18), "tb": Style("b", "b", 1.6, tint=26), "tn": Style("line", "line", 1.6, tint=14),
    "oa": Style("bg", "a", 2.5, (5, 3)), "ob": Style("bg", "b", 2.5, (5, 3)), "on": Style("bg", "mute", 2.5, (5, 3)),
    "la": Style("a", "a", 1.6), "lb": Style("b", "b", 1.6), "ln": Style("mute", "mute", 1.6),
    "ga": Style("", "a", 1.5), "gb": Style("", "b", 1.5), "hole": Style("bad", "bad", 2, (2, 3), tint=10),
    "frame": Style("", "bad", 2), "rail": Style("", "line", 1), "dots": Style("", "line", 1, (2, 4)),
    "tail": Style("", "wait", 3, (1, 4)), "end": Style("", "fg", 3),
    "pd": Style("d", "d", 2.5), "ph": Style("d"), "px": Style("bad", "bad", 3, (6, 4)),
    "pl": Style("d", "d", 1.5, (4, 3)), "off": Style("bad"), "late": Style("wait"), "all": Style("a", "a", 1, tint=18),
    "patch": Style("bg"),
    "w": Style("fg"), "wb": Style("fg", bold=True), "wm": Style("mute", size=11), "wx": Style("bad", bold=True),
    "wxs": Style("bad", size=11, bold=True), "ww": Style("wait", size=11), "wl": Style("fg", size=14, bold=True),
    "wia": Style("a-ink", size=14, bold=True), "wib": Style("b-ink", size=14, bold=True), "win": Style("bg", size=14, bold=True),
    "wsl": Style("mute", size=11), "wsa": Style("a-ink", size=11), "wsb": Style("b-ink", size=11), "wsn": Style("bg", size=11),
}  # fmt: skip


@dataclass(frozen=True)
class Box:
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float
    style: str
    radius: float = 4


@dataclass(frozen=True)
class Line:
    """Straight lines from point to point."""

    points: tuple[tuple[float, float], ...]
    style: str


@dataclass(frozen=True)
class Dot:
    """A circle."""

    x: float
    y: float
    radius: float
    style: str


@dataclass(frozen=True)
class Words:
    """One line of text; `anchor` "start", "middle" or "end" says where it begins from x."""

    x: float
    y: float
    text: str
    style: str = "w"
    anchor: str = "start"


@dataclass(frozen=True)
class Group:
    """Marks with one sentence about them; with `stop` a keyboard reaches them."""

    title: str
    marks: tuple[Mark, ...]
    stop: bool = False


Mark = Box | Line | Dot | Words | Group


@dataclass(frozen=True)
class Drawing:
    """Marks on a ground of fixed size in pixels."""

    width: float
    height: float
    marks: tuple[Mark, ...]
    about: str = ""


def number(value: float) -> str:
    """A coordinate, as short as it can be.

    >>> number(3.0), number(2.54)
    ('3', '2.5')
    """
    return f"{value:.1f}".rstrip("0").rstrip(".")


def markup(marks: Iterable[Mark], theme: str = "") -> str:
    """The marks as SVG: with classes, or with the colours of a theme."""
    return "".join(_one(mark, theme) for mark in marks)


def _one(mark: Mark, theme: str) -> str:
    match mark:
        case Group():
            stop = f' tabindex="0" role="img" aria-label="{esc(mark.title)}"' if mark.stop and not theme else ""
            return f"<g{stop}><title>{esc(mark.title)}</title>{markup(mark.marks, theme)}</g>"
        case Box():
            size = f'width="{number(mark.width)}" height="{number(mark.height)}" rx="{number(mark.radius)}"'
            return f'<rect x="{number(mark.x)}" y="{number(mark.y)}" {size} {_look(mark.style, theme)}/>'
        case Line():
            way = "L".join(f"{number(x)},{number(y)}" for x, y in mark.points)
            return f'<path d="M{way}" {_look(mark.style, theme)}/>'
        case Dot():
            return f'<circle cx="{number(mark.x)}" cy="{number(mark.y)}" r="{number(mark.radius)}" {_look(mark.style, theme)}/>'
        case Words():
            anchor = f' text-anchor="{mark.anchor}"' if mark.anchor != "start" else ""
            return f'<text x="{number(mark.x)}" y="{number(mark.y)}"{anchor} {_look(mark.style, theme)}>{esc(mark.text)}</text>'


def _look(name: str, theme: str) -> str:
    if not theme:
        return f'class="lk-{name}"'
    style = STYLES[name]
    if name.startswith("w"):
        bold = ' font-weight="700"' if style.bold else ""
        return f'fill="{color(style.fill, theme)}" font-size="{style.size}"{bold}'
    edge = f' stroke="{color(style.stroke, theme)}" stroke-width="{style.width}"' if style.stroke else ""
    edge += f' stroke-dasharray="{" ".join(map(number, style.dash))}"' if style.dash else ""
    edge += ' stroke-linecap="round"' if name == "tail" else ""
    return f'fill="{color(style.fill, theme, style.tint) if style.fill else "none"}"{edge}'


def color(name: str, theme: str, tint: int = 100) -> str:
    """A colour of the theme, mixed with its ground.

    >>> color("a", "light"), color("a", "light", 0)
    ('#1668c4', '#ffffff')
    """
    ink, ground = (_channels(THEMES[theme][one]) for one in (name, "bg"))
    return "#" + "".join(f"{round((a * tint + b * (100 - tint)) / 100):02x}" for a, b in zip(ink, ground, strict=True))


def _channels(hex_color: str) -> tuple[int, ...]:
    return tuple(int(hex_color[at : at + 2], 16) for at in (1, 3, 5))


def svg(drawing: Drawing, name: str = "") -> str:
    """A drawing for a page: fixed in size, so that its words keep theirs."""
    size = f'width="{number(drawing.width)}" height="{number(drawing.height)}"'
    style = f' class="{name}"' if name else ""
    return f'<svg{style} {size} role="group" aria-label="{esc(drawing.about)}">{markup(drawing.marks)}</svg>'
