"""The result of a collective went into a tensor that nobody holds."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from . import NOTES, Finding, Note, on_ranks, ranks_of


@NOTES.register("thrown-away")
def tell(found: Sequence[tuple[int, Finding]], everyone: Collection[int]) -> Note:
    """What made the copy, and that the original is as it was."""
    _, first = found[0]
    given, origin, name = first.facts["given"], first.facts["origin"], first.facts.get("name", "")
    where = on_ranks(found, everyone)
    if name:
        sentence = (
            f"{name} is a new tensor, made by {given}. {first.op} writes into it, and nobody reads it afterwards: {origin} "
            f"stays as it was {where}"
        )
        step = f"Go on with {name} after the call: return it, or copy it back into the tensor that it was made of"
    else:
        sentence = (
            f"{given} makes a new tensor, and {first.op} writes into that one. Nobody holds it after the call, and {origin} "
            f"stays as it was {where}"
        )
        step = f"Give the copy a name and go on with it: c = {given}; dist.{first.op}(c, ...)"
    return Note(
        first.kind, ranks_of(found), first.op, first.place,
        f"the result of {first.op} is thrown away",
        sentence, step, first.source,
    )  # fmt: skip
