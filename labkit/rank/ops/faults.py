"""Arms a fault in this rank, and takes it out again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...faults import FAULTS
from ..context import RankContext
from ..dispatch import OPS


@dataclass
class RankHands:
    """What an armed fault may know of its rank, and the one thing it must tell."""

    context: RankContext

    @property
    def rank(self) -> int:
        return self.context.rank

    @property
    def world_size(self) -> int:
        return self.context.world_size

    def fired(self) -> None:
        """Count it in the beacon, which outlives this process."""
        self.context.ring.fault_fired()


@OPS.register("arm")
def arm(context: RankContext, *, fault: str, params: dict[str, Any]) -> None:
    """Put a fault's interceptor in front of this rank's calls."""
    context.tap.interceptors.append(FAULTS[fault].arm(RankHands(context), **params))


@OPS.register("disarm")
def disarm(context: RankContext) -> dict[str, int]:
    """Take every fault out, with what it may hold back; says how many have fired in this rank's life."""
    context.tap.interceptors.clear()
    return {"fired": context.ring.fired}
