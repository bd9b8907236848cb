"""The registry of views, and the two functions that use it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..registry import Registry
from ._html import frame


@dataclass(frozen=True)
class View:
    """How one kind of record is drawn; `html` is the body, which `to_html` puts into a frame.

    Both give "" for a record that has nothing to show.
    """

    record: type
    text: Callable[[Any], str]
    html: Callable[[Any], str]


VIEWS: Registry[View] = Registry("view", "labkit.views")


def add(kind: type, text: Callable[[Any], str], html: Callable[[Any], str]) -> View:
    """Register the view of a record class."""
    return VIEWS.add(kind.__name__, View(kind, text, html))


def to_text(record: Any) -> str:
    """The text form of a record, without a newline at its end; raises UnknownName for anything else."""
    return VIEWS[type(record).__name__].text(record)


def to_html(record: Any) -> str:
    """The HTML form of a record with its styles, ready for a notebook; everything in it is escaped."""
    body = VIEWS[type(record).__name__].html(record)
    return frame(body) if body else ""
