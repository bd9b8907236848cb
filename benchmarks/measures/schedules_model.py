"""How well latency and bandwidth, fitted on some sizes, predict the others; and where two algorithms cross."""

from __future__ import annotations

from ..bench import Bench
from ..core import Row, Series, measure
from .schedules import KIB, MIB, program

SIZES = [KIB << power for power in range(0, 15, 2)]  # 1 KiB to 16 MiB
HELD = [4 * KIB, 256 * KIB, 4 * MIB]


@measure("schedules-model", "The price of a collective, 4 ranks", order=11)
def run(bench: Bench) -> list[Row]:
    """A sweep of 1 KiB to 16 MiB; three sizes are held out of the fit and predicted."""
    rows = []
    with program(bench) as world:
        world.hear()
        for name in ("all_reduce", "ring", "recursive-doubling"):
            bench.say(name)
            found = world.ask("residuals", deadline_s=300.0, name=name, sizes=SIZES, held=HELD, rounds=bench.rounds(30))
            sides = Series.of("held out", found["held out"], ""), Series.of("fitted", found["seen"], "")
            limits = "spread of a busy machine; two numbers for caches, TCP windows and pieces"
            rows.append(Row(f"error of the fit, {name}", *sides, None, limits))
        bench.say("crossing")
        predicted, measured = world.ask(
            "crossing", one="recursive-doubling", other="ring", rounds=bench.rounds(30), deadline_s=300.0
        )
    what = "recursive doubling and ring cross at"
    if predicted is None or measured is None:
        return [*rows, Row(what, skipped="they do not cross in what was measured")]
    return [*rows, Row(what, Series.of("predicted", [predicted], "bytes"), Series.of("measured", [measured], "bytes"))]
