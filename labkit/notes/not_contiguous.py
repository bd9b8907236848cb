"""The backend moved other elements than those of the tensor."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from . import NOTES, Finding, Note, on_ranks, ranks_of


@NOTES.register("not-contiguous")
def tell(found: Sequence[tuple[int, Finding]], everyone: Collection[int]) -> Note:
    """What was given, what the backend does with it, and how to give it something else."""
    _, first = found[0]
    shape, stride = list(first.facts["shape"]), list(first.facts["stride"])
    name = first.facts["name"] or "x"
    return Note(
        first.kind, ranks_of(found), first.op, first.place,
        f"{first.op} got a tensor that is not contiguous",
        f"This was so {on_ranks(found, everyone)}. Its shape is {shape} and its stride {stride}, so its elements do not lie in "
        f"a row in memory. gloo moves a row all the same: other elements than the tensor's were sent or changed",
        f"Make a copy that lies in a row, give that to {first.op}, and copy the result back: c = {name}.contiguous(), "
        f"then {name}.copy_(c)",
        first.source,
    )  # fmt: skip
