"""One variable on every rank: a grid of rank x element, before and after the last collective."""

from __future__ import annotations

from collections.abc import Sequence

from ..document import Details, Node, Paragraph, Picture, Table, Tree, as_text
from ..tensors import TensorSample, TensorTable
from ..tensors.differences import number
from ..tensors.text import cells_of, grids_text, headline, layout, remarks, rows_of, shown_of, stages, starred
from ..units import format_bytes
from . import _html as h
from ._base import add

_HTML_ELEMENTS = 64
_BAND_CHARACTERS = 110  # of numbers side by side in the HTML form: fits 1280 px


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


def tree(table: TensorTable) -> Tree:
    """The grids, the line that says whether the ranks differ, remarks; a page has the statistics of each rank, closed."""
    samples, found, line, positions, names = layout(table, _HTML_ELEMENTS)
    part = shown_of(table, len(positions))
    grids = ""
    for title, before in stages(table, samples) if samples and positions else []:
        cells = cells_of(samples, rows_of(samples, before), positions)
        marks = {rank: [not before and found.marked(rank, position) for position in positions] for rank in cells}
        sides = {rank: "" if before else found.side(rank) for rank in cells}
        grids += _grid_html(title, cells, names, marks, sides)
    note = f' <span class="lk-tag">{h.esc(part)}</span>' if part else ""
    drawn = f'<div class="lk-head">{h.esc(headline(table))}{note}</div><div class="lk-grids">{grids}</div>'
    symbol = "≠" if line.startswith("differs") else ("=" if line.startswith("identical") else "")
    lead = Picture(h.as_html([Paragraph(line, "lead", mark=symbol)]), as_text([Paragraph(line + starred(found))]))
    return [Picture(drawn, grids_text(table)), lead, *map(Paragraph, remarks(table)), *_statistics(samples)]


def _statistics(samples: Sequence[TensorSample]) -> list[Node]:
    rows = []
    for sample in samples:
        known = (sample.minimum, sample.maximum, sample.mean)
        moments = ["-" if value is None else number(value, digits=6) for value in known]
        rows.append([f"rank {sample.rank}", sample.device, format_bytes(sample.num_bytes), *moments, f"{sample.num_nan:,}"])
    head = ["", "device", "size", "min", "max", "mean", "nan"]
    return [Details("statistics by rank", [Table(head, rows)])] if rows else []


add(TensorTable, tree)
