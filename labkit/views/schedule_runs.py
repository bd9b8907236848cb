"""Live schedules, comparisons, sweeps and crossings: their own tables, as the records write them."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..schedule.records import Comparison, ScheduleRun
from ..schedule.sweeps import Crossing, Sweep
from . import _html as h
from ._base import add


def text(record: Any) -> str:
    """The record's own text."""
    return str(record)


def html(record: Any) -> str:
    """The first line as a sentence, the rest as it is laid out in text; a recording says so above all."""
    head, _, rest = str(dataclasses.replace(record, source=None)).partition("\n")
    source = h.para(str(record.source), "lk-lead") if record.source is not None else ""
    return h.block(source + (h.pre(rest) if rest.strip() else ""), "wait" if source else "", head)


for kind in (ScheduleRun, Comparison, Sweep, Crossing):
    add(kind, text, html)
