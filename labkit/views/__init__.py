"""Pictures of records: for each kind of record a text form and an HTML form, for some a richer one.

One file per kind, each registering itself in VIEWS under the record's class name. A view is pure: the
same record always draws the same text, so that an executed notebook can be compared with a saved one.
"""

from __future__ import annotations

from typing import Any

from ._base import VIEWS, View, to_html, to_rich, to_text
from ._live import LiveOutput, Progress, Screen
from ._watch import WATCHER, Feed, Watcher
from .results import error_for

__all__ = [
    "VIEWS",
    "WATCHER",
    "Feed",
    "LiveOutput",
    "Progress",
    "Screen",
    "View",
    "Watcher",
    "error_for",
    "row",
    "stepper",
    "to_html",
    "to_rich",
    "to_text",
]


def row(*records: Any) -> Any:
    """Records that draw themselves, beside each other: row(one, other) as a cell's last line."""
    from .rows import Row

    return Row(records)


def stepper(trace: Any, **options: Any) -> Any:
    """A widget that steps through a schedule's trace; see `schedule_stepper` for its options. Loaded when it is asked for."""
    from .schedule_stepper import stepper as make

    return make(trace, **options)
