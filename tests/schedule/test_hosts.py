"""What a report on hosts says, of numbers that are known."""

from __future__ import annotations

import pytest

from labkit.plain import dumps, loads
from labkit.schedule import Link, predict
from labkit.schedule.hosts import HostsReport
from labkit.schedule.records import Comparison, Source, Timing
from labkit.schedule.sweeps import Point, Sweep

INSIDE, ACROSS = Link.of(100, 2), Link.of(1000, 0.025)


def swept(link: Link) -> Sweep:
    sizes = (4096, 65536, 1 << 20)
    points = [
        Point("all_reduce", "all_reduce", 2, size, "float32", 4, "SUM", (predict("ring", 2, size, link).seconds,))
        for size in sizes
    ]
    return Sweep("gloo", 2, tuple(points), warmups=2)


def report(**changes: object) -> HostsReport:
    timings = (Timing("ring", (0.12,)), Timing("hierarchical", (0.08,)), Timing("library", (0.13,)))
    parts = {"inside": swept(INSIDE), "across": swept(ACROSS), "comparisons": (Comparison(4, 1 << 20, "float32", timings),)}
    return HostsReport(2, 2, "200mbit", **({"delay": ""} | parts | changes))  # type: ignore[arg-type]


def test_the_links_come_out_of_the_sweeps() -> None:
    rack = report().topology
    for found, given in ((rack.inside, INSIDE), (rack.across, ACROSS)):
        assert (found.alpha_s, found.beta_s_per_byte) == pytest.approx((given.alpha_s, given.beta_s_per_byte), rel=1e-6)
    assert rack.world_size == 4


def test_its_text_has_every_number() -> None:
    found = report()
    assert found.slower(1 << 20) == pytest.approx(
        predict("ring", 2, 1 << 20, ACROSS).seconds / predict("ring", 2, 1 << 20, INSIDE).seconds
    )
    assert str(found).splitlines()[0] == "2 hosts of 2 ranks, gloo; links: 200mbit"
    lines = [line.split() for line in str(found).splitlines()]
    assert ["longer", "ring,", "on", "one", "level", "hierarchical,", "on", "two"] in lines
    assert ["1", "MiB", "1.50", "×", "120", "ms", "80", "ms"] in lines
    told = report(source=Source("2026-01-31 12:00 UTC"), reason="tc is not installed", delay="1ms")
    assert "links: 200mbit, 1ms one way" in str(told)
    assert str(told).startswith("recorded on 2026-01-31 12:00 UTC, not run here\n")
    assert "\nRecorded, since tc is not installed.\n" in str(told)
    assert loads(dumps(told)) == told
