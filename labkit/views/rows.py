"""Several records beside each other, as many in a line as fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..document import Group, Printed, Tree, to_text, tree_of
from ._base import add


@dataclass(frozen=True, repr=False)
class Row(Printed):
    """Records that are looked at together."""

    records: tuple[Any, ...]


def tree(row: Row) -> Tree:
    """In text one below the other."""
    lines = all("\n" not in to_text(each) for each in row.records)
    return [Group([Group(tree_of(each)) for each in row.records], "lk-row", gap=not lines)] if row.records else []


add(Row, tree)
