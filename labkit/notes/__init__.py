"""Notes: what is wrong in a cell although nothing hangs and nobody raises, with the line; one file per kind.

A rank finds something and sends a `Finding`. The kernel joins those of all ranks to a `Note`, in the words of its kind:

    NOTES["thrown-away"](found, everyone) -> Note | None          found: [(rank, Finding), ...] of one place

A kind has one file here, which speaks, and one in `labkit/rank/notes/`, which finds (`docs/notes.md`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from ..document import Printed
from ..errors import join_ranks
from ..plain import record
from ..registry import Registry


@record
class Finding:
    """What one rank has found: the kind, the call and its line, how many times, and the facts that its kind needs."""

    kind: str
    op: str
    place: str  # "cell 7, line 3"
    source: str = ""
    times: int = 1
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)


@record
class Note(Printed):
    """A slip that shows in wrong numbers only: `title` in one line, `sentence` with the details, and what to do.

    >>> print(Note("thrown-away", (0, 1), "all_reduce", "cell 1, line 2", "the result of all_reduce is thrown away"))
    Note, cell 1, line 2: the result of all_reduce is thrown away.
    """

    kind: str
    ranks: tuple[int, ...]
    op: str
    place: str
    title: str
    sentence: str = ""
    next_step: str = ""
    source: str = ""


class Kind(Protocol):
    """Words for one kind; None where the ranks together show that nothing is wrong."""

    def __call__(self, found: Sequence[tuple[int, Finding]], everyone: Collection[int]) -> Note | None: ...


NOTES: Registry[Kind] = Registry("kind of note", "labkit.notes")


def gather(by_rank: Mapping[int, Sequence[Finding]], everyone: Collection[int]) -> tuple[Note, ...]:
    """The notes on one cell, in the order of its lines: what ranks have found at one place is said once."""
    together: dict[tuple[str, str, str], list[tuple[int, Finding]]] = {}
    for rank, findings in sorted(by_rank.items()):
        for finding in findings:
            together.setdefault((finding.kind, finding.place, finding.op), []).append((rank, finding))
    made = [NOTES[kind](found, everyone) for (kind, _, _), found in together.items() if kind in NOTES]
    return tuple(sorted((note for note in made if note is not None), key=lambda note: _in_order(note.place)))


def _in_order(place: str) -> tuple[str, int]:
    """A place's file, or cell, and its line as a number."""
    file, _, line = place.rpartition(", line ")
    return file, int(line) if line.isdigit() else 0


def on_ranks(found: Sequence[tuple[int, Finding]], everyone: Collection[int]) -> str:
    """Where it was found: "on all ranks", "on ranks 0 and 2"."""
    ranks = ranks_of(found)
    return "on all ranks" if len(ranks) > 1 and set(ranks) == set(everyone) else f"on {join_ranks(list(ranks))}"


def ranks_of(found: Sequence[tuple[int, Finding]]) -> tuple[int, ...]:
    """The ranks that have found it, each once."""
    return tuple(sorted({rank for rank, _ in found}))
