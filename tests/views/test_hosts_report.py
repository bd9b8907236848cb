"""The view of several hosts: the same numbers in text and in HTML, and a recording that says so first."""

from __future__ import annotations

import dataclasses
import re

from labkit.hosts import recorded
from labkit.units import format_bytes, format_seconds
from labkit.views import to_html, to_text

REPORT = dataclasses.replace(recorded(), source=None)


def test_bars_say_that_their_scale_is_their_rows() -> None:
    tables, said = to_html(REPORT).count("<table>"), to_html(REPORT).count("each row has its own scale")
    assert tables == said == 2


def test_the_same_numbers_in_both() -> None:
    picture, words = to_html(REPORT), to_text(REPORT)
    for size in REPORT.sizes:
        for sweep in (REPORT.inside, REPORT.across):
            point = next(point for point in sweep.points if point.num_bytes == size)
            assert format_seconds(point.median_s) in picture
            assert format_seconds(point.median_s) in words
        assert f">{REPORT.slower(size):.1f} ×<" in picture
    for each in REPORT.comparisons:
        assert f">{REPORT.gain(each):.2f} ×<" in picture
        assert f"{REPORT.gain(each):.2f} ×" in words
        assert format_bytes(each.num_bytes) in picture
    assert "2 hosts of 2 ranks, gloo; links: 200mbit" in picture


def test_every_row_has_its_own_scale() -> None:
    widths = [float(width) for width in re.findall(r'class="lk-span-bar" x="0" y="1" width="([0-9.]+)"', to_html(REPORT))]
    assert len(widths) == 2 * (len(REPORT.sizes) + len(REPORT.comparisons))
    assert all(max(pair) > 30 for pair in zip(widths[::2], widths[1::2], strict=True))


def test_a_recording_says_so_first_and_why() -> None:
    picture = to_html(dataclasses.replace(recorded(), reason="<tc> is not installed"))
    assert "&lt;tc&gt; is not installed." in picture
    assert "<tc>" not in picture
    assert picture.index("not run here") < picture.index("2 hosts of 2 ranks")
