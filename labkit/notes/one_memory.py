"""What comes from several ranks was written to one and the same tensor."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from . import NOTES, Finding, Note, on_ranks, ranks_of


@NOTES.register("one-memory")
def tell(found: Sequence[tuple[int, Finding]], everyone: Collection[int]) -> Note:
    """How many entries are one tensor, and how to make a list of several."""
    _, first = found[0]
    name, count, places = first.facts["name"] or "the list", first.facts["count"], first.facts["places"]
    are = f"all {count} entries are the same tensor" if places == 1 else f"{count} entries share {places} tensors"
    return Note(
        first.kind, ranks_of(found), first.op, first.place,
        f"{first.op} writes to a list in which one tensor stands more than once",
        f"In {name} {are} {on_ranks(found, everyone)}, so each rank's part is written over that of another. "
        "[t] * n makes a list with one tensor n times",
        f"Give {first.op} a tensor of its own for each rank: [torch.empty_like(x) for _ in range(world_size)]",
        first.source,
    )  # fmt: skip
