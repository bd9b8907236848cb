"""What ranks printed, showed and raised, folded: shared by the views of cells, ops and outcomes."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..document import Block, Code, Details, Node, Paragraph
from ..wire import CodeError, Outcome
from ._text import LIMIT, cap, clean, count, fold, label, one_line

_ENDINGS = {
    "late": "no answer by the deadline",
    "stuck": "no answer, and none will come",
    "dead": "the process is gone",
    "interrupted": "interrupted",
}


@dataclass(frozen=True)
class Part:
    """One stretch of output; `kind` is "stdout", "stderr", "value" or "note" (ours, on what was left out)."""

    kind: str
    text: str


def parts_of(outcome: Outcome) -> tuple[Part, ...]:
    """The output of one rank, in order, the shown value last; empty if there is none."""
    merged: list[tuple[str, str]] = []
    for piece in outcome.output:
        if merged and merged[-1][0] == piece.name:
            merged[-1] = (piece.name, merged[-1][1] + piece.text)
        else:
            merged.append((piece.name, piece.text))
    parts = [Part("stderr" if name == "stderr" else "stdout", clean(text).rstrip("\n")) for name, text in merged]
    if outcome.shown is not None:
        parts.append(Part("value", cap(clean(outcome.shown.text), outcome.shown.cut, rest="; world.pull gets the rest")))
    return tuple(part for part in parts if part.text)


def _shortened(parts: Sequence[Part]) -> list[Part]:
    """Parts within one rank's limit: the start of what was printed, and always the value."""
    kept: list[Part] = []
    room, dropped = LIMIT, 0
    for part in (part for part in parts if part.kind != "value"):
        if room > 0:
            kept.append(Part(part.kind, part.text[:room]))
        dropped += max(len(part.text) - room, 0)
        room = max(room - len(part.text), 0)
    if dropped:
        kept.append(Part("note", f"... {count(dropped, 'more character')} printed"))
    return kept + [part for part in parts if part.kind == "value"]


def output_groups(outcomes: Sequence[Outcome]) -> list[tuple[tuple[int, ...], tuple[Part, ...]]]:
    """Ranks with the same output together; ranks that said nothing are in no group."""
    said = [(outcome.rank, parts_of(outcome)) for outcome in outcomes]
    return fold([(rank, parts) for rank, parts in said if parts], key=lambda parts: parts)


def said_by(error: CodeError) -> str:
    """An exception's message on one line; one of gloo's C++ without its file, its address and its advice.

    >>> said_by(CodeError("RuntimeError", "[/a/pair.cc:5] Read error [127.0.0.1]:3: Connection reset by peer. Look."))
    'Read error: Connection reset by peer'
    """
    message = one_line(error.message)
    inside = _FROM_GLOO.match(error.message)
    return one_line(_ADDRESS.sub("", inside[1])).rstrip(".") if inside else message


_FROM_GLOO = re.compile(r"\[\S+\.(?:cc|h):\d+\] (.*?)(?:\. |$)", re.S)
_ADDRESS = re.compile(r" ?\[[\d.:a-f]+\]:\d+")


def error_groups(outcomes: Sequence[Outcome]) -> list[tuple[tuple[int, ...], CodeError]]:
    """Ranks that raised the same thing at the same line together; what only followed from another rank's end comes last."""
    raised = [(outcome.rank, outcome.error) for outcome in outcomes if outcome.error is not None]
    groups = fold(raised, key=lambda error: (error.type, said_by(error), error.site))
    return sorted(groups, key=lambda group: _FROM_GLOO.match(group[1].message) is not None)


def ending_groups(outcomes: Sequence[Outcome]) -> list[tuple[tuple[int, ...], str]]:
    """Ranks that did not answer, by how."""
    ended = [(o.rank, _ENDINGS.get(o.status, o.status)) for o in outcomes if o.error is None and o.status not in ("ok", "error")]
    return fold(ended, key=str)


def error_line(ranks: Collection[int], error: CodeError, everyone: Collection[int]) -> str:
    """For instance "rank 2: ZeroDivisionError: division by zero (cell 3, line 2)"."""
    message = said_by(error)
    what = f"{error.type}: {message}" if message else error.type
    return f"{label(ranks, everyone)}: {what}" + (f" ({error.site})" if error.site is not None else "")


def source_of(error: CodeError) -> str:
    """The learner's line that raised, as the rank's traceback quotes it, or ""."""
    if error.site is None:
        return ""
    place = re.compile(rf'File "{re.escape(error.site.file)}", line {error.site.line}\b')
    lines = error.traceback.splitlines()
    for number, line in reversed(list(enumerate(lines[:-1]))):
        following = lines[number + 1].strip()
        if place.search(line) and following and not following.startswith(('File "', "Traceback")):
            return one_line(following, 120)
    return ""


def outcome_parts(outcomes: Sequence[Outcome], everyone: Collection[int], sources: dict[str, str] | None = None) -> list[Node]:
    """Output first, then what was raised, then who did not answer; in rank order. A whole traceback is there, closed."""
    found: list[Node] = []
    for ranks, parts in output_groups(outcomes):
        found.append(Block([_code(part) for part in _shortened(parts)], head=label(ranks, everyone)))
    for ranks, error in error_groups(outcomes):
        source = (sources or {}).get(str(error.site)) or source_of(error)
        said: list[Node] = [Paragraph(error_line(ranks, error, everyone), "lead", mark="✗")]
        said += [Code(source, "source", indent=4)] if source else []
        said += [Details("the whole traceback", [Code(cap(clean(error.traceback)))])] if error.traceback else []
        found.append(Block(said, "bad"))
    for ranks, how in ending_groups(outcomes):
        found.append(Block([Paragraph(f"{label(ranks, everyone)}: {how}", "lead", mark="…")], "wait"))
    return found


def _code(part: Part) -> Code:
    return Code(part.text, "" if part.kind == "stdout" else part.kind, indent=2)
