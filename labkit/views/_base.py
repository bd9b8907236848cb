"""The registry of views, and the functions that use it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..registry import Registry
from ._html import frame


@dataclass(frozen=True)
class View:
    """How one kind of record is drawn; `html` is the body, which `to_html` puts into a frame.

    Both give "" for a record that has nothing to show. `place` is the record's module and class: a layer
    that views may not import is known by name. `rich` gives further forms by mime type.
    """

    place: tuple[str, str]
    text: Callable[[Any], str]
    html: Callable[[Any], str]
    rich: Callable[[Any], dict[str, Any]] | None = None


VIEWS: Registry[View] = Registry("view", "labkit.views")


def add(
    kind: type | tuple[str, str],
    text: Callable[[Any], str],
    html: Callable[[Any], str],
    rich: Callable[[Any], dict[str, Any]] | None = None,
) -> View:
    """Register the view of a record class, which may be given as its module's and its own name."""
    place = (kind.__module__, kind.__name__) if isinstance(kind, type) else kind
    return VIEWS.add(place[1], View(place, text, html, rich))


def to_text(record: Any) -> str:
    """The text form of a record, without a newline at its end; raises UnknownName for anything else."""
    return VIEWS[type(record).__name__].text(record)


def to_html(record: Any) -> str:
    """The HTML form of a record with its styles, ready for a notebook; everything in it is escaped."""
    body = VIEWS[type(record).__name__].html(record)
    return frame(body) if body else ""


def to_rich(record: Any) -> dict[str, Any]:
    """What else there is by mime type, richer than HTML; mostly nothing."""
    rich = VIEWS[type(record).__name__].rich
    return rich(record) if rich is not None else {}
