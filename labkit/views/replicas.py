"""Models, optimizers and tensors compared: a line for each, and of those that differ a grid of part x rank, a letter a side."""

from __future__ import annotations

from collections.abc import Sequence

from ..document import Block, Node, Paragraph, Table, Tree
from ..errors import join_ranks
from ..tensors.replicas import Part, Replica, Replicas, sentence
from ._base import add
from ._text import sentence as whole

_MOST = 12  # models, optimizers and tensors that differ
_ROWS = 8  # parts shown of one that differs
_ALL_ROWS = 40
_COLUMNS = 16


def replicas_tree(replicas: Replicas) -> Tree:
    """Those that differ first, models before optimizers before tensors; then what is the same, in one line for each kind."""
    differing = [replica for replica in replicas.compared if not replica.same]
    parts: list[Node] = [_block(replica, replicas) for replica in differing[:_MOST]]
    rest = [replica.name for replica in differing[_MOST:]]
    parts += [Paragraph(f"{len(rest)} more that differ: {', '.join(rest)}")] if rest else []
    same = [replica for replica in replicas.compared if replica.same]
    if replicas.detailed and same:
        parts += [_block(replica, replicas) for replica in same]
    elif same:
        names = ", ".join(f"{replica.name} ({replica.type})" if replica.kind != "tensor" else replica.name for replica in same)
        parts.append(Block([Paragraph(f"the same on all {replicas.world_size} ranks: {names}", mark="=")], "good"))
    for name, ranks in replicas.partly:
        parts.append(Paragraph(f"{name}: only on {join_ranks(list(ranks))}"))
    return parts or [Paragraph("the ranks hold no model, optimizer or tensor yet")]


def _block(replica: Replica, replicas: Replicas) -> Block:
    head = f"{replica.name}, {replica.type}: {whole(sentence(replica))}"
    parts: list[Node] = [Paragraph(head, "lead", mark="=" if replica.same else "≠")]
    found = replica.differing
    if len(found) > 1:
        parts.append(Paragraph(f"That is the first of {len(found)} that differ, of {len(replica.parts)} parts.", indent=2))
    if replica.left_out:
        parts.append(Paragraph(whole(replica.left_out), indent=2))
    if len(replica.parts) > 1:
        shown = replica.parts[:_ALL_ROWS] if replicas.detailed else found[:_ROWS]
        parts.append(_grid(shown, replicas.world_size))
        rest = len(replica.parts if replicas.detailed else found) - len(shown)
        parts += [Paragraph(f"and {rest} more", indent=2)] if rest > 0 else []
    accent = "good" if replica.same else "info" if replica.kind == "tensor" else "bad"
    return Block(parts, accent)


def _grid(parts: Sequence[Part], world_size: int) -> Table:
    """A row for each part; ranks with the same letter have the same."""
    ranks = range(min(world_size, _COLUMNS))
    head = ["part", "shape", *(f"rank {rank}" if world_size < 6 else str(rank) for rank in ranks)]
    rows = [[part.name, "x".join(map(str, part.shape)) or part.kind, *(_letter(part, rank) for rank in ranks)] for part in parts]
    return Table(head, rows)


def _letter(part: Part, rank: int) -> str:
    if part.same:
        return "A"
    return next((chr(ord("A") + min(at, 25)) for at, side in enumerate(part.sides) if rank in side), "-")


add(Replicas, replicas_tree)
