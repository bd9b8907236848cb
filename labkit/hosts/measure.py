"""Several hosts, measured: on this machine if it can make network namespaces, else as another machine recorded it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..units import format_bytes

if TYPE_CHECKING:
    from ..driver.world import World
    from ..schedule.hosts import HostsReport
    from ..schedule.sweeps import Sweep

RECORDING = Path(__file__).with_name("recordings") / "two-hosts.json"
RATE = "200mbit"
SIZES = "4K:4M:4"
COMPARED = (4 << 10, 256 << 10, 2 << 20)


def measure(
    ranks: int = 4,
    hosts: int = 2,
    *,
    rate: str = RATE,
    delay: str = "",
    sizes: Sequence[int] | str = SIZES,
    compared: Sequence[int] = COMPARED,
    rounds: int = 5,
    on_progress: Callable[[str], None] | None = None,
) -> HostsReport:
    """Sweep inside a host and across hosts, and hold two levels against one, on a world of its own that goes at the end.

    Where hosts can't be made, the report is a recording, and its `reason` says why. A world that runs stays as it is.
    """
    from ..driver.current import HOLDER
    from ..driver.spaces import Shape, why_not
    from ..driver.start import bring_up

    reason = why_not(Shape(rate, delay))
    if reason:
        return dataclasses.replace(recorded(), reason=reason)
    with HOLDER.progress() as progress:
        say = on_progress or progress.say
        with bring_up(ranks, "gloo", hosts=hosts, rate=rate, delay=delay, on_progress=say) as world:
            return report(world, rate=rate, delay=delay, sizes=sizes, compared=compared, rounds=rounds, say=say)


def report(
    world: World,
    *,
    rate: str = "",
    delay: str = "",
    sizes: Sequence[int] | str = SIZES,
    compared: Sequence[int] = COMPARED,
    rounds: int = 5,
    say: Callable[[str], None] = lambda text: None,
) -> HostsReport:
    """The same on a world that is on hosts already, block by block and as many ranks on each."""
    from ..schedule.hosts import FLAT, LEVELS, HostsReport

    places = world.hosts
    num_hosts = len(set(places))
    local = len(places) // max(1, num_hosts)
    if num_hosts < 2 or local < 2 or places != tuple(rank // local for rank in range(world.world_size)):
        raise UsageError(
            "the same number of ranks, two or more, must be on each of two hosts or more",
            hint="labkit.start(4, hosts=2) makes such a world",
        )

    def sweep(where: str, ranks: range) -> Sweep:
        say(f"measuring {where}")
        told = lambda done, number, point: say(f"measuring {where}: {done} of {number} sizes")  # noqa: E731
        return _complete(world.sweep(sizes, ranks=ranks, rounds=rounds, on_progress=told))

    inside = sweep("inside a host", range(local))
    across = sweep("across hosts", range(0, world.world_size, local))
    comparisons = []
    for size in compared:
        say(f"one level against two, at {format_bytes(size)}")
        comparisons.append(world.compare([FLAT, LEVELS], num_bytes=size, rounds=rounds))
    return HostsReport(num_hosts, local, rate, delay, inside, across, tuple(comparisons))


def _complete(sweep: Sweep) -> Sweep:
    """The sweep. KeyboardInterrupt if it was interrupted: a report needs all sizes."""
    if sweep.interrupted:
        raise KeyboardInterrupt
    return sweep


def recorded() -> HostsReport:
    """Two hosts of two ranks, as measured on another machine; its `source` says which."""
    from ..schedule.recording import load_record

    found: HostsReport = load_record(RECORDING)
    return found
