"""Calls of different lines were matched, and all of them returned."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..errors import join_ranks
from . import NOTES, Finding, Note, ranks_of


@NOTES.register("other-lines")
def tell(found: Sequence[tuple[int, Finding]], everyone: Collection[int]) -> Note:
    """From which call on, which lines were matched, and what was left out or made once more."""
    _, first = found[0]
    ranks, facts = ranks_of(found), first.facts
    others = join_ranks(facts["others"])
    did = "skipped" if facts["kind"] == "skip" else "made once more than"
    moved = f"{join_ranks(list(ranks))} {did} {first.op} #{facts['seq']}" + ("" if facts["kind"] == "skip" else f" of {others}")
    sentence = (
        f"{moved}; from there on {first.times} calls are matched with calls of other lines: #{facts['seq']} is that of "
        f"{facts['mine']} there, and that of {facts['theirs']} on {others}. Nothing hangs, but the results mix data that does "
        "not belong together"
    )
    return Note(
        first.kind, ranks, first.op, first.place,
        f"calls of different lines were matched, from {first.op} #{facts['seq']} on",
        sentence, "Call the collective on every rank, or on none", first.source,
    )  # fmt: skip
