"""Hosts with fast links inside and slower ones across, and what a schedule costs and moves on them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..plain import record
from .cost import Link, Price
from .load import step_load
from .model import Schedule, Step


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
    """The price of a schedule on hosts: each step lasts until its busiest port, or network card, is through.

    >>> from .algorithm import ALGORITHMS
    >>> two = Topology(2, 4, inside=Link.of(2, 50), across=Link.of(20, 5))
    >>> [round(price_on(ALGORITHMS[name].schedule(8), 1 << 10, two).latency_s * 1e6) for name in ("ring", "hierarchical")]
    [280, 52]
    """
    if schedule.world_size != topology.world_size:
        raise UsageError(
            f"a schedule for {schedule.world_size} ranks on hosts for {topology.world_size}",
            hint="make the schedule for num_hosts * ranks_per_host ranks",
        )
    starts = schedule.layout(num_elements).bounds()
    latency_s = transfer_s = reduce_s = 0.0
    for step in schedule.steps():
        alpha_s, beta_s = _step_seconds(step, (starts[step.chunk_hi] - starts[step.chunk_lo]) * itemsize, topology)
        latency_s, transfer_s = latency_s + alpha_s, transfer_s + beta_s
        reduced = step_load(step, starts, itemsize, schedule.world_size).reduced_bytes
        reduce_s += int(reduced.max()) * topology.inside.gamma_s_per_byte
    return Price(
        name=schedule.name,
        collective=schedule.collective,
        world_size=schedule.world_size,
        num_bytes=num_elements * itemsize,
        latency_s=latency_s,
        transfer_s=transfer_s,
        reduce_s=reduce_s,
    )


def _step_seconds(step: Step, num_bytes: NDArray[np.int64], topology: Topology) -> tuple[float, float]:
    """Latency and transfer time of the busiest port; of two equally busy ones, the one with more latency."""
    crosses = topology.crosses(step)
    alpha = np.where(crosses, topology.across.alpha_s, topology.inside.alpha_s)
    beta = np.where(crosses, topology.across.beta_s_per_byte, topology.inside.beta_s_per_byte) * num_bytes
    worst = (0.0, 0.0, 0.0)
    for end in (step.src, step.dst):
        worst = max(worst, _busiest(np.bincount(end, alpha), np.bincount(end, beta)))
        if topology.shared and crosses.any():  # latencies of messages on one card overlap, their bytes don't
            card = end[crosses] // topology.ranks_per_host
            worst = max(worst, _busiest(np.bincount(card) > 0, np.bincount(card, beta[crosses]), topology.across.alpha_s))
    return worst[1], worst[2]


def _busiest(messages: NDArray[Any], transfers: NDArray[Any], alpha_s: float = 1.0) -> tuple[float, float, float]:
    """Seconds, latency and transfer time of the port or card that is through last."""
    latencies = messages * alpha_s
    last = int(np.argmax(latencies + transfers))
    return float(latencies[last] + transfers[last]), float(latencies[last]), float(transfers[last])


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
    return total.reshape(size, size) * itemsize


def host_traffic(schedule: Schedule, num_elements: int, topology: Topology, itemsize: int = 4) -> NDArray[np.int64]:
    """Bytes from host to host; what stays inside a host is on the diagonal."""
    matrix, hosts, local = traffic(schedule, num_elements, itemsize), topology.num_hosts, topology.ranks_per_host
    return np.asarray(matrix.reshape(hosts, local, hosts, local).sum(axis=(1, 3)))
