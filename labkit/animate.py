"""A schedule's frames as a portrait video or a GIF: the stepper's picture, drawn with Pillow and encoded by PyAV.

Both come with the extra "video" and are imported when a film is wanted. A file appears whole or not at all.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from .errors import UsageError, shown
from .schedule import Trace
from .units import is_number
from .views import schedule_plain as plain
from .views.schedule_geometry import Scene, place
from .views.schedule_style import ADD, COPY, ON_ARROW, on_curve, palette

WIDTH, HEIGHT = 1080, 1920
FPS = {".mp4": 30, ".gif": 10}
LONGEST_S = 600
THEMES = {"light": ("#ffffff", "#212121"), "dark": ("#111111", "#e0e0e0")}
_MARGIN, _TOP, _ROOM = 60, 250, 1130  # of the picture, and how high it may be
_FLIGHT = 0.6  # part of a step in which chunks travel
_START, _END = 0.8, 1.6  # how long start and end are seen, in steps
_FINE = 2  # lines are drawn this much larger, then made smooth


def export(trace: Trace, path: str | Path, *, seconds: float | None = None, theme: str = "light") -> Path:
    """Write the film of a trace: "ring.mp4" (H.264, 1080 x 1920, 30 frames a second) or "ring.gif" (half that size, 10).

    `seconds` is its length; left out, every step has 1.2 s, and the whole no more than a minute. Where the path is a
    symbolic link, what it points to is written.
    """
    if not isinstance(trace, Trace):
        raise UsageError(f"a {type(trace).__name__} has no frames", hint="give labkit.schedule.trace(schedule, num_elements)")
    named = _path(path)
    kind = named.suffix.lower()
    if kind not in FPS:
        raise UsageError(f"no film of the kind {shown(named.name)}", hint="name it .mp4 or .gif")
    if theme not in tuple(THEMES):
        raise UsageError(f"no theme {shown(theme)}", hint="there are light and dark")
    length = min(1.2 * (len(trace.frames) + _START + _END), 60.0) if seconds is None else seconds
    if not is_number(length) or not 0 < length <= LONGEST_S:
        raise UsageError(f"no film of {shown(length)} s", hint=f"seconds may be up to {LONGEST_S}")
    film = Film(trace, theme)
    try:
        target = _target(named)
        _write(film, target, kind, max(1, round(length * FPS[kind])))
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"can't write {shown(str(path))}: {reason}", hint="name a file in a folder of yours with room") from None
    return named


def _path(given: Any) -> Path:
    if not isinstance(given, (str, Path)) or "\0" in str(given):
        raise UsageError(f"{shown(given)} is no path", hint="name a file, for example 'ring.gif'")
    return Path(given)


def _target(path: Path) -> Path:
    """The file that is written; OSError or UsageError if it can't be one."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise UsageError(f"{shown(str(path))} is a folder", hint="name a file in it")
    if target.is_symlink() or (target.exists() and not target.is_file()):  # a link that leads to itself, or a device
        raise UsageError(f"{shown(str(path))} is no file", hint="give another name")
    if not target.parent.is_dir():
        raise UsageError(f"no folder {shown(str(target.parent))}", hint="make it first")
    return target


def _write(film: Film, target: Path, kind: str, number: int) -> None:
    """Beside the target first, under a name that is no longer than any other."""
    handle, name = tempfile.mkstemp(prefix=".film-", suffix=kind, dir=target.parent)
    os.close(handle)
    part = Path(name)
    try:
        (_write_mp4 if kind == ".mp4" else _write_gif)(film, part, number)
        part.chmod(0o644)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _pillow() -> tuple[Any, Any, Any]:
    try:
        return import_module("PIL.Image"), import_module("PIL.ImageDraw"), import_module("PIL.ImageFont")
    except ImportError:
        raise UsageError("films need Pillow", hint="install the packages pillow and av") from None


def _pyav() -> Any:
    try:
        return import_module("av")
    except ImportError:
        raise UsageError("an MP4 needs PyAV", hint="install the package av, or name the film .gif") from None


def moment(index: int, number: int, steps: int) -> tuple[int, float]:
    """The position of frame `index` of `number`, and how far its chunks have flown, from 0 to 1.

    >>> moment(0, 90, 4), moment(89, 90, 4)
    ((0, 1.0), (4, 1.0))
    """
    at = index / number * (_START + steps + _END) - _START
    if at < 0 or not steps:
        return 0, 1.0
    step = min(int(at), steps - 1)
    return step + 1, min((at - step) / _FLIGHT, 1.0)


@dataclass(frozen=True)
class Pen:
    """Draws in the scene's coordinates onto an image that is `_FINE` times too large."""

    draw: Any
    font: Callable[[float], Any]
    scale: float
    left: float
    top: float

    def point(self, x: float, y: float) -> tuple[float, float]:
        return (self.left + x * self.scale) * _FINE, (self.top + y * self.scale) * _FINE

    def size(self, value: float) -> int:
        return max(round(value * self.scale * _FINE), 1)

    def box(
        self, x: float, y: float, width: float, height: float, radius: float, fill: str | None, line: str, edge: float
    ) -> None:
        corners = [self.point(x, y), self.point(x + width, y + height)]
        self.draw.rounded_rectangle(corners, self.size(radius), fill, line, self.size(edge))

    def text(self, x: float, y: float, words: str, size: float, color: str, *, bold: bool = False) -> None:
        font = self.font(size * self.scale * _FINE)
        heavy = max(self.size(0.35), 1) if bold else 0
        self.draw.text(self.point(x, y), words, color, font, anchor="mm", stroke_width=heavy, stroke_fill=color)


class Film:
    """Draws frames; what stays the same within a step is drawn once."""

    def __init__(self, trace: Trace, theme: str = "light") -> None:
        self.trace, (self.back, self.ink) = trace, THEMES[theme]
        self.scene: Scene = place(trace, portrait=True)
        self.image_module, self._draw, fonts = _pillow()
        self._font = functools.cache(lambda size: fonts.load_default(size=size))
        self.scale = min((WIDTH - 2 * _MARGIN) / self.scene.width, _ROOM / self.scene.height, 3.0)
        self.left = (WIDTH - self.scene.width * self.scale) / 2
        self.top = _TOP + (_ROOM - self.scene.height * self.scale) / 2
        self._colors = palette(trace.world_size)
        self._known: dict[tuple[int, bool], Any] = {}

    def frames(self, number: int) -> Iterator[Any]:
        """All frames, as RGB images."""
        steps = len(self.trace.frames)
        for index in range(number):
            position, flown = moment(index, number, steps)
            image = self.still(position, arrived=flown >= 1).copy()
            for arrow in self._labels(position):
                at = arrow.at if flown >= 1 else on_curve(self.scene.links[arrow.src, arrow.dst], flown)
                plate = self._plate(arrow.label, ADD if arrow.adds else COPY)
                x, y = self.left + at[0] * self.scale, self.top + at[1] * self.scale
                image.paste(plate, (round(x - plate.width / 2), round(y - plate.height / 2)), plate)
            done = (index + 1) / number * (WIDTH - 2 * _MARGIN)
            self._draw.Draw(image).rectangle((_MARGIN, HEIGHT - 66, _MARGIN + done, HEIGHT - 58), COPY)
            yield image

    def still(self, position: int, *, arrived: bool = True) -> Any:
        """A position without its labels; the last few are kept."""
        key = (position, arrived)
        if key not in self._known:
            if len(self._known) > 1:
                self._known.pop(next(iter(self._known)))
            self._known[key] = self._still(position, arrived)
        return self._known[key]

    def _still(self, position: int, arrived: bool) -> Any:
        image = self.image_module.new("RGB", (WIDTH * _FINE, HEIGHT * _FINE), self.back)
        pen = Pen(self._draw.Draw(image), self._font, self.scale, self.left, self.top)
        self._boxes(pen, position, arrived)
        if position:
            for arrow in plain.arrows(self.trace, self.trace.frames[position - 1], self.scene):
                self._arrow(pen, arrow)
        self._words(Pen(pen.draw, pen.font, 1.0, 0.0, 0.0), position)
        return image.reduce(_FINE)

    def _words(self, pen: Pen, position: int) -> None:
        trace, steps = self.trace, len(self.trace.frames)
        phase = trace.frames[position - 1].phase if position else ""
        pen.text(WIDTH / 2, 90, trace.name, 64, self.ink, bold=True)
        pen.text(WIDTH / 2, 160, f"{trace.title} on {trace.world_size} ranks", 38, self.ink)
        where = (
            f"step {position - 1} ({position} of {steps})" + (f": {phase}" if phase else "")
            if position
            else f"start of {steps} steps"
        )
        pen.text(WIDTH / 2, 1440, where, 46, self.ink, bold=True)
        said = plain.said(trace, position).partition(": ")[2].partition(". ")[0]
        for number, line in enumerate(plain.balanced(said, 50, 3)):
            pen.text(WIDTH / 2, 1515 + 50 * number, line, 38, self.ink)
        for number, line in enumerate(plain.summary(trace, position).split("; ")):
            pen.text(WIDTH / 2, 1685 + 44 * number, line, 34, self.ink)
        if self.scene.detail:
            cell = "how many ranks are in the sum" if plain.reduces(trace) else "whose chunk it is"
            pen.text(WIDTH / 2, 1800, f"in a cell: {cell}     + adds     = copies", 28, self.ink)

    def _boxes(self, pen: Pen, position: int, arrived: bool) -> None:
        trace, scene = self.trace, self.scene
        origins = trace.origins(position - 1 if arrived else position - 2)
        sent = plain.counters(trace, position)
        fresh = {(each.rank, each.chunk) for each in trace.frames[position - 1].changes} if position and arrived else set()
        for rank, (x, y, width, height) in enumerate(scene.boxes):
            pen.box(x, y, width, height, 5, None, self.ink, 1)
            if not scene.detail:
                pen.text(x + width / 2, y + height / 2, str(rank), 12, self.ink)
                continue
            pen.text(x + width / 2, y + 11, f"rank {rank}", 13, self.ink, bold=True)
            for line, words in enumerate(sent[rank]):
                pen.text(x + width / 2, y + height - 24 + 13 * line, words, 11, self.ink)
            for slot, chunk in enumerate(scene.slots[rank]):
                self._cell(pen, (rank, slot), origins.get((rank, chunk), ()), fresh=(rank, chunk) in fresh)

    def _cell(self, pen: Pen, where: tuple[int, int], ranks: tuple[int, ...], *, fresh: bool) -> None:
        trace = self.trace
        (x, y), (width, height) = self.scene.cell_at(*where), self.scene.cell
        fill, ink = self._colors[plain.cell_color(trace, ranks)] if ranks else (self.back, self.ink)
        pen.box(x + 2, y + 2, width - 4, height - 4, 3, fill, self.ink if fresh or not ranks else fill, 3 if fresh else 1)
        pen.text(x + width / 2, y + 9, plain.chunk_name(trace, self.scene.slots[where[0]][where[1]]), 10, ink)
        pen.text(x + width / 2, y + height - 17, plain.cell_text(trace, ranks), 14, ink, bold=True)
        part = (width - 10) / trace.world_size
        for rank in ranks if plain.reduces(trace) else ():
            start = x + 5 + rank * part
            corners = [pen.point(start, y + height - 8.5), pen.point(start + part, y + height - 5.5)]
            pen.draw.rectangle(corners, ink)

    def _arrow(self, pen: Pen, arrow: plain.Arrow) -> None:
        curve, color = self.scene.links[arrow.src, arrow.dst], ADD if arrow.adds else COPY
        points = [on_curve(curve, step / 48) for step in range(49)]
        width = pen.size(2 if self.scene.detail else 1.2)
        pieces = [points] if arrow.adds else [points[start : start + 3] for start in range(0, 45, 4)]
        for piece in pieces:
            pen.draw.line([pen.point(*each) for each in piece], color, width, joint="curve")
        (bx, by), (ex, ey) = on_curve(curve, 0.9), points[-1]
        length = max(((ex - bx) ** 2 + (ey - by) ** 2) ** 0.5, 1e-6)
        dx, dy = (ex - bx) / length * 8, (ey - by) / length * 8
        head = [(ex, ey), (ex - dx - dy / 2, ey - dy + dx / 2), (ex - dx + dy / 2, ey - dy - dx / 2)]
        pen.draw.polygon([pen.point(*each) for each in head], color)

    def _labels(self, position: int) -> list[plain.Arrow]:
        frame = self.trace.frames[position - 1] if position else None
        return plain.arrows(self.trace, frame, self.scene) if frame and plain.labelled(frame, self.scene) else []

    def _plate(self, label: str, color: str) -> Any:
        width, height = plain.label_width(label), 17.0
        size = (round(width * self.scale) * _FINE, round(height * self.scale) * _FINE)
        image = self.image_module.new("RGBA", size, (0, 0, 0, 0))
        pen = Pen(self._draw.Draw(image), self._font, self.scale, 0.0, 0.0)
        pen.draw.rounded_rectangle([0, 0, size[0] - 1, size[1] - 1], size[1] // 2, color)
        pen.text(width / 2, height / 2, label, 13, ON_ARROW)
        return image.reduce(_FINE)


def _write_mp4(film: Film, path: Path, number: int) -> None:
    av = _pyav()
    try:
        _encode(av, film, path, number)
    except av.FFmpegError as error:  # a full disk is one of these
        raise OSError(error.errno, error.strerror) from None


def _encode(av: Any, film: Film, path: Path, number: int) -> None:
    with av.open(str(path), "w", format="mp4", options={"movflags": "faststart"}) as container:
        stream = container.add_stream("libx264", rate=FPS[".mp4"], options={"crf": "20", "preset": "veryfast"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for image in film.frames(number):
            container.mux(stream.encode(av.VideoFrame.from_image(image)))
        container.mux(stream.encode())


def _write_gif(film: Film, path: Path, number: int) -> None:
    steps = len(film.trace.frames)
    sample = film.image_module.new("RGB", (WIDTH, HEIGHT))  # what all frames take their colours from
    for index in range(3):
        part = next(iter(film.frames(1))) if not index else film.still(steps if index == 1 else (steps + 1) // 2)
        sample.paste(part.resize((WIDTH // 3, HEIGHT)), (WIDTH // 3 * index, 0))
    colors = sample.quantize(128)
    small = (image.reduce(2).quantize(palette=colors, dither=0) for image in film.frames(number))
    first = next(small)
    first.save(path, format="GIF", save_all=True, append_images=small, duration=1000 // FPS[".gif"], loop=0)
