"""A trace's picture as plain values: what the stepper, the still picture and the video draw, with all words chosen."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import join_ranks
from ..schedule import COLLECTIVES, Trace, Transfer
from ..schedule.trace import StepFrame, chunk_range
from ..schedule.trace import summary as summary  # noqa: PLC0414 - words of the picture too
from ..schedule.trace import title as title  # noqa: PLC0414
from ..units import format_bytes
from ._text import count
from .schedule_geometry import Scene
from .schedule_style import palette

LEGEND = (("add", "+ adds to what is there"), ("copy", "= copies over it"))
EDGES = "thick edge: just arrived, dashed: sent on"
_SWATCHES = 5  # of the legend
_MANY_LABELS = 24  # arrows; more would hide one another's labels


def said(trace: Trace, position: int) -> str:
    """What happens up to a position: 0 is the start, k what step k has done."""
    if position == 0:
        many = {len([each for each in trace.start if each.rank == rank]) for rank in range(trace.world_size)}
        return "Start: every rank has its own tensor." if len(many) == 1 else "Start: the root has the tensor."
    return trace.frames[position - 1].text


def reduces(trace: Trace) -> bool:
    return COLLECTIVES[trace.collective].reduces


def chunk_name(trace: Trace, chunk: int) -> str:
    return f"#{chunk}" if trace.num_chunks > 1 else "all"


@dataclass(frozen=True)
class Arrow:
    """One arrow per pair of ranks: its label and where that stands, and whether anything is added."""

    src: int
    dst: int
    label: str
    adds: bool
    at: tuple[float, float]

    @property
    def kind(self) -> str:
        return "add" if self.adds else "copy"


def label_width(label: str) -> float:
    return 8.0 + 7 * len(label)


def arrows(trace: Trace, frame: StepFrame, scene: Scene) -> list[Arrow]:
    """The arrows of a step."""
    by_pair: dict[tuple[int, int], list[Transfer]] = {}
    for each in frame.transfers:
        by_pair.setdefault((each.src, each.dst), []).append(each)
    made = []
    for (src, dst), moved in by_pair.items():
        kinds = [reduce for reduce in (True, False) if any(t.reduce is reduce for t in moved)]
        label = " ".join(_moved(moved, reduce, trace.num_chunks) for reduce in kinds)
        made.append((src, dst, label, kinds[0]))
    if not labelled(frame, scene):
        return [Arrow(*one, (0.0, 0.0)) for one in made]
    places = scene.labels_at([((src, dst), label_width(label)) for src, dst, label, _ in made])
    return [Arrow(*one, at) for one, at in zip(made, places, strict=True)]


def _moved(moved: Sequence[Transfer], reduce: bool, num_chunks: int) -> str:
    if num_chunks == 1:
        return "+all" if reduce else "=all"
    return ("+" if reduce else "=") + ",".join(chunk_range(t.chunk_lo, t.chunk_hi) for t in moved if t.reduce is reduce)


def labelled(frame: StepFrame, scene: Scene) -> bool:
    """Whether there is room for the arrows' labels."""
    return scene.detail and len(frame.transfers) <= _MANY_LABELS


def counters(trace: Trace, position: int) -> list[tuple[str, str]]:
    """Bytes and messages that every rank has sent so far, in words."""
    if position == 0:
        return [("0 B sent", "0 messages")] * trace.world_size
    frame = trace.frames[position - 1]
    both = zip(frame.sent_bytes, frame.sent_messages, strict=True)
    return [(f"{format_bytes(sent)} sent", count(messages, "message")) for sent, messages in both]


def cell_text(trace: Trace, ranks: Sequence[int]) -> str:
    """What stands in a cell: how many contributions, or whose chunk it is."""
    if not ranks:
        return ""
    return str(len(ranks)) if reduces(trace) else f"r{ranks[0]}"


def cell_color(trace: Trace, ranks: Sequence[int]) -> int:
    """The place of a cell's colour in the palette."""
    return len(ranks) - 1 if reduces(trace) else ranks[0]


def cell_about(chunk: int, ranks: Sequence[int]) -> str:
    return f"chunk {chunk}: the part of {join_ranks(list(ranks))}" if ranks else f"chunk {chunk}: nothing yet"


def swatches(trace: Trace) -> list[tuple[int, str]]:
    """The legend of the cells: places in the palette with their words, five at most, of those that are in the picture."""
    changes = [*trace.start, *(change for frame in trace.frames for change in frame.changes)]
    there = sorted({cell_color(trace, ranks) for ranks in {each.ranks for each in changes} if ranks})
    picks = there if len(there) <= _SWATCHES else [there[round(step * (len(there) - 1) / 4)] for step in range(_SWATCHES)]
    return [(place, str(place + 1) if reduces(trace) else f"r{place}") for place in picks]


def legend(trace: Trace) -> str:
    """What the number in a cell is."""
    return "ranks in the sum, the bar shows which" if reduces(trace) else "whose chunk it is"


def picture(trace: Trace, scene: Scene) -> dict[str, Any]:
    """Everything the stepper needs, once; positions count from 0, the start, to the number of steps."""
    slots = [{chunk: index for index, chunk in enumerate(chunks)} for chunks in scene.slots]

    def changed(changes: Sequence[Any]) -> list[tuple[int, int, str]]:
        return [(each.rank, slots[each.rank][each.chunk], each.origins) for each in changes if scene.detail]

    frames = [
        {
            "phase": frame.phase, "text": frame.text, "labelled": labelled(frame, scene),
            "arrows": [(a.src, a.dst, a.label, a.kind, *(round(v, 1) for v in a.at)) for a in arrows(trace, frame, scene)],
            "changes": changed(frame.changes), "reads": reads(frame, scene, slots),
            "counters": counters(trace, frame.step + 1) if scene.detail else [], "summary": summary(trace, frame.step + 1),
        }
        for frame in trace.frames
    ]  # fmt: skip
    return {
        "title": title(trace), "ranks": trace.world_size, "kind": scene.kind, "reduces": reduces(trace),
        "size": [round(scene.width), round(scene.height)], "detail": scene.detail, "cell": scene.cell,
        "boxes": [[round(value, 1) for value in box] for box in scene.boxes], "slots": scene.slots,
        "words": [scene.words_at(rank) for rank in range(trace.world_size)] if scene.detail else [],
        "corners": [[scene.cell_at(rank, slot) for slot in range(len(held))] for rank, held in enumerate(scene.slots)],
        "links": {f"{src}>{dst}": [round(value, 1) for value in curve] for (src, dst), curve in scene.links.items()},
        "palette": palette(trace.world_size), "swatches": swatches(trace), "legend": legend(trace), "arrow_legend": LEGEND,
        "edges": EDGES, "chunks": [chunk_name(trace, chunk) for chunk in range(trace.num_chunks)],
        "start": {"text": said(trace, 0), "changes": changed(trace.start), "summary": summary(trace, 0),
                  "counters": counters(trace, 0) if scene.detail else []},
        "frames": frames, "problems": [problem.sentence for problem in trace.problems],
    }  # fmt: skip


def reads(frame: StepFrame, scene: Scene, slots: Sequence[dict[int, int]]) -> list[tuple[int, int]]:
    """The cells that are sent from, as rank and slot."""
    if not scene.detail:
        return []
    cells = {(each.src, chunk) for each in frame.transfers for chunk in range(each.chunk_lo, each.chunk_hi)}
    return sorted((rank, slots[rank][chunk]) for rank, chunk in cells if chunk in slots[rank])


def balanced(words: str, width: int, most: int) -> list[str]:
    """Lines of about one length.

    >>> balanced("aaaa bbbb cccc d", 14, 2)
    ['aaaa bbbb', 'cccc d']
    """
    lines = textwrap.wrap(words, width, max_lines=most, placeholder=" ...")
    for narrower in range(width - 1, 7, -1):
        tighter = textwrap.wrap(words, narrower)
        if len(tighter) > len(lines) or len(lines) == 1:
            break
        lines = tighter
    return lines
