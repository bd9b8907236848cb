"""Lab 03, several hosts: what crosses, what it costs, and what two levels save."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..schedule import ALGORITHMS, Link, Schedule, Topology, host_traffic
from ..schedule.hosts import HostsReport
from ..units import format_bytes
from ._base import NotYet, as_number, check, hold
from .guess import Answer, Found

MIB = 1 << 20
SHAPES = ((2, 2), (2, 4), (4, 4), (3, 8))


@check("03/hosts")
def hosts(answer: Callable[[int, int, int], Any]) -> str:
    """The bytes that cross from host to host in a flat ring."""
    cases = []
    for num_hosts, local in SHAPES:
        num_bytes = 64 * num_hosts * local
        matrix = _matrix(ALGORITHMS["ring"].schedule(num_hosts * local), num_hosts, local, num_bytes)
        where = f"{num_hosts} hosts of {local} ranks, {num_bytes} bytes:"
        cases.append((where, (num_hosts, local, num_bytes), float(matrix.sum() - matrix.trace())))
    hint = "how many of the ring's links go between hosts, and how many bytes go over each?"
    hold(answer, cases, hint, said="{:.10g}".format, truth="the schedule counts")
    return "right for schedules on 2 to 4 hosts."


@check("03/across")
def across(report: Any) -> Found:
    """What an all-reduce of 1 MiB takes across hosts, in times of what it takes inside one."""
    found = _whole(report)
    if MIB not in found.sizes:
        raise NotYet("1 MiB is not among the sizes", hint="let measure() choose them")
    point = next(point for point in found.across.points if point.num_bytes == MIB)
    where = "as recorded" if found.source is not None else "on this machine"
    return Found(
        f"1 MiB between hosts took {found.slower(MIB):.3g} times as long as inside one, {where}; "
        f"busbw between hosts is {point.busbw_gb_per_s * 8000:.0f} Mbit/s on a link of {found.rate}.",
        Answer(found.slower(MIB), "times as long", noise=1.3),
    )


@check("03/levels")
def levels(answer: Callable[[int, int], Any], report: Any) -> str:
    """How many times as much a host sends out in the flat ring as on two levels, by the schedules and by the clock."""
    cases = []
    for num_hosts, local in SHAPES:
        ranks = num_hosts * local
        flat, two = (
            _out(_matrix(ALGORITHMS[name].schedule(ranks, **params), num_hosts, local, 64 * ranks))
            for name, params in (("ring", {}), ("hierarchical", {"ranks_per_host": local}))
        )
        cases.append((f"{num_hosts} hosts of {local} ranks:", (num_hosts, local), flat / two))
    hint = "a host sends 2n(p - 1)/p bytes in the flat ring; on two levels, the h hosts run a ring among themselves"
    hold(answer, cases, hint, truth="the schedules count")
    found = _whole(report)
    largest = max(found.comparisons, key=lambda each: each.num_bytes)
    counted = as_number(answer(found.num_hosts, found.ranks_per_host))
    return f"counted {counted:.2f} times, measured {found.gain(largest):.2f} times at {format_bytes(largest.num_bytes)}."


def _matrix(schedule: Schedule, num_hosts: int, local: int, num_bytes: int) -> Any:
    link = Link.of(1, 1)
    return host_traffic(schedule, num_bytes // 4, Topology(num_hosts, local, link, link))


def _out(matrix: Any) -> int:
    """The most that one host sends to others."""
    return int((matrix.sum(axis=1) - matrix.diagonal()).max())


def _whole(report: Any) -> HostsReport:
    if not isinstance(report, HostsReport):
        raise NotYet(f"this check needs a hosts report, not {type(report).__name__}", hint="pass it what measure() returned")
    if not report.comparisons or report.inside.error or report.across.error or report.across.interrupted:
        raise NotYet("this measurement ended early", hint="run the cell above again")
    return report
