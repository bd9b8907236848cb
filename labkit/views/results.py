"""What ranks answered: a cell's result, a rank op's values, a recovery; and a cell's bad ending as an error to raise."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Sequence

from ..document import Block, Code, Details, Items, Node, Pairs, Paragraph, Picture, Tree
from ..endings import worst
from ..errors import DeadlineExceeded, RankBusy, RankDead, RankError, RankRaised, RankStuck
from ..recovered import RecoveryReport, about, done, in_a_sentence, rows
from ..units import format_seconds
from ..wire import CellResult, OpResult, Outcome
from . import _html as h
from ._base import add
from ._output import error_groups, outcome_parts
from ._text import cap, clean, fold, indent, label, one_line
from .notes import note_block
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
    """Of a cell that was not over and of which no rule says why: where its ranks were when its time was up."""
    return f"At the deadline {result.standing}. The cell may only be slow, or it may never end."


def recovered_step(step: str) -> str:
    """A next step without the sentence that tells to recover: that is done already.

    >>> recovered_step("Fix the line. world.recover() brings the ranks back.")
    'Fix the line.'
    """
    return re.sub(r"(?:(?<=\. )|^)world\.recover\(\)[^.]*\.", "", step).strip()


def cell_tree(result: CellResult) -> Tree:
    """Output, errors, what a judge says of a cell that did not end, and notes; a recovery last."""
    parts = outcome_parts(result.outcomes, everyone(result), sources(result))
    verdicts = result.diagnosis.verdicts if result.diagnosis is not None else ()
    evidence = result.diagnosis.evidence if result.diagnosis is not None else None
    if result.recovery is not None:
        verdicts = tuple(dataclasses.replace(verdict, next_step=recovered_step(verdict.next_step)) for verdict in verdicts)
    parts += [verdict_block(verdict, None if at else evidence) for at, verdict in enumerate(verdicts)]
    parts += [note_block(note) for note in result.notes]
    if result.standing:
        parts.append(Block([Paragraph(late(result)), Paragraph(MORE_TIME + ".", "next")], "wait"))
    if result.recovery is not None:
        parts.append(recovery_block(result.recovery, short=True))
    return parts


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


def op_tree(result: OpResult) -> Tree:
    """What the ranks printed and raised, then the values."""
    asked = [outcome.rank for outcome in result.outcomes]
    everyone = range(result.world_size) if result.world_size else asked
    return _parts(result.outcomes, everyone, f"{result.op}: done on {label(asked, everyone)}")


def outcome_tree(outcome: Outcome) -> Tree:
    """The same for one rank."""
    return _parts([outcome], [outcome.rank], f"rank {outcome.rank}: done")


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


def recovery_tree(report: RecoveryReport) -> Tree:
    """One block."""
    return [recovery_block(report)]


_LINE = 400
_OURS = ("ContractError",)  # errors of labkit's own, whose message ends with the next step already
_BY_STATUS: dict[str, tuple[type[RankError], str, str]] = {
    "late": (DeadlineExceeded, "no answer by the deadline from {}", "world.diagnose() says what they wait for"),
    "stuck": (RankStuck, "{} cannot complete this call", "world.diagnose() says what they wait for"),
    "dead": (RankDead, "the process of {} has exited", "world.recover() starts a new one"),
    "busy": (RankBusy, "an earlier cell still runs on {}", "wait for it, or call world.recover()"),
}


def error_for(result: CellResult) -> RankError | None:
    """The error to raise for a result, None if all ranks ended well. Its text is one line.

    The verdict's sentence comes first where there is one: it names the cause, and the exceptions
    may be no more than its consequences.
    """
    status, ranks = worst(result.outcomes)
    if not status:
        return None
    verdict = result.diagnosis.verdict if result.diagnosis is not None else None
    kind = _BY_STATUS[status][0] if status in _BY_STATUS else RankRaised
    if verdict is not None:
        step = _plain(verdict.next_step)
        # It goes on after a semicolon; a name such as DDP keeps its capitals.
        steps = [step[0].lower() + step[1:] if step[1:2].islower() else step] if step else []
        if status in ("stuck", "late", "dead") and result.recovery is None and "recover" not in verdict.next_step:
            steps.append("world.recover() gives you working ranks again")
        return kind(_plain(verdict.sentence), hint="; ".join(steps), ranks=ranks, code=verdict.code)
    raised = error_groups(result.outcomes)
    if status == "error" and raised:
        return _raised(result)
    _, what, hint = _BY_STATUS.get(status, (RankRaised, "the code raised on {}", "see the output above"))
    hint = MORE_TIME if result.standing else hint
    return kind(what.format(label(ranks, everyone(result))), hint=hint, ranks=ranks)


def _raised(result: CellResult) -> RankRaised:
    (ranks, error), *others = error_groups(result.outcomes)
    where = f"{label(ranks, everyone(result))}" + (f" ({error.site})" if error.site is not None else "")
    message = one_line(error.message)
    what = f"{error.type} on {where}" + (f": {message}" if message else "")
    if others:
        what += " (and " + ", ".join(f"{other.type} on {label(those, everyone(result))}" for those, other in others) + ")"
    hint = "" if error.type in _OURS else "fix the line and run the cell again"
    return RankRaised(what, hint=hint, ranks=ranks, type=error.type)


def _plain(text: str) -> str:
    """One line without a full stop, to be followed by "; what to do next"."""
    return one_line(" ".join(text.split()), _LINE).rstrip(".")


add(CellResult, cell_tree)
add(OpResult, op_tree)
add(Outcome, outcome_tree)
add(RecoveryReport, recovery_tree)
