"""Several records beside each other, as many in a line as fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._base import VIEWS, add


@dataclass(frozen=True, repr=False)
class Row:
    """Records that are looked at together."""

    records: tuple[Any, ...]

    def __repr__(self) -> str:
        return text(self)


def text(row: Row) -> str:
    """One below the other."""
    texts = [VIEWS[type(each).__name__].text(each) for each in row.records]
    return ("\n" if all("\n" not in each for each in texts) else "\n\n").join(texts)


def html(row: Row) -> str:
    cells = "".join(f"<div>{VIEWS[type(each).__name__].html(each)}</div>" for each in row.records)
    return f'<div class="lk-row">{cells}</div>' if cells else ""


add(Row, text, html)
