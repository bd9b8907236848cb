"""Lab 03's checks of several hosts: the right answers are taken, the wrong ones that people give are not."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from labkit.exercises import CHECKS, NotYet
from labkit.hosts import recorded


def refused(name: str, *answer: Any) -> str:
    with pytest.raises(NotYet) as caught:
        CHECKS[name](*answer)
    assert caught.value.hint
    return caught.value.what


def test_across() -> None:
    report = recorded()
    says = CHECKS["03/across"](report)
    assert "times as long as inside one, as recorded" in says
    assert says.endswith("on a link of 200mbit.")
    assert "on this machine" in CHECKS["03/across"](dataclasses.replace(report, source=None))
    assert "not Sweep" in refused("03/across", report.inside)
    broken = dataclasses.replace(report, across=dataclasses.replace(report.across, error="rank 2 is gone"))
    assert "ended early" in refused("03/across", broken)
    short = dataclasses.replace(report.across, points=report.across.points[:1])
    assert "1 MiB is not among" in refused("03/across", dataclasses.replace(report, across=short))


def test_levels() -> None:
    report = recorded()
    says = CHECKS["03/levels"](lambda hosts, local: (hosts * local - 1) / (hosts * local) / ((hosts - 1) / hosts), report)
    assert says.startswith("counted 1.50 times, measured ")
    for wrong in (
        lambda hosts, local: local,  # as if each host sent as often as it has ranks
        lambda hosts, local: hosts,
        lambda hosts, local: (hosts * local - 1) / (hosts - 1),  # the steps
        lambda hosts, local: (hosts - 1) / hosts / ((hosts * local - 1) / (hosts * local)),  # upside down
        lambda hosts, local: None,
    ):
        assert "you say" in refused("03/levels", wrong, report)
