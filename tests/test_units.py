"""Bytes and seconds as people read them, over the whole range."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import UsageError
from labkit.units import algbw_gb_per_s, format_bytes, format_seconds

BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
SECONDS = {"µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}


def read(text: str, scale: dict[str, float]) -> float:
    return sum(float(number) * scale[unit] for number, unit in re.findall(r"(-?[\d.]+(?:e[+-]\d+)?) (\w+)", text))


@given(st.floats(0, 2**50))
def test_bytes_read_back(num_bytes: float) -> None:
    assert math.isclose(read(format_bytes(num_bytes), dict(BYTES)), num_bytes, rel_tol=0.006, abs_tol=1e-9)


@given(st.floats(1e-4, 86_400))
def test_seconds_read_back(seconds: float) -> None:
    assert math.isclose(read(format_seconds(seconds), SECONDS), seconds, rel_tol=0.01)


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [(0, "0 B"), (1, "1 B"), (999, "999 B"), (1536, "1.5 KiB"), (2**30, "1 GiB"), (2**40, "1 TiB"), (-2048, "-2 KiB")],
)
def test_bytes(num_bytes: float, text: str) -> None:
    assert format_bytes(num_bytes) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 µs"), (5e-7, "0 µs"), (1.5, "1.50 s"), (60, "1 min 0 s"), (61.4, "1 min 1 s")]
)
def test_seconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_bandwidth_is_in_decimal_gigabytes() -> None:
    assert algbw_gb_per_s(16 * 2**20, 0.01) == pytest.approx(1.6777216)


def test_no_number_is_written_with_an_exponent() -> None:
    texts = [*(format_bytes(n * 2**10) for n in range(1000, 1024)), format_seconds(0.99996)]
    assert [text for text in texts if "e+" in text] == []


def test_no_minute_has_sixty_seconds() -> None:
    assert format_seconds(119.7) == "2 min 0 s"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (math.nan, "nan s"), (math.inf, "inf s"), (-math.inf, "-inf s"), (-90, "-1 min 30 s"), (-2.5, "-2.50 s"),
        (-3.2e-5, "-32 µs"), (-1e-9, "0 µs"), (-0.0, "0 µs"), (1e300, "1.67e+298 min"), (10**400, "inf s"),
    ],
)  # fmt: skip
def test_any_number_of_seconds_can_be_read(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [
        (math.nan, "nan B"), (math.inf, "inf B"), (-math.inf, "-inf B"), (-0.0, "0 B"), (1e300, "9.09e+287 TiB"),
        (-(10**400), "-inf B"),
    ],
)  # fmt: skip
def test_any_number_of_bytes_can_be_read(num_bytes: float, text: str) -> None:
    assert format_bytes(num_bytes) == text


@given(st.floats() | st.integers())
def test_every_number_has_a_text_that_fits_a_cell(value: float) -> None:
    assert len(format_bytes(value)) <= 20
    assert len(format_seconds(value)) <= 24


@pytest.mark.parametrize("seconds", [0, -1.0, math.nan])
def test_no_bandwidth_without_a_time(seconds: float) -> None:
    with pytest.raises(UsageError, match="give seconds above 0"):
        algbw_gb_per_s(1e9, seconds)
