"""Bytes, seconds and bandwidths as people read them. GB is 1e9 bytes, GiB is 2**30."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Sequence

from .errors import UsageError, shown

MOST = 1 << 40  # elements, or bytes: more than any rank holds, and numpy still counts it
_FACTORS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_HUGE = 1e9  # of the largest unit: from here on nobody counts the digits


def format_bytes(num_bytes: float) -> str:
    """Binary units, at most three significant places.

    >>> format_bytes(512), format_bytes(1024), format_bytes(16 * 2**20), format_bytes(math.nan)
    ('512 B', '1 KiB', '16 MiB', 'nan B')
    """
    value = _float(num_bytes)
    if not math.isfinite(value):
        return f"{value} B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1023.5:
            return f"{_short(value)} {unit}"
        value /= 1024
    return f"{_short(value)} TiB"


def format_seconds(seconds: float) -> str:
    """Microseconds to minutes.

    >>> format_seconds(3.2e-5), format_seconds(0.0123), format_seconds(2.5), format_seconds(90)
    ('32 µs', '12.3 ms', '2.50 s', '1 min 30 s')
    >>> format_seconds(-90), format_seconds(math.inf)
    ('-1 min 30 s', 'inf s')
    """
    value = _float(seconds)
    if not math.isfinite(value):
        return f"{value} s"
    sign, value = "-" if value < 0 else "", abs(value)
    if value < 0.9995e-3:
        text = f"{value * 1e6:.0f} µs"
        return text if text == "0 µs" else sign + text
    if value < 0.9995:
        return f"{sign}{_short(value * 1e3)} ms"
    if value < 59.995:
        return f"{sign}{value:.2f} s"
    if value >= 60 * _HUGE:
        return f"{sign}{_short(value / 60)} min"
    minutes, rest = divmod(round(value), 60)
    return f"{sign}{minutes} min {rest} s"


def _float(value: float) -> float:
    """A whole number that no float can hold is infinite, and no zero is negative."""
    try:
        return float(value) + 0.0
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _short(value: float) -> str:
    """Three significant places, and no exponent where people still read the number without one."""
    return f"{value:.3g}" if abs(value) < 99.95 or abs(value) >= _HUGE else f"{value:.0f}"


def algbw_gb_per_s(num_bytes: float, seconds: float) -> float:
    """Algorithm bandwidth: bytes of the collective over its time, in GB/s.

    >>> algbw_gb_per_s(1e9, 0.5)
    2.0
    """
    if not seconds > 0:
        raise UsageError(f"seconds can't be {seconds:g}", hint="give seconds above 0")
    return num_bytes / seconds / 1e9


def is_whole(value: object) -> bool:
    """Whether a learner gave a whole number (True and False are none).

    >>> is_whole(4), is_whole(True), is_whole("4")
    (True, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether a learner gave a number.

    >>> is_number(0.5), is_number(None)
    (True, False)
    """
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def parse_sizes(sizes: Sequence[int] | int | str) -> tuple[int, ...]:
    """Sizes in bytes: a number or a list of them, or text: "1K,64K", or "1K:64M:4" from, to, and by which factor.

    >>> parse_sizes("1K:64K:4"), parse_sizes("8,2M")
    ((1024, 4096, 16384, 65536), (8, 2097152))
    """
    if not isinstance(sizes, str):
        found: tuple[int, ...] = ()
        with contextlib.suppress(TypeError):  # what is neither a number nor many is refused below
            found = (sizes,) if isinstance(sizes, int) else tuple(sizes)
        if not found or not all(is_whole(size) and 0 < size <= MOST for size in found):
            raise UsageError(f"sizes can't be {shown(sizes)}", hint="give bytes, for example [1024, 65536], or '1K:64M:4'")
        return found
    if ":" not in sizes:
        return tuple(_size(part) for part in sizes.split(","))
    low, high, *rest = sizes.split(":")
    factor = rest[0] if rest else "4"
    if len(rest) > 1 or not re.fullmatch(r"[0-9]{1,6}", factor) or int(factor) < 2:
        raise UsageError(f"{shown(sizes)} is not a range of sizes", hint="give from, to and factor, for example 1K:64M:4")
    least, most = _size(low), _size(high)
    if least > most:
        raise UsageError(f"{shown(sizes)} is an empty range", hint="the first size is the smaller one")
    steps = itertools.takewhile(lambda size: size <= most, (least * int(factor) ** power for power in itertools.count()))
    return tuple(steps)


def _size(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,15})([KMG]?)(i?B?)", text.strip(), flags=re.IGNORECASE | re.ASCII)
    size = 0 if match is None else int(match[1]) * _FACTORS[match[2].upper()]
    if not 0 < size <= MOST:
        raise UsageError(f"{shown(text)} is not a size", hint="give bytes, or 1K, 64M, 2G (of 1024)")
    return size
