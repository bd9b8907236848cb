"""What a rank cell left: output by rank, what was raised, and why it did not end if it did not."""

from __future__ import annotations

from collections.abc import Collection

from ..recovered import in_a_sentence
from ..wire import CellResult
from . import _html as h
from ._base import add
from ._output import outcomes_html, outcomes_text
from ._text import sentence
from .recovery_report import recovery_block
from .verdict import verdict_block

MORE_TIME = "`%%ranks --deadline 60` gives a cell more time; world.recover() frees the ranks"


def everyone(result: CellResult) -> Collection[int]:
    """The ranks of the world if the result knows them, else those that were asked."""
    asked = [outcome.rank for outcome in result.outcomes]
    size = result.world_size
    if not size and result.diagnosis is not None:
        size = result.diagnosis.evidence.world_size
    return range(size) if size > max(asked, default=0) else asked


def sources(result: CellResult) -> dict[str, str]:
    """The learner's lines that raised, by place, where the evidence has the cell's source."""
    if result.diagnosis is None:
        return {}
    sites = [outcome.error.site for outcome in result.outcomes if outcome.error is not None]
    return {str(site): result.diagnosis.evidence.source_line(site) for site in sites}


def late(result: CellResult) -> str:
    """Of a cell with which nothing is wrong: where its ranks were when its time was over."""
    return f"At the deadline {result.standing}. Nothing is wrong with that: it takes longer than it may."


def text(result: CellResult) -> str:
    lines = [outcomes_text(result.outcomes, everyone(result), sources(result))]
    verdict = result.diagnosis.verdict if result.diagnosis is not None else None
    if verdict is not None:
        lines.append(f"{verdict.code}: {sentence(verdict.sentence)}")
        lines.append(f"Next: {sentence(verdict.next_step)}" if verdict.next_step else "")
    lines += [late(result), f"Next: {MORE_TIME}."] if result.standing else []
    if result.recovery is not None:
        lines.append(in_a_sentence(result.recovery))
    return "\n".join(line for line in lines if line)


def html(result: CellResult) -> str:
    body = outcomes_html(result.outcomes, everyone(result), sources(result))
    verdicts = result.diagnosis.verdicts if result.diagnosis is not None else ()
    body += "".join(verdict_block(verdict) for verdict in verdicts)
    if result.standing:
        body += h.block(h.para(late(result)) + h.para(f"Next: {MORE_TIME}."), "wait")
    if result.recovery is not None:
        body += recovery_block(result.recovery, short=True)
    return body


add(CellResult, text, html)
