"""A rank cell run as a script under torchrun: how it ended, and the variable of every rank."""

from __future__ import annotations

from typing import Any

from ..document import Block, Code, Details, Node, Paragraph, Table, Tree
from ..tensors.differences import number
from ..units import format_seconds
from ._base import add
from ._text import cap, clean

_ELEMENTS = 8


def command(run: Any) -> str:
    return f"torchrun --standalone --nproc-per-node {run.ranks} {run.name}"


def ending(run: Any) -> str:
    how = "did not end in time" if run.exit_code is None else f"ended with exit code {run.exit_code}"
    return f"{how} after {format_seconds(run.elapsed_s)}"


def _rows(run: Any) -> list[list[str]]:
    """Rank, and its first elements."""
    rows = []
    for rank, values in (run.values or {}).items():
        more = [f"and {len(values) - _ELEMENTS} more"] if len(values) > _ELEMENTS else []
        rows.append([f"rank {rank}", *(number(value, digits=6) for value in values[:_ELEMENTS]), *more])
    widest = max((len(row) for row in rows), default=0)
    return [row + [""] * (widest - len(row)) for row in rows]


def tree(run: Any) -> Tree:
    """The command, how it ended, what each rank has; what was printed only where it failed."""
    parts: list[Node] = [Code(command(run), "source"), Paragraph(ending(run), "lead", mark="✓" if run.ok else "✗")]
    rows = _rows(run)
    if rows:
        parts.append(Table([run.variable, *map(str, range(len(rows[0]) - 1))], rows))
    if run.output and not run.ok:
        parts.append(Code(cap(clean(run.output), limit=4000), "stderr"))
    return [Block([*parts, Details("the script", [Code(run.source)])], "good" if run.ok else "bad")]


add(("labkit.instruments.scripts", "ScriptRun"), tree)
