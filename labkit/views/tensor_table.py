"""One variable on every rank: a grid of rank x element, before and after the last collective."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import join_ranks
from ..units import format_bytes
from ..wire import TensorSample, TensorTable
from . import _html as h
from ._base import add
from ._grid import Differences, comparison, number, pick, written
from ._text import columns, count

_TEXT_ELEMENTS = 12  # columns of the text form: a line fits a terminal
_HTML_ELEMENTS = 64
_BAND_CHARACTERS = 110  # of numbers side by side in the HTML form: fits 1280 px


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


def _rows(samples: Sequence[TensorSample], before: bool) -> dict[int, Sequence[float]]:
    return {sample.rank: (sample.before or ()) if before else sample.values for sample in samples}


def _cells(samples: Sequence[TensorSample], rows: dict[int, Sequence[float]], positions: Sequence[int]) -> dict[int, list[str]]:
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


def _layout(table: TensorTable, room: int) -> tuple[list[TensorSample], Differences, str, list[int], list[str]]:
    """What both forms need: samples in rank order, differences, their line, positions and column names."""
    samples = sorted(table.samples, key=lambda sample: sample.rank)
    found, line = comparison(table)
    longest = max(samples, key=lambda sample: len(sample.values)).indices if samples else ()
    positions = pick(len(longest), room, found.positions)
    return samples, found, line, positions, [str(longest[i]) for i in positions]


def _grids(table: TensorTable, samples: Sequence[TensorSample]) -> list[tuple[str, bool]]:
    """The grids to draw: a title, and whether it is the one from before the collective."""
    if any(sample.before is not None for sample in samples):
        return [(f"before {operation(table)}", True), (f"after {operation(table)}", False)]
    return [("", False)]


def text(table: TensorTable) -> str:
    samples, found, line, positions, names = _layout(table, _TEXT_ELEMENTS)
    part = shown_of(table, len(positions))
    lines = [headline(table) + (f", {part}" if part else "")]
    for title, before in _grids(table, samples) if samples and positions else []:
        cells = _cells(samples, _rows(samples, before), positions)
        grid = [["", *names]]
        for rank, row in cells.items():
            marks = ["*" if not before and found.marked(rank, position) else "" for position in positions]
            side = found.side(rank) if not before else ""
            grid.append(
                [f"rank {rank}" + (f" {side}" if side else ""), *(mark + cell for mark, cell in zip(marks, row, strict=True))]
            )
        lines += [title] if title else []
        lines.append(columns(grid, right=range(1, len(names) + 1)))
    return "\n".join([*lines, line + (" (marked *)" if found.positions else ""), *remarks(table)])


def _grid_html(
    title: str, cells: dict[int, list[str]], names: Sequence[str], marks: dict[int, list[bool]], sides: dict[int, str]
) -> str:
    widest = max(len(cell) + 2 for row in [names, *cells.values()] for cell in row)
    step = max(4, min(16, _BAND_CHARACTERS // (widest + 2)))
    bands = []
    for start in range(0, len(names), step):
        stop = start + step
        head = "".join(f'<th scope="col">{h.esc(name)}</th>' for name in names[start:stop])
        lines = ""
        for rank, row in cells.items():
            tds = "".join(_cell_html(cell, odd) for cell, odd in zip(row[start:stop], marks[rank][start:stop], strict=True))
            tag = f'<span class="lk-side-tag">{sides[rank]}</span>' if sides[rank] else ""
            shade = f' class="lk-{sides[rank].lower()}"' if sides[rank] else ""
            lines += f'<tr{shade}><th scope="row">rank {h.esc(rank)}{tag}</th>{tds}</tr>'
        bands.append(f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{lines}</tbody></table>")
    caption = f'<div class="lk-tag">{h.esc(title)}</div>' if title else ""
    return f'<div class="lk-grid">{caption}<div class="lk-scroll">{"".join(bands)}</div></div>'


def _cell_html(cell: str, odd: bool) -> str:
    return f'<td class="lk-differs">≠ {h.esc(cell)}</td>' if odd else f"<td>{h.esc(cell)}</td>"


def html(table: TensorTable) -> str:
    samples, found, line, positions, names = _layout(table, _HTML_ELEMENTS)
    part = shown_of(table, len(positions))
    grids = ""
    for title, before in _grids(table, samples) if samples and positions else []:
        cells = _cells(samples, _rows(samples, before), positions)
        marks = {rank: [not before and found.marked(rank, position) for position in positions] for rank in cells}
        sides = {rank: "" if before else found.side(rank) for rank in cells}
        grids += _grid_html(title, cells, names, marks, sides)
    note = f' <span class="lk-tag">{h.esc(part)}</span>' if part else ""
    body = f'<div class="lk-head">{h.esc(headline(table))}{note}</div><div class="lk-grids">{grids}</div>'
    symbol = "≠ " if line.startswith("differs") else ("= " if line.startswith("identical") else "")
    body += h.para(symbol + line, "lk-lead") + "".join(h.para(remark) for remark in remarks(table))
    return body + _statistics(samples)


def _statistics(samples: Sequence[TensorSample]) -> str:
    rows = []
    for sample in samples:
        known = (sample.minimum, sample.maximum, sample.mean)
        moments = ["-" if value is None else number(value, digits=6) for value in known]
        rows.append([f"rank {sample.rank}", sample.device, format_bytes(sample.num_bytes), *moments, f"{sample.num_nan:,}"])
    head = ["", "device", "size", "min", "max", "mean", "nan"]
    return h.details("statistics by rank", h.table(head, rows)) if rows else ""


add(TensorTable, text, html)
