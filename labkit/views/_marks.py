"""What stands for a kind of call: a colour that colour-blind eyes tell apart, and a hatching, so that no colour is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..places import cell_name
from ..timeline import Bar, Timeline
from ..units import format_bytes, format_seconds


@dataclass(frozen=True)
class Mark:
    """Fill, hatching (by plotly's names) and the colour of text on it."""

    color: str
    hatch: str
    ink: str


# Okabe and Ito's set
MARKS: Sequence[Mark] = (
    Mark("#56b4e9", "", "#000000"),
    Mark("#e69f00", "/", "#000000"),
    Mark("#009e73", "x", "#000000"),
    Mark("#cc79a7", "-", "#000000"),
    Mark("#f0e442", "|", "#000000"),
    Mark("#0072b2", "+", "#ffffff"),
    Mark("#d55e00", ".", "#000000"),
)


def marks(line: Timeline) -> dict[str, Mark]:
    """A mark for each kind of call in it."""
    return {op: MARKS[i % len(MARKS)] for i, op in enumerate(line.ops)}


def end_of(bar: Bar, line: Timeline) -> float:
    return line.span_s if bar.returned_s is None else bar.returned_s


def meets(bar: Bar, line: Timeline) -> float:
    """Where the wait ends and the work begins."""
    end = end_of(bar, line)
    return end if bar.met_s is None else min(bar.met_s, end)


def about(bar: Bar, line: Timeline) -> list[str]:
    """What there is to say of one bar, line by line."""
    waited = meets(bar, line) - bar.issued_s
    took = end_of(bar, line) - bar.issued_s
    lines = [f"rank {bar.rank}: {bar}" + (f" in {bar.group}" if bar.group not in ("", "world") else "")]
    lines.append(f"{bar.site}" if bar.site is not None else cell_name(bar.cell))
    lines.append(f"{format_bytes(bar.num_bytes)}, issued at {format_seconds(bar.issued_s)}")
    if bar.returned_s is None:
        lines.append(f"not returned after {format_seconds(took)}" + ("; not everybody has come" if bar.met_s is None else ""))
    else:
        how = "" if bar.state == "done" else f" ({bar.state})"
        lines.append(f"took {format_seconds(took)}{how}, {format_seconds(waited)} of it waiting")
    return lines


def unit(span_s: float) -> tuple[float, str]:
    """The factor and the name of the axis' unit.

    >>> unit(0.3), unit(20.0)
    ((1000.0, 'ms'), (1.0, 's'))
    """
    if span_s < 2e-3:
        return 1e6, "µs"
    return (1e3, "ms") if span_s < 2 else (1.0, "s")
