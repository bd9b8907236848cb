"""Quantities as people write them: a number, and perhaps a unit.

Units of bytes, time, bandwidth and share are converted; any other word beside a number ("6 steps") only says what is counted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_FAMILIES: dict[str, dict[str, float]] = {
    "bytes": {"b": 1, "byte": 1, "bytes": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9}
    | {"k": 2**10, "kib": 2**10, "m": 2**20, "mib": 2**20, "g": 2**30, "gib": 2**30},
    "time": {"s": 1, "sec": 1, "second": 1, "seconds": 1, "min": 60, "minute": 60, "minutes": 60}
    | {"ms": 1e-3, "millisecond": 1e-3, "milliseconds": 1e-3, "us": 1e-6, "µs": 1e-6},
    "bandwidth": {"kb/s": 1e-6, "mb/s": 1e-3, "gb/s": 1, "mib/s": 2**20 / 1e9, "gib/s": 2**30 / 1e9}
    | {"mbit/s": 1 / 8e3, "gbit/s": 1 / 8},
    "share": {"%": 1, "percent": 1},
}
_UNITS = {name: (family, size) for family, names in _FAMILIES.items() for name, size in names.items()}
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_LETTER = r"[^\W\d_]"
_ONE = re.compile(
    rf"(?:about |around |roughly |ca\.? |[~≈] ?)?({_NUMBER})\s*({_LETTER}(?:{_LETTER}|[ /])*|[%×])?", flags=re.IGNORECASE
)
_BETWEEN = re.compile(r"(?:[\s,;()~≈]|and|about)*", flags=re.IGNORECASE)
_EACH = re.compile(rf"({_NUMBER})\s*((?!and\b){_LETTER}(?:{_LETTER}|/)*|%)?", flags=re.IGNORECASE)


def read_one(text: str, unit: str) -> float | None:
    """The number in a text, in `unit`; None if the text is anything else.

    >>> read_one("12 KiB", "bytes"), read_one("12,288", "bytes"), read_one("~6 steps", "steps"), read_one("3 ms", "bytes")
    (12288.0, 12288.0, 6.0, None)
    """
    found = _ONE.fullmatch(re.sub(r"(?<=\d)[,_](?=\d{3}(?!\d))", "", text.strip()))
    return _in_unit(float(found[1]), found[2] or "", unit) if found else None


def read_each(text: str, units: Sequence[str]) -> tuple[float, ...] | None:
    """The numbers in a text, one for each unit, in the order of the units; None if they do not fit.

    >>> read_each("3 ms, 0.5 GB/s", ("ms", "GB/s")), read_each("500 MB/s and 3 ms", ("ms", "GB/s"))
    ((3.0, 0.5), (3.0, 0.5))
    """
    if not _BETWEEN.fullmatch(_EACH.sub(" ", text)):
        return None
    found = [(float(number), unit) for number, unit in _EACH.findall(text)]
    for order in (found, found[::-1]):
        if len(order) == len(units):
            read = [_in_unit(number, given, wanted) for (number, given), wanted in zip(order, units, strict=True)]
            numbers = tuple(number for number in read if number is not None)
            if len(numbers) == len(units):
                return numbers
    return None


def _in_unit(number: float, given: str, wanted: str) -> float | None:
    """A number in the unit that is wanted; one without a unit is in it already."""
    if not given.strip():
        return number
    one, other = (_UNITS.get(name.strip().casefold().replace("μ", "µ")) for name in (given, wanted))
    if one is None and other is None:
        return number
    return number * (one[1] / other[1]) if one and other and one[0] == other[0] else None
