"""What a rank cell left: output by rank, what was raised, and why it did not end if it did not."""

from __future__ import annotations

from collections.abc import Collection

from ..document import Block, Paragraph, Tree
from ..wire import CellResult
from ._base import add
from ._output import outcome_parts
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


def tree(result: CellResult) -> Tree:
    """Output, errors, and what a judge says of a cell that did not end; a recovery last."""
    parts = outcome_parts(result.outcomes, everyone(result), sources(result))
    verdicts = result.diagnosis.verdicts if result.diagnosis is not None else ()
    parts += [verdict_block(verdict) for verdict in verdicts]
    if result.standing:
        parts.append(Block([Paragraph(late(result)), Paragraph(MORE_TIME + ".", "next")], "wait"))
    if result.recovery is not None:
        parts.append(recovery_block(result.recovery, short=True))
    return parts


add(CellResult, tree)
