"""Bytes, seconds and bandwidths as people read them. GB is 1e9 bytes, GiB is 2**30."""

from __future__ import annotations


def format_bytes(num_bytes: float) -> str:
    """Binary units, at most three significant places.

    >>> format_bytes(512), format_bytes(1024), format_bytes(16 * 2**20)
    ('512 B', '1 KiB', '16 MiB')
    """
    value = float(num_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1023.5:
            return f"{_short(value)} {unit}"
        value /= 1024
    return f"{_short(value)} TiB"


def format_seconds(seconds: float) -> str:
    """Microseconds to minutes.

    >>> format_seconds(3.2e-5), format_seconds(0.0123), format_seconds(2.5), format_seconds(90)
    ('32 µs', '12.3 ms', '2.50 s', '1 min 30 s')
    """
    if seconds < 0.9995e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 0.9995:
        return f"{_short(seconds * 1e3)} ms"
    if seconds < 59.995:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def _short(value: float) -> str:
    """Three significant places, and never an exponent."""
    return f"{value:.3g}" if abs(value) < 99.95 else f"{value:.0f}"


def algbw_gb_per_s(num_bytes: float, seconds: float) -> float:
    """Algorithm bandwidth: bytes of the collective over its time, in GB/s.

    >>> algbw_gb_per_s(1e9, 0.5)
    2.0
    """
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
