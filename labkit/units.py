"""Bytes, seconds and bandwidths as people read them. GB is 1e9 bytes, GiB is 2**30."""

from __future__ import annotations

import math

from .errors import UsageError

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
        raise UsageError(f"no bandwidth of {format_bytes(num_bytes)} in {format_seconds(seconds)}", hint="give seconds above 0")
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
