"""A schedule in words: a short text form that reads back, and a sentence for each step."""

from __future__ import annotations

import re
from itertools import groupby

import numpy as np

from ..errors import UsageError
from .model import Schedule, Step, from_arrays, make_step

FEW = 8  # transfers that are spelt out in a sentence


def to_text(schedule: Schedule, max_steps: int | None = None) -> str:
    """One line per step: `0>1+3` is "rank 0 sends chunk 3 to rank 1, which adds it", `=` is copy, `2-4` chunks 2, 3, 4.

    >>> from .algorithm import ALGORITHMS
    >>> print(to_text(ALGORITHMS["ring"].schedule(2)))
    ring: all_reduce ranks=2 chunks=2 root=0
    0 reduce-scatter: 0>1+1 1>0+0
    1 all-gather: 0>1=0 1>0=1
    """
    head = f"{schedule.name}: {schedule.collective} ranks={schedule.world_size} chunks={schedule.num_chunks} root={schedule.root}"
    lines = [head]
    for index, step in enumerate(schedule.steps()):
        if max_steps is not None and index == max_steps:
            lines.append(f"... {schedule.num_steps - max_steps} more steps")
            break
        kind = "" if step.send == "held" else f" ({step.send})"
        moves = " ".join(f"{t.src}>{t.dst}{'+' if t.reduce else '='}{_range(t.chunk_lo, t.chunk_hi)}" for t in step.transfers())
        lines.append(f"{index} {step.phase or '-'}{kind}: {moves}")
    return "\n".join(lines)


HEAD = re.compile(r"(?P<name>.+): (?P<collective>\w+) ranks=(?P<ranks>\d+) chunks=(?P<chunks>\d+) root=(?P<root>\d+)")
LINE = re.compile(r"\d+ (?P<phase>[^:(]*?)(?: \((?P<send>\w+)\))?: (?P<moves>.*)")
MOVE = re.compile(r"(\d+)>(\d+)([+=])(\d+)(?:-(\d+))?")


def from_text(text: str) -> Schedule:
    """The schedule in a text of `to_text`; UsageError names the line that can't be read."""
    lines = text.strip().splitlines()
    head = HEAD.fullmatch(lines[0].strip()) if lines else None
    if head is None:
        raise UsageError("this text is not a schedule", hint="the first line is like 'ring: all_reduce ranks=4 chunks=4 root=0'")
    steps = [_parse_step(line.strip()) for line in lines[1:]]
    return from_arrays(head["name"], head["collective"], int(head["ranks"]), int(head["chunks"]), steps, int(head["root"]))


def _parse_step(line: str) -> Step:
    found = LINE.fullmatch(line)
    moves = [MOVE.fullmatch(part) for part in found["moves"].split()] if found else []
    if found is None or not moves or None in moves:
        raise UsageError(f"not a step: {line!r}", hint="a step is like '0 reduce-scatter: 0>1+3 1>0=2-4'")
    rows = [(int(m[1]), int(m[2]), int(m[4]), int(m[5] or m[4]) + 1, m[3] == "+") for m in moves if m is not None]
    src, dst, low, high, reduce = zip(*rows, strict=True)
    phase = "" if found["phase"] == "-" else found["phase"]
    return make_step(src, dst, low, high, reduce=reduce, phase=phase, send=found["send"] or "held")


def explain(schedule: Schedule, index: int) -> str:
    """What happens in a step, in plain words.

    >>> from .algorithm import ALGORITHMS
    >>> print(explain(ALGORITHMS["ring"].schedule(4), 0))
    Step 0 (1 of 6), reduce-scatter: every rank sends one chunk to the rank on its right, which adds it. Rank 0 sends chunk 3 to rank 1, rank 1 sends chunk 0 to rank 2, rank 2 sends chunk 1 to rank 3, rank 3 sends chunk 2 to rank 0.
    """  # noqa: E501
    return explain_step(schedule, schedule.step(index), index, schedule.num_steps)


def explain_step(schedule: Schedule, step: Step, index: int, num_steps: int) -> str:
    """The same for a step that is there already, so that a walk over all steps makes each once."""
    phase = f", {step.phase}" if step.phase else ""
    return f"Step {index} ({index + 1} of {num_steps}){phase}: {_pattern(schedule, step)}. {_moves(schedule, step)}"


def _pattern(schedule: Schedule, step: Step) -> str:
    size = schedule.world_size
    what, then = _what(schedule, step), _then(step)
    pairs = set(zip(step.src.tolist(), step.dst.tolist(), strict=True))
    if size > 2 and len(pairs) > 1 and all((dst, src) in pairs for src, dst in pairs):
        return f"{len(pairs) // 2} {'pair' if len(pairs) == 2 else 'pairs'} of ranks exchange {what}; each {then}"
    if len(step) == size and len(set(step.src.tolist())) == size:
        away = np.unique((step.dst - step.src) % size)
        if len(away) == 1:
            where = "on its right" if away[0] == 1 else f"{away[0]} places on"
            return f"every rank sends {what} to the rank {where}, which {then}"
    senders = len(set(step.src.tolist()))
    if len(step) == 1:
        return f"one rank sends {what}, and the receiver {then}"
    return f"{senders} {'rank sends' if senders == 1 else 'ranks send'} {what}, and each receiver {then}"


def _what(schedule: Schedule, step: Step) -> str:
    origin = {"held": "", "own": " as it was at the start", "handed": " that it was handed last (at first, its own)"}[step.send]
    if schedule.num_chunks == 1:
        return "the whole tensor" + origin
    counts = np.unique(step.chunk_hi - step.chunk_lo)
    if len(counts) > 1:
        return "some chunks" + origin
    return ("one chunk" if counts[0] == 1 else f"{counts[0]} chunks") + origin


def _then(step: Step) -> str:
    it = "them" if (step.chunk_hi - step.chunk_lo > 1).any() else "it"
    if step.reduce.all():
        return f"adds {it}"
    return f"adds or copies {it}" if step.reduce.any() else f"copies {it}"


def _moves(schedule: Schedule, step: Step) -> str:
    transfers = sorted(step.transfers(), key=lambda t: t.src)
    mixed = bool(step.reduce.any()) and not step.reduce.all()
    parts = []
    for src, group in groupby(transfers[:FEW], key=lambda t: t.src):
        to = " and ".join(
            f"{_named(schedule, step.send, t.chunk_lo, t.chunk_hi)} to rank {t.dst}{_kind(t.reduce, mixed)}" for t in group
        )
        parts.append(f"rank {src} sends {to}")
    rest = f", and {len(transfers) - FEW} more" if len(transfers) > FEW else ""
    text = ", ".join(parts) + rest + "."
    return text[0].upper() + text[1:]


def _kind(reduce: bool, mixed: bool) -> str:
    if not mixed:
        return ""
    return " (added)" if reduce else " (copied)"


def _named(schedule: Schedule, send: str, low: int, high: int) -> str:
    if schedule.num_chunks == 1:
        return {"held": "its tensor", "own": "its own tensor", "handed": "what it was handed last"}[send]
    return f"chunk {low}" if high == low + 1 else f"chunks {low} to {high - 1}"


def _range(low: int, high: int) -> str:
    return str(low) if high == low + 1 else f"{low}-{high - 1}"
