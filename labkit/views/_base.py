"""Registering views, and a record in the forms that a notebook shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..document import VIEWS, Tree, View, to_text, tree_of
from ._html import as_html, frame

__all__ = ["VIEWS", "View", "add", "to_html", "to_rich", "to_text"]


def add(kind: type | tuple[str, str], tree: Callable[[Any], Tree], rich: Callable[[Any], dict[str, Any]] | None = None) -> View:
    """Register the view of a record class, which may be given as its module's and its own name."""
    place = (kind.__module__, kind.__name__) if isinstance(kind, type) else kind
    return VIEWS.add(place[1], View(place, tree, rich))


def to_html(record: Any) -> str:
    """The HTML form of a record with its styles, ready for a notebook; everything in it is escaped."""
    body = as_html(tree_of(record))
    return frame(body) if body else ""


def to_rich(record: Any) -> dict[str, Any]:
    """What else there is by mime type, richer than HTML; mostly nothing."""
    rich = VIEWS[type(record).__name__].rich
    return rich(record) if rich is not None else {}
