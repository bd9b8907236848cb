"""The values a rank op returned, by rank, equal ones once; and one rank's answer to one request."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..document import Block, Code, Node, Paragraph, Picture, Tree
from ..wire import OpResult, Outcome
from . import _html as h
from ._base import add
from ._output import outcome_parts
from ._text import cap, clean, fold, indent, label

_LONG = 2_000  # characters of one value; a longer one is for `.values`, not for reading


def value_text(value: object) -> str:
    """A plain value as Python writes it."""
    return cap(clean(repr(value)), limit=_LONG, rest="; .values has them all")


def _value(ranks: str, value: str) -> Picture:
    """In text on one line if it fits there: "all 4 ranks: 42"."""
    line = f"{ranks}:\n{indent(value)}" if "\n" in value else f"{ranks}: {value}"
    return Picture(h.as_html([Block([Code(value, "value")], head=ranks)]), line)


def _parts(outcomes: Sequence[Outcome], everyone: Collection[int], done: str) -> list[Node]:
    values = fold([(outcome.rank, value_text(outcome.value)) for outcome in outcomes if outcome.value is not None], key=str)
    parts = [*outcome_parts(outcomes, everyone), *(_value(label(ranks, everyone), value) for ranks, value in values)]
    return parts or [Block([Paragraph(done, mark="✓")], "good")]


def tree(result: OpResult) -> Tree:
    """What the ranks printed and raised, then the values."""
    asked = [outcome.rank for outcome in result.outcomes]
    everyone = range(result.world_size) if result.world_size else asked
    return _parts(result.outcomes, everyone, f"{result.op}: done on {label(asked, everyone)}")


def outcome_tree(outcome: Outcome) -> Tree:
    """The same for one rank."""
    return _parts([outcome], [outcome.rank], f"rank {outcome.rank}: done")


add(OpResult, tree)
add(Outcome, outcome_tree)
