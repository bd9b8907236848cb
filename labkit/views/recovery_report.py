"""What recovery did, and what the learner still has."""

from __future__ import annotations

from ..recovered import RecoveryReport, done, in_a_sentence, rows, text
from ..units import format_seconds
from . import _html as h
from ._base import add


def recovery_block(report: RecoveryReport, short: bool = False) -> str:
    """The block; `short` is the one below a cell's result, the same in every run."""
    if short:
        extra = h.details("kept and lost", h.pairs(rows(report))) if rows(report) else ""
        return h.block(h.para("✓ " + in_a_sentence(report), "lk-lead") + extra, "good")
    head = done(report) if report.rung == "none" else f"recovered in {format_seconds(report.elapsed_s)}: {done(report)}"
    steps = h.details(f"what was done, step by step ({len(report.steps)})", h.bullets(report.steps)) if report.steps else ""
    return h.block(h.para("✓ " + head, "lk-lead") + (h.pairs(rows(report)) if rows(report) else "") + steps, "good")


def html(report: RecoveryReport) -> str:
    return recovery_block(report)


add(RecoveryReport, text, html)
