"""What a world does with schedules, as methods; the schedules themselves are loaded when first asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from ..schedule import Algorithm, Schedule
    from ..schedule.nccl_log import NcclLog
    from ..schedule.records import Comparison, ScheduleRun
    from ..schedule.sweeps import Crossing, Sweep
    from .world import World


class RunsSchedules:
    """The part of `World` that runs, compares and measures collectives."""

    @property
    def hosts(self) -> tuple[int, ...]:
        """The host that each rank is on; empty where all are on this machine as it is."""
        return tuple(cast("World", self)._cluster.hosts)

    def run_schedule(self, algorithm: str | Algorithm | Schedule, **options: Any) -> ScheduleRun:
        """Execute a collective's algorithm on the ranks, message by message; see `schedules.run_schedule`."""
        from . import schedules

        return schedules.run_schedule(cast("World", self), algorithm, **options)

    def compare(self, algorithms: Sequence[str | Algorithm | Schedule], **options: Any) -> Comparison:
        """All-reduce algorithms side by side and against the library's; see `schedules.compare`."""
        from . import schedules

        return schedules.compare(cast("World", self), algorithms, **options)

    def sweep(
        self,
        sizes: Sequence[int] | int | str = "1K:16M:4",
        collectives: Sequence[str | Algorithm] = ("all_reduce",),
        **options: Any,
    ) -> Sweep:
        """Time and bandwidth over sizes, of the library's collectives and of schedules; see `sweeps.sweep`."""
        from . import sweeps

        return sweeps.sweep(cast("World", self), sizes, collectives, **options)

    def crossing(self, one: str | Algorithm, other: str | Algorithm, **options: Any) -> Crossing:
        """Where one algorithm overtakes the other: predicted from a fit, then measured; see `sweeps.crossing`."""
        from . import sweeps

        return sweeps.crossing(cast("World", self), one, other, **options)

    def nccl_log(self) -> NcclLog:
        """What NCCL has logged of its rings, trees and choices; see `nccl_logs.nccl_log`. UsageError on gloo."""
        from . import nccl_logs

        return nccl_logs.nccl_log(cast("World", self))
