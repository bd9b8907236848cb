"""All-reduce bandwidth in a world, beside the same under torchrun."""

from __future__ import annotations

from ..bench import Bench
from ..core import Goal, Row, Series, interleaved, measure
from ..program import Program

MIB = 2**20
FLOAT_BYTES = 4


@measure("bandwidth", "All-reduce bandwidth, 4 ranks", order=7)
def run(bench: Bench) -> list[Row]:
    """Blocks of calls in turn; bytes of the tensor per second. The side that is not measured waits in a receive."""
    rows = []
    with bench.labkit() as world, bench.torchrun() as torchrun:
        world.hear()
        torchrun.hear()
        for size_bytes, count in ((16 * MIB, 5), (64 * MIB, 2)):
            bench.say(f"{size_bytes // MIB} MiB")

            def rate(program: Program, size_bytes: int = size_bytes, count: int = count) -> float:
                return size_bytes * count / float(program.ask("all_reduces", numel=size_bytes // FLOAT_BYTES, count=count))

            rate(world), rate(torchrun)
            ours, beside = interleaved(bench.rounds(25), lambda: rate(world), lambda: rate(torchrun))
            sides = Series.of("labkit", ours, "bytes/s"), Series.of("torchrun", beside, "bytes/s")
            limits = "gloo over loopback, ranks that share cores"
            rows.append(Row(f"bandwidth at {size_bytes // MIB} MiB", *sides, Goal(0.98, at_least=True), limits))
    return rows
