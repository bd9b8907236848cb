"""What recovery did, and what the learner still has."""

from __future__ import annotations

from ..document import Block, Details, Items, Node, Pairs, Paragraph, Tree
from ..recovered import RecoveryReport, about, done, in_a_sentence, rows
from ..units import format_seconds
from ._base import add


def recovery_block(report: RecoveryReport, short: bool = False) -> Block:
    """The block; `short` is the one below a cell's result."""
    found: list[Node] = [Pairs(rows(report))] if rows(report) else []
    if short:
        kept: list[Node] = [Details("kept and lost", found)] if found else []
        return Block([Paragraph(in_a_sentence(report), "lead", mark="✓"), *kept], "good")
    head = done(report) if report.rung == "none" else f"recovered {about(report.elapsed_s)}: {done(report)}"
    took = f"what was done, step by step ({len(report.steps)}), in {format_seconds(report.elapsed_s)}"
    steps: list[Node] = [Details(took, [Items(report.steps)])] if report.steps else []
    return Block([Paragraph(head, "lead", mark="✓"), *found, *steps], "good")


def tree(report: RecoveryReport) -> Tree:
    """One block."""
    return [recovery_block(report)]


add(RecoveryReport, tree)
