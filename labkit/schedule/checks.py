"""Checks of the numbers that a learner gives to the functions over schedules: one line that says what to give instead.

NumPy's numbers count as numbers. True, False and NaN do not.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from ..errors import UsageError, shown

_SHORT = 43  # characters of what was given, so that the line has room for the rest


def check_int(name: str, value: Any, low: int = 1, below: int | None = None) -> int:
    """The value as a whole number from `low` on, and less than `below`; UsageError names the parameter.

    >>> check_int("root", 3, 0, below=4)
    3
    """
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < low or (below is not None and value >= below):
        end = "" if below is None else f" to {below - 1}"
        raise UsageError(f"{name} can't be {_shown(value)}", hint=f"give a whole number from {low}{end}")
    return int(value)


def check_world_size(world_size: int) -> int:
    """The number of ranks; UsageError for what is none."""
    return check_int("world_size", world_size)


def check_number(name: str, value: Any, *, above_zero: bool = False, infinite: bool = False) -> float:
    """The value as a number from 0 on, or above 0, finite unless it may be `infinite`; UsageError names the parameter.

    >>> check_number("latency_us", 0.5)
    0.5
    """
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not value >= 0 or (value == 0 and above_zero) or (math.isinf(value) and not infinite):
        least = "above 0" if above_zero else "from 0"
        raise UsageError(f"{name} can't be {_shown(value)}", hint=f"give a number {least}{' (or math.inf)' if infinite else ''}")
    return float(value)


def _shown(value: Any) -> str:
    """Numbers without their type: NumPy's repr names it."""
    return shown(value.item() if isinstance(value, Real) and hasattr(value, "item") else value, _SHORT)
