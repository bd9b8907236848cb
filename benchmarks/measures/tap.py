"""What watching costs: an all-reduce through contract and beacon, and without, in the same ranks."""

from __future__ import annotations

from ..bench import Bench
from ..core import Goal, Row, Series, measure

KIB, MIB = 2**10, 2**20
FLOAT_BYTES = 4


@measure("tap", "Watching an all-reduce, 4 ranks", order=6)
def run(bench: Bench) -> list[Row]:
    """Blocks of calls in turn, in one cell: labkit's functions and hooks on one group, torch's own on another."""
    rows = []
    with bench.labkit() as world:
        world.hear()
        for mode, num_bytes, count, rounds, goal in (
            ("raw", KIB, 20, 250, Goal(1.05)),
            ("raw", 16 * MIB, 1, 500, Goal(1.01)),
            ("safe", KIB, 20, 30, None),
            ("safe", 16 * MIB, 1, 30, None),
        ):
            bench.say(f"{mode} mode, {num_bytes} bytes")
            world.ask("mode", mode=mode)
            taken = world.ask("tap", numel=num_bytes // FLOAT_BYTES, count=count, rounds=bench.rounds(rounds), deadline_s=300.0)
            size = f"{num_bytes // MIB} MiB" if num_bytes >= MIB else f"{num_bytes // KIB} KiB"
            ours, beside = Series.of("labkit", taken["ours"]), Series.of("plain torch", taken["beside"])
            cpu_s = Series.of("ours", taken["ours_cpu"]).median - Series.of("beside", taken["beside_cpu"]).median
            limits = f"{cpu_s * 1e6:.0f} µs more of the calling thread's CPU time per call and rank"
            if mode == "safe":
                limits += "; the comparison through the store, one round trip and a poll"
            rows.append(Row(f"all-reduce of {size}, {mode} mode", ours, beside, goal, limits))
    return rows
