"""A schedule that live ranks executed: whether it gave the right numbers as declared, and who took how long in which step."""

from __future__ import annotations

from ..errors import join_ranks
from ..schedule.records import NOTEWORTHY, ScheduleRun, far_off
from ..units import format_bytes, format_seconds
from . import _html as h
from . import diagnosis
from ._base import add
from ._recorded import block
from ._text import count

_STEPS = 12  # columns of the table
_RANKS = 32  # rows of it


def text(run: ScheduleRun) -> str:
    """The record's own text."""
    return str(run)


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


def _table(run: ScheduleRun) -> str:
    steps = min(run.num_steps, _STEPS) if run.traced else 0
    early = run.traced and any(each.early_s > NOTEWORTHY * each.seconds for each in run.ranks)
    names = [*(["early"] if early else []), *(f"step {step}" for step in range(steps))] if run.traced else ["time"]
    rows = []
    for each in run.ranks[:_RANKS]:
        times = [_seconds(seconds) for seconds in each.step_s[:steps]] if run.traced else [format_seconds(each.seconds)]
        sent = f"{count(each.sent_messages, 'message')}, {format_bytes(each.sent_bytes)}"
        rows.append([f"rank {each.rank}", sent, *([_seconds(each.early_s)] if early else []), *times])
    note = "Early: how long before the last rank this one began. That wait is in its steps, not in the run's time."
    return h.table(["", "sent", *names], rows) + (h.para(note) if early else "")


def _seconds(seconds: float) -> str:
    """A step's time; a dot for a rank that had nothing to do in it."""
    return format_seconds(seconds) if seconds else "·"


def _left(run: ScheduleRun) -> str:
    more = [(run.num_steps - _STEPS if run.traced else 0, "step"), (len(run.ranks) - _RANKS, "rank")]
    left = " and ".join(count(number, f"more {noun}") for number, noun in more if number > 0)
    return h.para(f"(and {left})") if left else ""


def html(run: ScheduleRun) -> str:
    notes = "".join(h.para(note) for note in run.notes)
    if not run.ended:
        found = run.diagnosis
        why = diagnosis.html(found) if found is not None and found.verdict is not None else h.para(run.error)
        return block(why + notes, run.source, "bad", f"✗ {head(run)}")
    marked = ((f"{'✓' if held else '✗'} {words}", held) for held, words in findings(run))
    wrong = diagnosis.html(run.diagnosis) if run.diagnosis is not None else ""
    said = "; ".join(h.esc(words) if held else f"<b>{h.esc(words)}</b>" for words, held in marked)
    return block(f"<p>{said}</p>{_table(run)}" + _left(run) + wrong + notes, run.source, "good" if run.ok else "bad", head(run))


add(ScheduleRun, text, html)
