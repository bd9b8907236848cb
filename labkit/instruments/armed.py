"""What is armed in a world that runs a schedule: whether it may fire there, how long to wait for it, and what became of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..driver.cells import MAY_RESOLVE
from ..driver.core import WorldCore
from ..driver.injection import ActiveInjection
from ..errors import UsageError


def refuse_armed(world: WorldCore, what: str) -> None:
    """UsageError if a fault is armed: what is measured would be the fault, and it does not fire there anyway."""
    for active in world.unfired():
        raise UsageError(
            f"{active.fault.name} is armed on rank {active.rank}, and {what} measures ranks as they are",
            hint="leave the `with` block first, or use world.run_schedule, where faults fire",
        )


@dataclass(frozen=True)
class Armed:
    """The armed faults of one run of a schedule."""

    faults: tuple[ActiveInjection, ...]

    @classmethod
    def now(cls, world: WorldCore) -> Armed:
        return cls(tuple(world.unfired()))

    @property
    def may_fire(self) -> bool:
        """Some fault may fire in a move."""
        return any(active.fault.in_schedule is not None for active in self.faults)

    def may_resolve(self, limit_s: float) -> frozenset[str]:
        """The verdicts that time may mend. A rank that was stopped for good, or for longer than the limit, is not waited for."""
        final: set[str] = set()
        for active in self.faults:
            expected = active.fault.in_schedule
            if expected is not None and expected.ending == "hang" and active.params.get("seconds", math.inf) > limit_s:
                final |= set(expected.codes)
        return MAY_RESOLVE - final

    def notes(self, num_moves: Sequence[int], name: str) -> tuple[str, ...]:
        """A line for each fault: that it fired, or why it did not."""
        return tuple(_note(active, num_moves[active.rank], name) for active in self.faults)


def _note(active: ActiveInjection, num_moves: int, name: str) -> str:
    fault, rank, at = active.fault, active.rank, active.params["at"]
    if fault.in_schedule is None:
        return f"the fault {fault.name} on rank {rank} does not apply to a schedule: it did not fire"
    if active.record.fired:
        active.expect(fault.in_schedule)
        return f"the fault {fault.name} fired on rank {rank}"
    if at > num_moves:
        return f"the fault {fault.name} did not fire: it waits for move {at}, and rank {rank} makes {num_moves} in {name}"
    return f"the fault {fault.name} did not fire: from move {at} on, no move of rank {rank} in {name} is one that it applies to"
