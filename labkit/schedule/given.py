"""What a learner gives to the functions over schedules, checked where it comes in: one line that says what to give instead.

NumPy's numbers count as numbers, True and False do not; NaN is no amount of anything.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from ..errors import UsageError, shown

_SHORT = 43  # characters of what was given, so that the line says the rest as well


def whole(value: Any, low: int, what: str, hint: str) -> int:
    """The value as a whole number from `low` on; UsageError says `what` with the value in place of {}.

    >>> whole(4, 1, "no world has {} ranks", "world_size is a whole number from 1")
    4
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < low:
        raise UsageError(what.replace("{}", _shown(value)), hint=hint)
    return int(value)


def amount(value: Any, what: str, hint: str, *, zero: bool = True, endless: bool = False) -> float:
    """The value as a number from 0 on (`zero`: 0 too; `endless`: infinity too); UsageError as for `whole`.

    >>> amount(0.5, "no link has a latency of {} µs", "give a number from 0")
    0.5
    """
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not value >= 0 or (value == 0 and not zero) or (math.isinf(value) and not endless):
        raise UsageError(what.replace("{}", _shown(value)), hint=hint)
    return float(value)


def size_in_bytes(value: Any) -> float:
    """A tensor's size; UsageError for what is none."""
    return amount(value, "no tensor has {} bytes", "give a number of bytes from 0")


def bytes_an_element(value: Any) -> int:
    """An element's size; UsageError for what is none."""
    return whole(value, 1, "no element has {} bytes", "itemsize is a whole number from 1: 4 for float32")


def _shown(value: Any) -> str:
    """Numbers without their type: NumPy's repr names it."""
    return shown(value.item() if isinstance(value, Real) and hasattr(value, "item") else value, _SHORT)
