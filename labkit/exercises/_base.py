"""The registry of checks, and how one says that an answer is not right yet."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import LabkitError
from ..registry import Registry
from ..wire import TensorTable

Check = Callable[..., str]
CHECKS: Registry[Check] = Registry("check", "labkit.exercises")


class NotYet(LabkitError):
    """An answer that is not right yet: what is off, and where to look."""


def check(name: str) -> Callable[[Check], Check]:
    """Register a check under "<number of the lab>/<what>"."""
    return CHECKS.register(name)


def rows(table: TensorTable) -> dict[int, tuple[float, ...]]:
    """A variable's values by rank; NotYet if a rank does not have it."""
    if not isinstance(table, TensorTable):
        raise NotYet(f"this check looks at ranks, not at {type(table).__name__}", hint='pass it world.tensors("...")')
    if table.missing:
        raise NotYet(f"{table.name} is missing on rank {table.missing[0]}", hint="run the cell above on all ranks")
    return {sample.rank: sample.values for sample in sorted(table.samples, key=lambda sample: sample.rank)}


def plain(numbers: tuple[float, ...] | list[float]) -> list[float | int]:
    """Numbers as people write them.

    >>> plain((77.0, 19.25))
    [77, 19.25]
    """
    return [int(number) if float(number).is_integer() else number for number in numbers]
