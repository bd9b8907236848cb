"""One rank's answer to one request."""

from __future__ import annotations

from ..wire import Outcome
from . import _html as h
from ._base import add
from ._output import outcomes_html, outcomes_text
from .op_result import value_blocks, value_lines


def text(outcome: Outcome) -> str:
    said = outcomes_text([outcome], [outcome.rank])
    values = value_lines([outcome], [outcome.rank])
    return "\n".join(part for part in (said, values) if part) or f"rank {outcome.rank}: done"


def html(outcome: Outcome) -> str:
    body = outcomes_html([outcome], [outcome.rank]) + value_blocks([outcome], [outcome.rank])
    return body or h.block(h.para(f"✓ rank {outcome.rank}: done"), "good")


add(Outcome, text, html)
