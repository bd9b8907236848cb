"""The timeline of a world's cells."""

from __future__ import annotations

from ..driver.core import WorldCore, instrument
from ..timeline import Timeline, make_timeline


@instrument
def timeline(world: WorldCore, cells: int = 1) -> Timeline:
    """Who was in which call, when: the last cell, or the last `cells`."""
    return make_timeline(world.look(ask=False), cells)
