"""What several hosts came to: the same sweep inside one and across them, and an all-reduce that knows of them against one
that does not."""

from __future__ import annotations

from ..plain import record
from ..units import format_bytes, format_seconds
from .cost import Link
from .fit import fit
from .recording import Source, told
from .records import Comparison, Timing
from .sweeps import Sweep
from .topology import Topology

FLAT, LEVELS = "ring", "hierarchical"


def link_in_words(rate: str, delay: str) -> str:
    """For instance "200mbit, 1ms one way"."""
    return ", ".join([rate or "no limit to the rate", *([f"{delay} one way"] if delay else [])])


@record
class HostsReport:
    """`inside` are the ranks of one host, `across` one rank of each host; `comparisons` are of all ranks, by size.

    `rate` and `delay` are what the links were made with. `reason`: why this is a recording and was not run here.
    """

    num_hosts: int
    ranks_per_host: int
    rate: str
    delay: str
    inside: Sweep
    across: Sweep
    comparisons: tuple[Comparison, ...]
    source: Source | None = None
    reason: str = ""

    @property
    def world_size(self) -> int:
        return self.num_hosts * self.ranks_per_host

    @property
    def topology(self) -> Topology:
        """The hosts as the two sweeps show them: latency and bandwidth by least squares, one card for each host."""
        return Topology(self.num_hosts, self.ranks_per_host, _link(self.inside), _link(self.across))

    def slower(self, num_bytes: int) -> float:
        """How many times as long the all-reduce of so many bytes takes across as inside."""
        inside, across = (next(p for p in each.points if p.num_bytes == num_bytes) for each in (self.inside, self.across))
        return across.median_s / inside.median_s

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes that both sweeps have, the smallest first."""
        return tuple(sorted({p.num_bytes for p in self.inside.points} & {p.num_bytes for p in self.across.points}))

    def gain(self, comparison: Comparison) -> float:
        """How many times as long the flat ring takes as the hierarchical one."""
        times = {timing.name: timing.median_s for timing in comparison.timings}
        return times[FLAT] / times[LEVELS]

    @property
    def link(self) -> str:
        """The links in words: "200mbit, 1ms one way"."""
        return link_in_words(self.rate, self.delay)

    def __str__(self) -> str:
        lines = [f"{self.num_hosts} hosts of {self.ranks_per_host} ranks, {self.inside.backend}; links: {self.link}"]
        for size in self.sizes:
            inside, across = (next(p for p in each.points if p.num_bytes == size) for each in (self.inside, self.across))
            lines.append(
                f"all_reduce of {format_bytes(size)}: {format_seconds(inside.median_s)} inside a host, "
                f"{format_seconds(across.median_s)} across, {self.slower(size):.1f} times as long"
            )
        lines += [
            f"all ranks, {format_bytes(each.num_bytes)}: {_timing(each, FLAT)}, {_timing(each, LEVELS)}: "
            f"{self.gain(each):.2f} times as long on one level as on two"
            for each in self.comparisons
        ]
        return told("\n".join([*lines, *([f"recorded, since {self.reason}"] if self.reason else [])]), self.source)


def _link(sweep: Sweep) -> Link:
    return fit([point.sample() for point in sweep.points]).link


def _timing(comparison: Comparison, name: str) -> str:
    found: Timing = next(timing for timing in comparison.timings if timing.name == name)
    return f"{name} {format_seconds(found.median_s)}"
