"""What a measure is and what it finds: series of numbers for both sides, and whether the goal is met. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from labkit.registry import Registry

if TYPE_CHECKING:
    from .bench import Bench


class BenchError(Exception):
    """A measure could not be taken; the message says why."""


@dataclass(frozen=True)
class Series:
    """Several values of one quantity, in the order they were taken.

    >>> Series.of("torchrun", [3.0, 1.0, 2.0]).median
    2.0
    """

    name: str
    values: tuple[float, ...]
    unit: str = "s"

    @classmethod
    def of(cls, name: str, values: Iterable[float], unit: str = "s") -> Series:
        """A series of at least one value."""
        taken = tuple(float(value) for value in values)
        if not taken:
            raise BenchError(f"{name}: nothing was measured")
        return cls(name, taken, unit)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)


@dataclass(frozen=True)
class Goal:
    """A bound on a row's value: on its `ratio`, else on our own median in the series' unit.

    >>> Goal(0.9).met(0.85), Goal(0.98, at_least=True).met(0.9)
    (True, False)
    """

    limit: float
    ratio: bool = True
    at_least: bool = False

    def met(self, value: float) -> bool:
        """Exactly the bound is met; a value that is not a number is not."""
        return value >= self.limit if self.at_least else value <= self.limit


@dataclass(frozen=True)
class Row:
    """One line of the table: a quantity of ours, what it is beside, and the goal; `limits` says what holds it back.

    `notes` are facts behind the number (a part of it, a case of it), one short sentence each.
    `skipped` or `failed` say why there is no number.
    """

    what: str
    ours: Series | None = None
    beside: Series | None = None
    goal: Goal | None = None
    limits: str = ""
    notes: tuple[str, ...] = ()
    skipped: str = ""
    failed: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours over the other side's: the median of the ratios of neighbours, so that a machine that slows
        down in between does not count; the ratio of the medians if the values are not in pairs; else None."""
        if self.ours is None or self.beside is None:
            return None
        pairs = self._pairs
        return statistics.median(pairs) if pairs else ratio(self.ours.median, self.beside.median)

    @property
    def ratio_spread(self) -> tuple[float, float] | None:
        """Least and greatest ratio of neighbours; None if the values are not in pairs."""
        return (min(self._pairs), max(self._pairs)) if self._pairs else None

    @property
    def _pairs(self) -> list[float]:
        """Ratios of values taken one after the other."""
        if self.ours is None or self.beside is None or len(self.ours.values) != len(self.beside.values):
            return []
        return [ratio(a, b) for a, b in zip(self.ours.values, self.beside.values, strict=True)]

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal or a number."""
        if self.goal is None or self.ours is None:
            return None
        value = self.ratio if self.goal.ratio else self.ours.median
        return None if value is None else self.goal.met(value)


def ratio(ours: float, beside: float) -> float:
    """`ours / beside`; infinite beside nothing.

    >>> ratio(1.0, 4.0), ratio(1.0, 0.0)
    (0.25, inf)
    """
    return ours / beside if beside else float("inf")


@dataclass(frozen=True)
class Measure:
    """A named group of rows that are taken together; `quick` ones also run, shortened, with --quick."""

    name: str
    title: str
    run: Callable[[Bench], list[Row]]
    quick: bool = True
    order: int = 0


MEASURES: Registry[Measure] = Registry("measure", "benchmarks.measures")


def measure(name: str, title: str, *, order: int, quick: bool = True) -> Callable[[Callable[[Bench], list[Row]]], Measure]:
    """Put a function into the catalogue as a measure."""
    return lambda run: MEASURES.add(name, Measure(name, title, run, quick, order))


def interleaved(repeat: int, *takes: Callable[[], float]) -> tuple[list[float], ...]:
    """Each of `takes` once, then each again, `repeat` times: what slows the machine slows all of them.

    >>> interleaved(2, lambda: 1.0, lambda: 2.0)
    ([1.0, 1.0], [2.0, 2.0])
    """
    values: tuple[list[float], ...] = tuple([] for _ in takes)
    for _ in range(repeat):
        for taken, take in zip(values, takes, strict=True):
            taken.append(take())
    return values


def parts(phases: Iterable[dict[str, float]]) -> str:
    """The median of each phase, the longest first, as text.

    >>> parts([{"import torch": 2.0, "form": 0.1}, {"import torch": 3.0, "form": 0.1}])
    'import torch 2.50 s, form 0.10 s'
    """
    taken = list(phases)
    names = dict.fromkeys(name for phase in taken for name in phase)
    medians = {name: statistics.median(phase[name] for phase in taken if name in phase) for name in names}
    return ", ".join(f"{name} {value:.2f} s" for name, value in sorted(medians.items(), key=lambda item: -item[1]))
