"""What it costs to lose nothing: each rank's twin, which holds its variables."""

from __future__ import annotations

from ..bench import Bench
from ..core import Goal, Row, Series, measure

MIB = 2**20
HELD_BYTES = 16 * MIB
CELLS, KILLS = 20, 20


@measure("twin", "Keeping the variables of 4 ranks with 16 MiB each", order=15)
def run(bench: Bench) -> list[Row]:
    """Bursts of 20 cells in turn, in a world that keeps variables and in one that does not; then a rank is killed, often."""
    with bench.labkit() as world, bench.labkit("--keep", "no") as without:
        for program in (world, without):
            program.hear()
            program.ask("hold", num_bytes=HELD_BYTES)
            program.ask("burst", count=CELLS)
        taken = [(world.ask("burst", count=CELLS), without.ask("burst", count=CELLS)) for _ in range(bench.rounds(20))]
        memory_bytes = world.ask("twins_bytes")
        recovered = [world.ask("killed")["recover_s"] for _ in range(bench.rounds(KILLS))]
    limits = "a fork of the rank after each cell, and the pages that both write to afterwards"
    again = "a fork and an engine's boot, new groups, one pickle of 16 MiB written and read"
    worst = Series.of("labkit, the slowest", [max(recovered)])
    return [
        Row("a cell in a burst that changes a variable", *_pair(taken, "cell_s"), None, limits),
        Row("CPU time of a rank for such a cell", *_pair(taken, "cpu_s"), None, limits),
        Row("memory of a rank's twin (PSS)", Series.of("labkit", [memory_bytes], "bytes"), None, None, limits),
        Row("recovery of a killed rank, variables restored", Series.of("labkit", recovered), None, Goal(0.5, ratio=False), again),
        Row("the same, the slowest of all", worst, None, Goal(1.0, ratio=False), again),
    ]


Taken = list[tuple[dict[str, float], dict[str, float]]]


def _pair(taken: Taken, name: str) -> tuple[Series, Series]:
    ours = Series.of("labkit", [kept[name] for kept, _ in taken])
    return ours, Series.of("LABKIT_KEEP=no", [other[name] for _, other in taken])
