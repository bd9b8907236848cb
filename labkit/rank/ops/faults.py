"""Arms a fault in this rank, and takes it out again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...faults import FAULTS
from ..context import RankContext
from ..dispatch import OPS


@dataclass
class RankFaultContext:
    """What an armed fault may know of its rank, and how it says that it has fired."""

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
    context.tap.interceptors.append(FAULTS[fault].arm(RankFaultContext(context), **params))


@OPS.register("disarm")
def disarm(context: RankContext) -> dict[str, int]:
    """Take every fault out, with the calls it holds back; how many faults have fired in this process."""
    context.tap.interceptors.clear()
    return {"fired": context.ring.fired}
