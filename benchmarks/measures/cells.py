"""An empty rank cell on all ranks, beside the emptiest call that ipyparallel has."""

from __future__ import annotations

from statistics import median

from ..bench import Bench
from ..core import Goal, Row, Series, interleaved, measure


@measure("cell", "An empty rank cell, 4 ranks", order=5)
def run(bench: Bench) -> list[Row]:
    """Blocks of 20 in turn; a value is the median of a block."""
    with bench.labkit() as world, bench.stock() as stock:
        world.hear()
        stock.hear()
        world.ask("cells", count=20)
        stock.ask("calls", count=20)
        ours, beside = interleaved(
            bench.rounds(30), lambda: median(world.ask("cells", count=20)), lambda: median(stock.ask("calls", count=20))
        )
    limits = "four messages out, eight back (a reply and an idle each); the look for silent faults after the cell"
    return [Row("empty cell", Series.of("labkit", ours), Series.of("DirectView.apply_sync", beside), Goal(1.25), limits)]
