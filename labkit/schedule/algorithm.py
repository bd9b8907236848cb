"""An algorithm: a way to make schedules, with what it claims about steps, messages and bytes.

The claims are formulas in p (ranks) and n (bytes). A conformance test counts the schedules and holds every
claim against them, so a formula here is as good as a measurement of the schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ..errors import UsageError
from ..plain import record
from ..registry import Registry, unknown
from ..units import is_whole
from .checks import check_int, check_number, check_world_size
from .collective import collective as promise
from .model import Schedule


@dataclass(frozen=True)
class Share:
    """What one rank sends: a number of messages, and a fraction of n; `role` says what sort of rank it is.

    >>> Share("member", 6, Fraction(3, 2)).num_bytes(1000)
    1500.0
    """

    role: str
    messages: int
    fraction: Fraction

    def num_bytes(self, num_bytes: float) -> float:
        return float(self.fraction * Fraction(check_number("num_bytes", num_bytes)))


@dataclass(frozen=True)
class Path:
    """The critical path: what the busiest rank of each step sends or receives, added up over the steps.

    `fraction` and `reduced` are parts of n. The time is messages * alpha + n * (fraction * beta + reduced * gamma).
    """

    messages: int
    fraction: Fraction
    reduced: Fraction = Fraction(0)


@record
class Formulas:
    """The claims as text: p ranks, n bytes, α s/message, β s/byte, γ s/byte reduced, lg = log2."""

    steps: str
    sent: str
    time: str


@dataclass(frozen=True)
class Param:
    """A parameter of an algorithm: a whole number, its default and its lower bound."""

    default: int
    help: str
    low: int = 0


ROOT = Param(0, "the rank that has, or gets, everything")


@dataclass(frozen=True)
class Algorithm:
    """One collective algorithm: `ALGORITHMS["ring"].schedule(4)` makes its schedule for four ranks.

    `identical`: every rank gets bitwise the same floats, because each sum is made once or in one order.
    `share(rank, world_size, **params)` is what a rank sends, `path(world_size, **params)` what is waited for.
    """

    name: str
    title: str
    collective: str
    teaches: str
    formulas: Formulas
    build: Callable[..., Schedule]
    steps: Callable[..., int]
    share: Callable[..., Share]
    path: Callable[..., Path]
    params: Mapping[str, Param] = field(default_factory=dict)
    identical: bool = True

    def schedule(self, world_size: int, **params: Any) -> Schedule:
        """The schedule for a world; parameters that are left out take their defaults."""
        return self.build(check_world_size(world_size), **self.check(world_size, params))

    def num_steps(self, world_size: int, **params: Any) -> int:
        """The number of steps by formula."""
        return self.steps(check_world_size(world_size), **self.check(world_size, params))

    def sent(self, rank: int, world_size: int, **params: Any) -> Share:
        """What a rank sends by formula."""
        size = check_world_size(world_size)
        return self.share(check_int("rank", rank, 0, below=size), size, **self.check(size, params))

    def critical(self, world_size: int, **params: Any) -> Path:
        """The critical path by formula: at once, for any number of ranks."""
        return self.path(check_world_size(world_size), **self.check(world_size, params))

    def check(self, world_size: int, params: Mapping[str, Any]) -> dict[str, int]:
        """All parameters, checked and filled up; UsageError says what to do instead."""
        check_world_size(world_size)
        for name in params:
            if name not in self.params:
                raise unknown(f"{self.name} parameter", name, self.params)
        full = {name: params.get(name, param.default) for name, param in self.params.items()}
        for name, value in full.items():
            low = self.params[name].low
            if not is_whole(value) or value < low:
                raise UsageError(f"{name} must be a whole number from {low}, not {value!r}", hint=self.params[name].help)
        check_int("root", full.get("root", 0), 0, below=world_size)
        return full


ALGORITHMS: Registry[Algorithm] = Registry("algorithm", "labkit.schedule.algorithms")


def declare(algorithm: Algorithm) -> Algorithm:
    """Put an algorithm into the catalogue under its own name."""
    return ALGORITHMS.add(algorithm.name, algorithm)


def algorithms_for(collective: str) -> list[Algorithm]:
    """Every algorithm of one collective, by name; UnknownName for what is no collective.

    >>> [each.name for each in algorithms_for("reduce_scatter")]
    ['recursive-halving', 'ring-reduce-scatter']
    """
    name = promise(collective).name
    return [each for each in ALGORITHMS.values() if each.collective == name]
