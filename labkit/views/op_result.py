"""The values a rank op returned, by rank, equal ones once."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..wire import OpResult, Outcome
from . import _html as h
from ._base import add
from ._output import outcomes_html, outcomes_text
from ._text import cap, clean, fold, indent, label

_LONG = 2_000  # characters of one value; a longer one is for `.values`, not for reading


def value_text(value: object) -> str:
    """A plain value as Python writes it."""
    return cap(clean(repr(value)), limit=_LONG, rest="; .values has them all")


def _groups(outcomes: Sequence[Outcome]) -> list[tuple[tuple[int, ...], str]]:
    return fold([(outcome.rank, value_text(outcome.value)) for outcome in outcomes if outcome.value is not None], key=str)


def value_lines(outcomes: Sequence[Outcome], everyone: Collection[int]) -> str:
    """For instance "all 4 ranks: 42"; a value of several lines starts on its own."""
    lines = []
    for ranks, value in _groups(outcomes):
        head = f"{label(ranks, everyone)}:"
        lines.append(f"{head}\n{indent(value)}" if "\n" in value else f"{head} {value}")
    return "\n".join(lines)


def value_blocks(outcomes: Sequence[Outcome], everyone: Collection[int]) -> str:
    return "".join(h.block(h.pre(value, "lk-value"), head=label(ranks, everyone)) for ranks, value in _groups(outcomes))


def _asked(result: OpResult) -> list[int]:
    return [outcome.rank for outcome in result.outcomes]


def _everyone(result: OpResult) -> Collection[int]:
    """All ranks of the world, so that some of them are not called all."""
    return range(result.world_size) if result.world_size else _asked(result)


def text(result: OpResult) -> str:
    everyone = _everyone(result)
    said = outcomes_text(result.outcomes, everyone)
    values = value_lines(result.outcomes, everyone)
    return "\n".join(part for part in (said, values) if part) or f"{result.op}: done on {label(_asked(result), everyone)}"


def html(result: OpResult) -> str:
    everyone = _everyone(result)
    body = outcomes_html(result.outcomes, everyone) + value_blocks(result.outcomes, everyone)
    return body or h.block(h.para(f"✓ {result.op}: done on {label(_asked(result), everyone)}"), "good")


add(OpResult, text, html)
