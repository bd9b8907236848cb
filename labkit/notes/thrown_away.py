"""The result of a collective went into a tensor that nobody holds."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from . import NOTES, Finding, Note, on_ranks, ranks_of


@NOTES.register("thrown-away")
def tell(found: Sequence[tuple[int, Finding]], everyone: Collection[int]) -> Note:
    """What made the copy, and that the original is as it was."""
    _, first = found[0]
    given, origin = first.facts["given"], first.facts["origin"]
    return Note(
        first.kind, ranks_of(found), first.op, first.place,
        f"the result of {first.op} is thrown away",
        f"{given} makes a new tensor, and {first.op} writes into that one. Nobody holds it after the call, and {origin} stays as "
        f"it was {on_ranks(found, everyone)}",
        f"Give the copy a name and go on with it: c = {given}; dist.{first.op}(c, ...)",
        first.source,
    )  # fmt: skip
