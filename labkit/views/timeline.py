"""Who was in which call, when: a line per rank. As text, as a still picture, and as a plotly figure to look into."""

from __future__ import annotations

from ..document import Block, Heading, Paragraph, Picture, Table, Tree, as_text
from ..errors import join_ranks
from ..places import cell_label
from ..timeline import Bar, Straggler, Timeline
from ..units import format_bytes, format_seconds
from ._base import add
from ._plotly import MIME, figure
from ._svg import picture
from ._text import count, wrapped

_WIDTH = 64  # characters of the text form's axis
_CALLS = 12  # rows of the text form's table
_WORTH_S = 1e-3  # a smaller delay is how ranks always come


def cells(line: Timeline) -> str:
    names = ", ".join(map(cell_label, line.cells))
    return f"cell {names}" if len(line.cells) == 1 else f"cells {names}"


def headline(line: Timeline) -> str:
    """For instance "cell 7: 20 calls in 312 ms, 4 still open"."""
    if not line.bars:
        return f"{cells(line)}: no call made" if line.cells else "no call made since the groups were formed"
    parts = f"{cells(line)}: {count(len(line.bars), 'call')} in {format_seconds(line.span_s)}"
    parts += f", {line.num_open} still open" if line.num_open else ""
    return parts + (f" ({count(line.left_out, 'earlier call')} not shown)" if line.left_out else "")


def last_come(line: Timeline) -> str:
    """Who everybody waited for longest, or ""."""
    late = line.straggler
    if late is None or late.late_s < _WORTH_S:
        return "all ranks came to every call within 1 ms" if late is not None and len({b.rank for b in line.bars}) > 1 else ""
    return f"rank {late.rank} came last to {_place(late)}: {format_seconds(late.late_s)} after the first"


def _place(late: Straggler) -> str:
    return f"{late.call} ({late.site})" if late.site is not None else late.call


def never_met(line: Timeline) -> list[str]:
    """The open calls that some rank of the group has not come to."""
    waits: dict[str, list[int]] = {}
    for bar in line.bars:
        if bar.returned_s is None and bar.met_s is None:
            waits.setdefault(str(bar), []).append(bar.rank)
    return [f"{join_ranks(ranks)} in {call}, which not everybody has come to" for call, ranks in waits.items()]


def letters(line: Timeline) -> dict[str, str]:
    """A letter for each kind of call."""
    return {op: "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i % 26] for i, op in enumerate(line.ops)}


def _rows(line: Timeline) -> str:
    """The picture in characters: a row for each rank, then what the letters mean."""
    names = letters(line)
    wide = len(str(line.world_size - 1))
    rows = [f"rank {rank:<{wide}}  |{''.join(_axis(line, rank, names))}|" for rank in range(line.world_size)]
    legend = ", ".join(f"{letter} {op}" for op, letter in names.items()) + ", ~ waits for the last rank, . no call"
    return "\n".join([*rows, wrapped(legend)])


def _axis(line: Timeline, rank: int, names: dict[str, str]) -> list[str]:
    marks = ["."] * _WIDTH
    scale = _WIDTH / (line.span_s or 1.0)
    for bar in (bar for bar in line.bars if bar.rank == rank):
        end = line.span_s if bar.returned_s is None else bar.returned_s
        met = end if bar.met_s is None else min(bar.met_s, end)
        first, last = min(int(bar.issued_s * scale), _WIDTH - 1), min(int(end * scale), _WIDTH - 1)
        for at in range(first, last + 1):
            marks[at] = "~" if (at + 1) / scale <= met and at != first else names[bar.op]
    return marks


def _table(line: Timeline) -> str:
    """Each call once: when its first and its last rank came, and how long it took."""
    calls: dict[tuple[str, str], list[Bar]] = {}
    for bar in sorted(line.bars, key=lambda bar: bar.issued_s):
        calls.setdefault((bar.group, str(bar)), []).append(bar)
    rows = [["call", "bytes", "first rank", "last rank", "last to return"]]
    for bars in list(calls.values())[-_CALLS:]:
        first, last = bars[0], bars[-1]
        ends = [bar.returned_s for bar in bars if bar.returned_s is not None]
        end = f"at {format_seconds(max(ends))}" if len(ends) == len(bars) else "still open"
        later = f"rank {last.rank}, {format_seconds(last.issued_s - first.issued_s)} later"
        rows.append(
            [str(first), format_bytes(first.num_bytes), f"rank {first.rank} at {format_seconds(first.issued_s)}", later, end]
        )
    left = len(calls) - _CALLS
    head, *rest = rows
    table = as_text([Table(head, rest)])
    return table + (f"\n({count(left, 'earlier call')} not in this table)" if left > 0 else "")


def tree(line: Timeline) -> Tree:
    """What it comes to stands below the picture; a terminal has the calls in a table as well."""
    if not line.bars:
        return [Block([Paragraph(headline(line))])]
    said = [Paragraph(words, "lead") for words in [last_come(line), *never_met(line)] if words]
    return [Heading(headline(line)), Picture(picture(line), _rows(line)), *said, Picture(text=_table(line))]


def rich(line: Timeline) -> dict[str, object]:
    """The figure for a frontend that has plotly; where there is nothing to draw the HTML form is enough."""
    return {MIME: figure(line, headline(line), [w for w in [last_come(line), *never_met(line)] if w])} if line.bars else {}


add(Timeline, tree, rich)
