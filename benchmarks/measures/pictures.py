"""From a finished rank cell to its picture, and what pictures that move cost."""

from __future__ import annotations

from ..bench import Bench
from ..core import Goal, Row, Series, measure

SIZES = (1_000, 100_000, 10_000_000)


@measure("pictures", "Pictures of 4 ranks", order=13)
def run(bench: Bench) -> list[Row]:
    """The picture has no rival: seconds alone. Live cards at 10 Hz are laid beside the same without them."""
    rows = []
    with bench.labkit() as world:
        world.hear()
        for numel in SIZES:
            taken = world.ask("picture", numel=numel, rounds=bench.rounds(9))
            limits = "statistics and a digest over all of it, in the ranks; at most 64 elements travel"
            rows.append(Row(f"picture of {numel:,} elements", Series.of("labkit", taken), limits=limits))
        pairs = world.ask("watched", numel=256, count=200, rounds=bench.rounds(15))
    ours, beside = Series.of("watched", pairs["ours"]), Series.of("unwatched", pairs["beside"])
    limits = "the kernel's reads of four beacons; outside a kernel, so without the messages to the browser"
    return [*rows, Row("all-reduce while cards are live", ours, beside, Goal(1.02), limits)]
