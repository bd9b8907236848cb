"""Lab 03, four tables that are not to be believed: each is wrong in its own way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..document import Printed
from ..schedule import busbw_factor
from ._base import NotYet, check, close, no_text

KINDS = ("size", "factor", "warm-up", "one rank")
RANKS, LINK_GB_PER_S = 8, 25.0
_SIZES = tuple(1024 * 8**power for power in range(7))
_NOISE = (1.013, 0.991, 1.007, 0.996, 1.009, 0.988, 1.004)


@dataclass(frozen=True, repr=False)
class Liar(Printed):
    """A table as a tool prints it; `number` is what shows that the learner knows why it is wrong."""

    title: str
    lines: tuple[tuple[int, int, float, float, float], ...]
    kind: str
    number: float
    facts: str = f"{RANKS} ranks, a link carries {LINK_GB_PER_S:g} GB/s each way"


def _rows(times: list[float], factor: float, count_of: int = 1) -> tuple[tuple[int, int, float, float, float], ...]:
    """Lines of sizes and times; `factor` is what the table takes for busbw over algbw."""
    made = zip(_SIZES, times, strict=True)
    return tuple((n, n // 4 // count_of, t, n / t / 1e9, n / t / 1e9 * factor) for n, t in made)


def _ring_times(steps: int, factor: float, sizes: tuple[int, ...] = _SIZES) -> list[float]:
    """What a ring would take on the link, at four fifths of its speed."""
    return [(steps * 2e-6 + factor * n / (0.8 * LINK_GB_PER_S * 1e9)) * noise for n, noise in zip(sizes, _NOISE, strict=True)]


def _one_rank() -> Liar:
    """A leaf of the reduce hands its tensor over and is through; nobody waits for the root."""
    lines = _rows([(6e-6 + n / 400e9) * noise for n, noise in zip(_SIZES, _NOISE, strict=True)], 1.0)
    return Liar("A: reduce", lines, "one rank", next(line[0] for line in lines if line[4] > LINK_GB_PER_S))


def _wrong_size() -> Liar:
    """The piece that one rank gives, where the total belongs."""
    factor = busbw_factor("all_gather", RANKS)
    times = _ring_times(RANKS - 1, factor, tuple(RANKS * n for n in _SIZES))
    lines = _rows(times, factor)
    return Liar("B: all_gather; count is what one rank gives", lines, "size", RANKS * lines[-1][4])


def _no_warm_up() -> Liar:
    """The first call pays for connections and buffers."""
    factor = busbw_factor("all_reduce", RANKS)
    times = _ring_times(2 * (RANKS - 1), factor)
    return Liar("C: all_reduce", _rows([0.1843, *times[1:]], factor), "warm-up", _SIZES[0])


def _wrong_factor() -> Liar:
    """The factor of an all-gather, for an all-reduce."""
    right = busbw_factor("all_reduce", RANKS)
    lines = _rows(_ring_times(2 * (RANKS - 1), right), busbw_factor("all_gather", RANKS))
    return Liar("D: all_reduce", lines, "factor", lines[-1][3] * right)


TABLES: Mapping[str, Liar] = {"A": _one_rank(), "B": _wrong_size(), "C": _no_warm_up(), "D": _wrong_factor()}


@check("03/liars")
def liars(answer: Any) -> str:
    """For each table what is wrong with it, and a number that shows why."""
    if not isinstance(answer, Mapping) or set(answer) != set(TABLES):
        raise NotYet("give an answer for each of A, B, C and D", hint='like {"A": ("factor", 12.5), ...}')
    for name, table in TABLES.items():
        try:
            kind, number = answer[name]
        except (TypeError, ValueError):
            raise NotYet(f"{name}: {answer[name]!r} is not an answer", hint="give a kind and a number") from None
        if kind not in KINDS:
            raise NotYet(f"{name}: unknown kind {kind!r}", hint=f"the kinds are {', '.join(KINDS)}")
        if kind != table.kind:
            raise NotYet(f"{name}: not {kind}", hint=_LOOK[table.kind])
        no_text(f"{name}: {kind} is right; you say", number)
        if not close(number, table.number, 0.02):
            raise NotYet(f"{name}: {kind} is right, but not {number}", hint=_NUMBERS[table.kind])
    return "all four errors found, with the right numbers."


_LOOK = {
    "size": "multiply the count by the size of a float: is this the total of all ranks?",
    "factor": "divide busbw by algbw in one line: which collective has this factor?",
    "warm-up": "does one line take longer than all larger sizes?",
    "one rank": "is any busbw more than the link can carry?",
}
_NUMBERS = {
    "size": "the right busbw of the last line: for all-gather the size is the total",
    "factor": "the right busbw of the last line: algbw times 2(p - 1)/p",
    "warm-up": "the size in the line that is wrong",
    "one rank": "the size in the first line whose busbw is more than the link can carry",
}
