"""Sends and receives as arrows between the rows of a picture of calls; time runs to the right."""

from __future__ import annotations

from collections.abc import Sequence

from ..callgrid import CallGrid, Message, Row
from . import _call_words as say
from ._call_marks import place_rows
from ._strokes import Dot, Drawing, Group, Line, Mark, Words

_SENDS = 34  # from one message to the next


def draw_messages(grid: CallGrid) -> Drawing:
    """Sends and receives as arrows; time runs to the right."""
    assert grid.messages is not None
    folds = grid.messages.rows
    rows = place_rows(grid, [Row(ranks) for ranks in folds], lines=any(say.lines_matter(track) for track in grid.tracks))
    at = {rank: i for i, ranks in enumerate(folds) for rank in ranks}
    shown = [each for each in grid.messages.messages if each.trouble or at.get(each.src) != at.get(each.dst)]
    hidden = grid.messages.left_out + len(grid.messages.messages) - len(shown)
    top, left = 44.0, rows.left
    middles = [top + y + rows.tile / 2 for y in rows.tops]
    width = left + len(shown) * _SENDS + 2
    marks: list[Mark] = [Words(0, 11, "sends", "wb")]
    marks += [Words(left, 28, f"{hidden:,} more", "wm")] if hidden else []
    for i, ranks in enumerate(folds):
        first, second = rows.labels[i]
        odd = bool(set(ranks) & set(grid.culprits))
        marks.append(Words(left - 10, middles[i] + (4 if not second else -2), first, "wx" if odd else "w", "end"))
        marks += [Words(left - 10, middles[i] + 12, second, "wm", "end")] if second else []
        marks.append(Line(((left - 4, middles[i]), (width, middles[i])), "rail"))
    for i, each in enumerate(shown):
        ends = [middles[at[rank]] if rank in at else None for rank in (each.src, each.dst)]
        marks.append(
            Group(say.about_message(each), tuple(_arrow(each, left + 10 + i * _SENDS, ends, i == len(shown) - 1)), each.trouble)
        )
    return Drawing(width + 70, top + rows.bottom, tuple(marks), "sends and receives by rank")


def _arrow(each: Message, x: float, ends: Sequence[float | None], last: bool) -> list[Mark]:
    """From the sender's row to the receiver's; the half that is missing is a hole."""
    src, dst = ends
    if src is None or dst is None:  # a recv from any rank
        y = dst if dst is not None else src if src is not None else 0.0
        return [Dot(x + 20, y, 8, "hole"), Words(x + 32, y + 16, "no send", "wxs")]
    sign = 1 if dst > src else -1
    if each.send and each.recv:
        style = "pd" if each.send.state == each.recv.state == "done" else "pl"
        head = ((x + 14.5, dst - sign * 8), (x + 20, dst), (x + 23, dst - sign * 10))
        return [Dot(x, src, 4, "pd"), Line(((x, src), (x + 18.5, dst - sign * 7)), style), Line(head, "ph")]
    if not each.trouble:
        return [Dot(x, src, 4, "pd"), Line(((x, src), (x + 19, dst - sign * 8)), "pl")]
    there, gone = (src, dst) if each.send else (dst, src)
    from_x, hole_x = (x, x + 20) if each.send else (x + 20, x)
    marks: list[Mark] = [
        Line(((from_x, there), (hole_x, gone + (9 if there > gone else -9))), "px"),
        Dot(from_x, there, 5, "off"),
    ]
    marks += [Dot(hole_x, gone, 8, "hole"), Words(x + 32, gone + 16, say.lacks_half(each), "wxs")]
    tail = Line(((from_x + 8, there), (from_x + 28, there)), "tail")
    return [*marks, tail, Words(from_x + 34, there + (4 if last else -5), say.seconds(each.waited_s), "ww")]
