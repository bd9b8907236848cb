"""A lab's own records: predictions, checks, who is in a sum, and what the lab came to."""

from __future__ import annotations

from ..exercises.primes import Roll
from ..labrecord import CheckSeen, Guess, LabRecord
from ..units import format_seconds
from . import _html as h
from ._base import add
from ._text import count


def check_text(seen: CheckSeen) -> str:
    return repr(seen)


def check_html(seen: CheckSeen) -> str:
    mark, accent = ("✓", "good") if seen.passed else ("✗", "bad")
    tries = f" · at try {seen.num_tries}" if seen.num_tries > 1 and not seen.again else ""
    tag = f'<div class="lk-tag">{h.esc(seen.name)}{tries}</div>'
    guess = h.para(seen.guess) if seen.guess else ""
    return h.block(tag + h.para(f"{mark} {seen.says}", "lk-lead") + guess, accent)


def guess_text(guess: Guess) -> str:
    return repr(guess)


def guess_html(guess: Guess) -> str:
    tag = f'<div class="lk-tag">{h.esc(guess.name)}</div>'
    return h.block(tag + h.para(f"Guess saved: {guess.guess}. Run the next cell.", "lk-lead"), "info")


def roll_text(roll: Roll) -> str:
    return repr(roll)


def roll_html(roll: Roll) -> str:
    whole = "every rank"
    rows = [(f"rank {rank}", "; ".join(texts) or whole) for rank, texts in roll.lines]
    return h.block(h.pairs(rows), "info", "who is in each rank's sum")


def lab_text(record: LabRecord) -> str:
    return repr(record)


def _done(record: LabRecord) -> tuple[int, int]:
    passed = sum(check.passed for check in record.checks)
    return passed, passed + len(record.open_checks)


def lab_html(record: LabRecord) -> str:
    passed, wanted = _done(record)
    whole = not record.open_checks and record.finished
    lead = f"{'✓' if whole else '…'} {record.lab}: {passed} of {count(wanted, 'check')} passed"
    body = h.para(lead, "lk-lead") + (h.para(record.unseen) if record.unseen else "")
    rows = [("still open", ", ".join(record.open_checks))] if record.open_checks else []
    calls = sum(entry.num_calls for entry in record.collectives)
    rows.append(("what ran", f"{record.num_processes} processes, {count(calls, 'call')}, {count(record.num_cells, 'rank cell')}"))
    for fault in record.faults:
        named = f", named {fault.verdict}" if fault.verdict else ""
        rows.append(("fault", f"{fault.fault} on rank {fault.rank} {'fired' if fault.fired else 'did not fire'}{named}"))
    mended = [report for report in record.recoveries if report.rung != "none"]
    rows += [("recovered", f"in {format_seconds(report.elapsed_s)}") for report in mended]
    rows += [(f"predictions {words}", ", ".join(names)) for words, names in record.predictions.items()]
    body += h.pairs(rows)
    if record.checks:
        said = [f"{'✓' if check.passed else '✗'} {check.name}: {check.says}" for check in record.checks]
        body += h.details("every check", h.bullets(said))
    told = [f"{guess.name}: {guess.told.says}" for guess in record.guesses if guess.told]
    body += h.details("every prediction", h.bullets(told)) if told else ""
    return h.block(body, "good" if whole else "wait")


add(CheckSeen, check_text, check_html)
add(Guess, guess_text, guess_html)
add(Roll, roll_text, roll_html)
add(LabRecord, lab_text, lab_html)
