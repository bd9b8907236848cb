"""One variable on every rank, in words and numbers: what the table's text says, and its picture as well."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import count, join_ranks
from ..phrases import bands
from . import TensorSample, TensorTable
from .differences import Differences, comparison, pick, written

_ELEMENTS = 12  # columns of the text


def headline(table: TensorTable) -> str:
    """Name, type, shape and ranks, for instance "x: float32 [8] on 4 ranks"."""
    if not table.samples:
        return table.name
    kinds = {(sample.dtype.removeprefix("torch."), sample.shape) for sample in table.samples}
    dtype, shape = kinds.pop() if len(kinds) == 1 else ("", ())
    what = f"{dtype} {list(shape)} " if dtype else ""
    return f"{table.name}: {what}on {count(len(table.samples), 'rank')}"


def operation(table: TensorTable) -> str:
    names = {sample.op for sample in table.samples if sample.op}
    return names.pop() if len(names) == 1 else "the last collective"


def remarks(table: TensorTable) -> list[str]:
    """What the grid alone does not say."""
    lines = [f"{join_ranks(table.missing)}: no variable {table.name!r}"] if table.missing else []
    bad = [sample for sample in table.samples if sample.num_nan]
    return lines + [f"rank {sample.rank}: {sample.num_nan:,} of {sample.num_elements:,} elements are nan" for sample in bad]


def shown_of(table: TensorTable, shown: int) -> str:
    """ "64 of 1,000,000 elements", or "" if all are there."""
    total = max((sample.num_elements for sample in table.samples), default=0)
    several = any(len(sample.shape) > 1 for sample in table.samples)
    numbering = "elements numbered in memory order" if several else ""
    part = f"{shown:,} of {total:,} elements" if shown < total else ""
    return ", ".join(piece for piece in (part, numbering) if piece)


def rows_of(samples: Sequence[TensorSample], before: bool) -> dict[int, Sequence[float]]:
    return {sample.rank: (sample.before or ()) if before else sample.values for sample in samples}


def cells_of(samples: Sequence[TensorSample], rows: dict[int, Sequence[float]], positions: Sequence[int]) -> dict[int, list[str]]:
    """The written numbers of each rank, "-" where it has no such element."""
    cells: dict[int, list[str]] = {rank: [] for rank in rows}
    dtypes = {sample.rank: sample.dtype for sample in samples}
    for position in positions:
        there = [rank for rank, values in rows.items() if position < len(values)]
        texts = written([rows[rank][position] for rank in there], dtypes[there[0]]) if there else []
        column = dict(zip(there, texts, strict=True))
        for rank in rows:
            cells[rank].append(column.get(rank, "-"))
    return cells


def layout(table: TensorTable, room: int) -> tuple[list[TensorSample], Differences, str, list[int], list[str]]:
    """What both forms need: samples in rank order, differences, their line, positions and column names."""
    samples = sorted(table.samples, key=lambda sample: sample.rank)
    found, line = comparison(table)
    longest = max(samples, key=lambda sample: len(sample.values)).indices if samples else ()
    positions = pick(len(longest), room, found.positions)
    return samples, found, line, positions, [str(longest[i]) for i in positions]


def stages(table: TensorTable, samples: Sequence[TensorSample]) -> list[tuple[str, bool]]:
    """The grids to draw: a title, and whether it is the one from before the collective."""
    if any(sample.before is not None for sample in samples):
        return [(f"before {operation(table)}", True), (f"after {operation(table)}", False)]
    return [("", False)]


def starred(found: Differences) -> str:
    """How the grids in text mark an element that differs."""
    return " (marked *)" if found.positions else ""


def grids_text(table: TensorTable) -> str:
    """The headline and the grids in characters."""
    samples, found, _, positions, names = layout(table, _ELEMENTS)
    part = shown_of(table, len(positions))
    lines = [headline(table) + (f", {part}" if part else "")]
    for title, before in stages(table, samples) if samples and positions else []:
        cells = cells_of(samples, rows_of(samples, before), positions)
        grid = [["", *names]]
        for rank, row in cells.items():
            marks = ["*" if not before and found.marked(rank, position) else "" for position in positions]
            side = found.side(rank) if not before else ""
            grid.append(
                [f"rank {rank}" + (f" {side}" if side else ""), *(mark + cell for mark, cell in zip(marks, row, strict=True))]
            )
        lines += [title] if title else []
        lines.append(bands(grid, right=range(1, len(names) + 1)))
    return "\n".join(lines)
