"""Who made which call: the calls of all ranks side by side, from the beacons alone, so that it works while ranks hang."""

from __future__ import annotations

from ..callgrid import CallGrid
from ..diagnosis.grid import call_grid
from ..driver.core import WorldCore, instrument


def so_far(world: WorldCore) -> CallGrid | None:
    """The calls that the running cell has made, or None; no rank is asked, so it costs a running collective nothing."""
    if world.stopped:
        return None
    grid = call_grid(world.look(ask=False))
    return grid if world.cell in grid.cells else None


@instrument
def calls(world: WorldCore, cells: int = 1) -> CallGrid:
    """The picture of the calls of the newest cell, or of the newest `cells`: who agrees, who does not, who waits.

    >>> world.calls()                                                    # doctest: +SKIP
    """
    diagnosis = world.judge(world.look())
    return call_grid(diagnosis.evidence, diagnosis.verdict, cells=cells, judged=True)
