"""Hosts with fast links inside and slower ones across: what a schedule costs and moves on them, and what was measured.

The measurement is the same sweep inside one host and across hosts, and an all-reduce in two levels against a flat one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..document import Printed
from ..errors import UsageError
from ..plain import record
from .checks import check_int
from .cost import Link, Price
from .fit import fit
from .model import Schedule, Step
from .records import Comparison, Source
from .sweeps import Sweep

FLAT, LEVELS = "ring", "hierarchical"


@record
class Topology:
    """Hosts of equal size, ranks numbered host by host.

    `inside` is the link between two ranks of a host, `across` between ranks of two hosts; gamma is `inside`'s.
    With `shared`, all ranks of a host share one network card, so what crosses adds up; else each has its own.
    """

    num_hosts: int
    ranks_per_host: int
    inside: Link
    across: Link
    shared: bool = True

    def __post_init__(self) -> None:
        check_int("num_hosts", self.num_hosts)
        check_int("ranks_per_host", self.ranks_per_host)
        for name, link in (("inside", self.inside), ("across", self.across)):
            if not isinstance(link, Link):
                raise UsageError(f"{name} can't be {link!r}", hint="give a Link, for example Link.of(latency_us=5, gb_per_s=10)")

    @property
    def world_size(self) -> int:
        return self.num_hosts * self.ranks_per_host

    def host(self, rank: int) -> int:
        """The host a rank is on."""
        return rank // self.ranks_per_host

    def crosses(self, step: Step) -> NDArray[np.bool_]:
        """Which transfers of a step go from host to host."""
        return np.asarray(step.src // self.ranks_per_host != step.dst // self.ranks_per_host)


def price_on(schedule: Schedule, num_elements: int, topology: Topology, itemsize: int = 4) -> Price:
    """The price of a schedule on hosts, along its critical path.

    No rank waits for a step to end everywhere, only for its own messages: each rank has a clock, and a message arrives
    when its sender and the ports are ready. What `across` has more latency than `inside` is the wire's and keeps no port
    busy, so messages that follow each other overlap in it.

    >>> from .algorithm import ALGORITHMS
    >>> two = Topology(2, 4, inside=Link.of(2, 50), across=Link.of(20, 5))
    >>> [round(price_on(ALGORITHMS[name].schedule(8), 1 << 10, two).latency_s * 1e6) for name in ("ring", "hierarchical")]
    [100, 52]
    """
    if schedule.world_size != topology.world_size:
        raise UsageError(
            f"a schedule for {schedule.world_size} ranks on hosts for {topology.world_size}",
            hint="make the schedule for num_hosts * ranks_per_host ranks",
        )
    starts, itemsize = schedule.layout(num_elements).bounds(), check_int("itemsize", itemsize)
    clocks = np.zeros((schedule.world_size, 3))  # of each rank: latency, transfer and reducing, until now
    for step in schedule.steps():
        clocks = _after(clocks, step, (starts[step.chunk_hi] - starts[step.chunk_lo]) * itemsize, topology)
    latency_s, transfer_s, reduce_s = clocks[np.argmax(clocks.sum(axis=1))]
    return Price(
        name=schedule.name,
        collective=schedule.collective,
        world_size=schedule.world_size,
        num_bytes=num_elements * itemsize,
        latency_s=float(latency_s),
        transfer_s=float(transfer_s),
        reduce_s=float(reduce_s),
    )


def _after(clocks: NDArray[np.float64], step: Step, num_bytes: NDArray[np.int64], topology: Topology) -> NDArray[np.float64]:
    """Every rank's clock after its part of a step."""
    inside, across, crosses = topology.inside, topology.across, topology.crosses(step)
    cost = np.zeros((len(step), 3))
    messages = np.maximum(np.bincount(step.src)[step.src], np.bincount(step.dst)[step.dst])
    cost[:, 0] = messages * np.where(crosses, min(inside.alpha_s, across.alpha_s), inside.alpha_s)
    cost[:, 1] = _transfer_s(step, num_bytes, crosses, topology)
    sent, wire = clocks[step.src] + cost, clocks[step.src]
    wire[:, 0] += np.where(crosses, max(0.0, across.alpha_s - inside.alpha_s), 0.0)
    mine = clocks[step.dst]
    came = np.where((wire.sum(axis=1) > mine.sum(axis=1))[:, None], wire, mine) + cost
    came[:, 2] += num_bytes * step.reduce * inside.gamma_s_per_byte
    ranks, times = np.concatenate([step.src, step.dst]), np.concatenate([sent, came])
    last = np.argsort(times.sum(axis=1), kind="stable")  # of several of one rank, the latest stays
    after = clocks.copy()
    after[ranks[last]] = times[last]
    return after


def _transfer_s(step: Step, num_bytes: NDArray[np.int64], crosses: NDArray[np.bool_], topology: Topology) -> NDArray[np.float64]:
    """How long the bytes of each transfer take, on the busiest port or network card that it passes."""
    beta_s = np.where(crosses, topology.across.beta_s_per_byte, topology.inside.beta_s_per_byte) * num_bytes
    worst = np.zeros(len(step))
    for end in (step.src, step.dst):
        worst = np.maximum(worst, np.bincount(end, beta_s)[end])
        if topology.shared and crosses.any():
            card = end // topology.ranks_per_host
            worst = np.maximum(worst, np.where(crosses, np.bincount(card, beta_s * crosses)[card], 0.0))
    return np.asarray(worst)


def traffic(schedule: Schedule, num_elements: int, itemsize: int = 4) -> NDArray[np.int64]:
    """Bytes from rank to rank, senders as rows.

    >>> from .algorithm import ALGORITHMS
    >>> traffic(ALGORITHMS["ring"].schedule(3), 3).tolist()
    [[0, 16, 0], [0, 0, 16], [16, 0, 0]]
    """
    starts, size = schedule.layout(num_elements).bounds(), schedule.world_size
    total = np.zeros(size * size, dtype=np.int64)
    for step in schedule.steps():
        np.add.at(total, step.src.astype(np.int64) * size + step.dst, starts[step.chunk_hi] - starts[step.chunk_lo])
    return total.reshape(size, size) * check_int("itemsize", itemsize)


def host_traffic(schedule: Schedule, num_elements: int, topology: Topology, itemsize: int = 4) -> NDArray[np.int64]:
    """Bytes from host to host; what stays inside a host is on the diagonal."""
    matrix, hosts, local = traffic(schedule, num_elements, itemsize), topology.num_hosts, topology.ranks_per_host
    return np.asarray(matrix.reshape(hosts, local, hosts, local).sum(axis=(1, 3)))


# ---- as measured
def link_in_words(rate: str, delay: str) -> str:
    """For instance "200mbit, 1ms one way"."""
    return ", ".join([rate or "no limit to the rate", *([f"{delay} one way"] if delay else [])])


@record
class HostsReport(Printed):
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


def _link(sweep: Sweep) -> Link:
    return fit([point.sample() for point in sweep.points]).link
