"""Live schedules, comparisons, sweeps and crossings: their own tables, as the records write them."""

from __future__ import annotations

from typing import Any

from ..schedule.records import Comparison, ScheduleRun
from ..schedule.sweeps import Crossing, Sweep
from . import _html as h
from ._base import add


def text(record: Any) -> str:
    """The record's own text."""
    return str(record)


def html(record: Any) -> str:
    """The first line as a sentence, the rest as it is laid out in text."""
    head, _, rest = str(record).partition("\n")
    return h.block((h.pre(rest) if rest.strip() else ""), head=head)


for kind in (ScheduleRun, Comparison, Sweep, Crossing):
    add(kind, text, html)
