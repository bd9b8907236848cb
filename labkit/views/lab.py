"""A lab's own records: predictions, checks, who is in a sum, what the lab came to; and a table as a bandwidth tool prints it."""

from __future__ import annotations

from typing import Any

from ..document import Block, Details, Heading, Items, Node, Pairs, Paragraph, Picture, Table, Tree, as_text
from ..exercises.primes import Roll
from ..labrecord import CheckSeen, Guess, LabRecord
from ..units import format_seconds
from . import _html as h
from ._base import add
from ._text import count

_LIAR_HEAD = ("size (B)", "count", "type", "time (µs)", "algbw, GB/s", "busbw, GB/s")


def check_tree(seen: CheckSeen) -> Tree:
    """Whether it passed, what was found, and how the prediction did."""
    mark, accent = ("✓", "good") if seen.passed else ("✗", "bad")
    tries = f" · at try {seen.num_tries}" if seen.num_tries > 1 and not seen.again else ""
    lead = Paragraph(seen.says, "lead", mark, label=f"{mark} {seen.name}", tag=seen.name + tries)
    return [Block([lead, *([Paragraph(seen.guess, indent=2)] if seen.guess else [])], accent)]


def guess_tree(guess: Guess) -> Tree:
    """That it is kept."""
    return [Block([Paragraph(f"Guess saved: {guess.guess}. Run the next cell.", "lead", tag=guess.name)], "info")]


def roll_tree(roll: Roll) -> Tree:
    """A line for each rank."""
    rows = [(f"rank {rank}", "; ".join(texts) or "every rank") for rank, texts in roll.lines]
    text = "\n".join(as_text([Paragraph(words, label=rank)]) for rank, words in rows)
    return [Picture(h.as_html([Block([Pairs(rows)], "info", "who is in each rank's sum")]), text)]


def lab_tree(record: LabRecord) -> Tree:
    """How many checks passed, what ran, which faults fired, how the predictions did."""
    passed = sum(check.passed for check in record.checks)
    whole = not record.open_checks and record.finished
    lead = f"{record.lab}: {passed} of {count(passed + len(record.open_checks), 'check')} passed"
    parts: list[Node] = [Paragraph(lead, "lead", mark="✓" if whole else "…")]
    parts += [Paragraph(record.unseen, indent=2)] if record.unseen else []
    parts.append(Pairs(_rows(record)))
    if record.checks:
        said = [f"{'✓' if check.passed else '✗'} {check.name}: {check.says}" for check in record.checks]
        parts.append(Details("every check", [Items(said)]))
    told = [f"{guess.name}: {guess.told.says}" for guess in record.guesses if guess.told]
    parts += [Details("every prediction", [Items(told)])] if told else []
    return [Block(parts, "good" if whole else "wait")]


def _rows(record: LabRecord) -> list[tuple[str, str]]:
    rows = [("still open", ", ".join(record.open_checks))] if record.open_checks else []
    calls = sum(entry.num_calls for entry in record.collectives)
    processes = count(record.num_processes, "process", "es")
    rows.append(("what ran", f"{processes}, {count(calls, 'call')}, {count(record.num_cells, 'rank cell')}"))
    for fault in record.faults:
        named = f", named {fault.verdict}" if fault.verdict else ""
        rows.append(("fault", f"{fault.fault} on rank {fault.rank} {'fired' if fault.fired else 'did not fire'}{named}"))
    mended = [report for report in record.recoveries if report.rung != "none"]
    rows += [("recovered", f"in {format_seconds(report.elapsed_s)}") for report in mended]
    return rows + [(f"predictions {words}", ", ".join(names)) for words, names in record.predictions.items()]


def liar_tree(table: Any) -> Tree:
    """As the tool prints it."""
    rows = [
        [str(size), str(elements), "float", f"{seconds * 1e6:.1f}", f"{algbw:.3f}", f"{busbw:.3f}"]
        for size, elements, seconds, algbw, busbw in table.lines
    ]
    return [Heading(table.title), Paragraph(table.facts, "tag"), Table(_LIAR_HEAD, rows, right=range(6))]


add(CheckSeen, check_tree)
add(Guess, guess_tree)
add(Roll, roll_tree)
add(LabRecord, lab_tree)
add(("labkit.exercises.lab03_measured", "Liar"), liar_tree)
