"""An optimizer took gradients that DDP had not averaged, and the parameters differ between ranks since."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from . import NOTES, Finding, Note, on_ranks, ranks_of


@NOTES.register("not-synced")
def tell(found: Sequence[tuple[int, Finding]], everyone: Collection[int]) -> Note | None:
    """Nothing where the ranks have the same parameters all the same."""
    if len({finding.facts["checksum"] for _, finding in found}) < 2:
        return None
    _, first = found[0]
    return Note(
        first.kind, ranks_of(found), first.op, first.place,
        "this step took gradients that DDP had not averaged",
        f"The last backward of {first.facts['model']} before it was a local one {on_ranks(found, everyone)}: its forward ran "
        "inside of no_sync(), or went past DDP through .module. So every rank moved its parameters its own way, and they differ "
        "now",
        "Let the last micro-batch before each step() run outside of no_sync(), and call the DDP model itself. "
        "world.replicas() shows what differs",
        first.source,
    )  # fmt: skip
