"""A schedule as live ranks executed it, who took how long in which step; its frames; and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence

from ..document import Block, Code, Details, Heading, Items, Node, Paragraph, Picture, Table, Tree, wrap
from ..errors import join_ranks
from ..schedule import Problem
from ..schedule.records import NOTEWORTHY, ScheduleRun, far_off
from ..schedule.trace import Trace, as_text
from ..units import format_bytes, format_seconds
from . import _html as h
from . import schedule_plain as plain
from ._base import add
from ._text import count
from .measured import recorded
from .schedule_geometry import place
from .schedule_svg import WIDTH, svg
from .verdict import diagnosis_parts

_STEPS = 12  # columns of the table
_RANKS = 64  # rows of it


def head(run: ScheduleRun) -> str:
    """For instance "ring, 4 KiB of float32 on 4 ranks: 1.2 ms, 6 steps"."""
    what = f"{run.name}, {format_bytes(run.num_bytes)} of {run.dtype} on {count(run.world_size, 'rank')}"
    return f"{what}: {format_seconds(run.seconds)}, {count(run.num_steps, 'step')}" if run.ended else f"{what}: did not end"


def findings(run: ScheduleRun) -> list[tuple[bool, str]]:
    """What was held against the library and against the schedule, and whether it held."""
    if run.agrees:
        same = (True, "the numbers that the library's all-reduce gives")
    else:
        where = join_ranks(run.disagreeing)
        most = max((each.worst for each in run.ranks if not each.agrees), default=0.0)
        said = f"not the numbers that the library's all-reduce gives, on {where}"
        same = (False, f"{said}: {far_off(most)}")
    return [same, (run.counted, f"messages and bytes {'' if run.counted else 'not '}as declared")]


def _table(run: ScheduleRun) -> list[Node]:
    steps = min(run.num_steps, _STEPS) if run.traced else 0
    early = run.traced and any(each.early_s > NOTEWORTHY * each.seconds for each in run.ranks)
    wrong = any(not each.agrees for each in run.ranks)
    names = [*(["early"] if early else []), *(f"step {step}" for step in range(steps))] if run.traced else ["time"]
    names += ["result"] if wrong else []
    rows = []
    for each in run.ranks[:_RANKS]:
        times = [_seconds(seconds) for seconds in each.step_s[:steps]] if run.traced else [format_seconds(each.seconds)]
        times += [""] * (steps - len(times))  # steps that a rank did not come to
        sent = f"{count(each.sent_messages, 'message')}, {format_bytes(each.sent_bytes)}"
        times += [("as the library's" if each.agrees else far_off(each.worst))] if wrong else []
        rows.append([f"rank {each.rank}", sent, *([_seconds(each.early_s)] if early else []), *times])
    note = "Early: how long before the last rank this one began. That wait is in its steps, not in the run's time."
    return [Table(["", "sent", *names], rows), *([Paragraph(note)] if early else [])]


def _seconds(seconds: float) -> str:
    """A step's time; a dot for a rank that had nothing to do in it."""
    return format_seconds(seconds) if seconds else "·"


def _left(run: ScheduleRun) -> list[Node]:
    more = [(run.num_steps - _STEPS if run.traced else 0, "step"), (len(run.ranks) - _RANKS, "rank")]
    left = " and ".join(count(number, f"more {noun}") for number, noun in more if number > 0)
    return [Paragraph(f"(and {left})")] if left else []


def run_tree(run: ScheduleRun) -> Tree:
    """What was held against the library and the schedule, and a table of the ranks' steps."""
    notes = [Paragraph(note) for note in run.notes]
    found = diagnosis_parts(run.diagnosis) if run.diagnosis is not None else []
    if not run.ended:
        why = found if run.diagnosis is not None and run.diagnosis.verdict is not None else [Paragraph(run.error)]
        return [recorded([*why, *notes], run.source, "bad", f"✗ {head(run)}")]
    marked = [(f"{'✓' if held else '✗'} {words}", held) for held, words in findings(run)]
    drawn = "; ".join(h.esc(words) if held else f"<b>{h.esc(words)}</b>" for words, held in marked)
    said = Picture(f"<p>{drawn}</p>", wrap("\n".join(words for words, _ in marked)))
    parts = [said, *_table(run), *_left(run), *found, *notes]
    return [recorded(parts, run.source, "good" if run.ok else "bad", head(run))]


_WIDE = 200  # characters of a line where one can scroll
_SHOWN = 4  # sentences that stand open; the rest can be opened


def several(problems: Sequence[Problem]) -> list[Node]:
    """One block for all of them; none for no problem."""
    if not problems:
        return []
    shown: list[Node] = [Paragraph(each.sentence, "lead", mark="✗") for each in problems[:_SHOWN]]
    left = problems[_SHOWN:]
    if left:
        shown.append(Details(f"and {len(left)} more", [Items([each.sentence for each in left])]))
    return [Block(shown, "bad")]


def trace_tree(trace: Trace) -> Tree:
    """Two pictures, what it comes to, and what is wrong; every step as text can be opened."""
    scene, last = place(trace), len(trace.frames)
    width = max(scene.width, WIDTH)
    pictures = ""
    for position in dict.fromkeys((min(1, last), last)):
        words = h.as_html([Paragraph(plain.said(trace, position))])
        style = f"flex:1 1 {min(width, 600):.0f}px;min-width:0;max-width:{width:.0f}px"
        pictures += f'<div class="lk-scroll" style="{style}">{svg(trace, position, scene)}{words}</div>'
    drawn: list[Node] = [
        Heading(plain.title(trace)),
        Picture(f'<div class="lk-grids">{pictures}</div>'),
        Paragraph(f"At the end {plain.summary(trace, last)}."),
        *several(trace.problems),
        Details("every step as text", [Code(as_text(trace, _WIDE, lines=1))]),
    ]
    return [Picture(h.as_html(drawn), as_text(trace))]


add(ScheduleRun, run_tree)
add(Trace, trace_tree)
add(Problem, lambda problem: several([problem]))
