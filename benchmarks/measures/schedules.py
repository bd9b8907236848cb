"""Algorithms on live ranks beside the library's own all-reduce. As a program: the kernel with the world that runs them."""

from __future__ import annotations

from statistics import median
from typing import Any

from ..bench import Bench
from ..channel import Channel
from ..core import Goal, Row, Series, measure
from ..program import Program

KIB, MIB = 2**10, 2**20
RANKS = 4
ALGORITHMS = ("ring", "recursive-doubling", "halving-doubling", "binomial-tree", "double-tree")
SIZES = ((KIB, 40), (64 * KIB, 40), (MIB, 40), (16 * MIB, 21), (64 * MIB, 7))
LIMITS = "CPU time, most of it copies through loopback TCP; each piece is handed from gloo's thread to ours and back"


def program(bench: Bench) -> Program:
    """A kernel with a world of four ranks, for the measures of schedules."""
    return bench._start("schedules", ["-m", "benchmarks.measures.schedules"])


@measure("schedules", "Algorithms on live ranks, 4 ranks", order=10)
def run(bench: Bench) -> list[Row]:
    """Each algorithm and gloo's all-reduce in turn, in one request to the ranks; from the last rank's start to its end."""
    rows = []
    with program(bench) as world:
        world.hear()
        for num_bytes, rounds in SIZES:
            size = f"{num_bytes // MIB} MiB" if num_bytes >= MIB else f"{num_bytes // KIB} KiB"
            bench.say(size)
            found = world.ask("compare", deadline_s=300.0, num_bytes=num_bytes, rounds=bench.rounds(rounds))
            library = found.pop("library")
            notes = tuple(f"{name}: {part:.2f} of the library's time" for name, part in _parts(found, library).items())
            goal = Goal(1 / 0.6) if num_bytes == 16 * MIB else None
            sides = Series.of("live ring", found["ring"]), Series.of("gloo's all-reduce", library)
            rows.append(Row(f"live ring, {size}", *sides, goal, LIMITS, notes))
    return rows


def _parts(found: dict[str, list[float]], library: list[float]) -> dict[str, float]:
    """Every other algorithm's time over its neighbour's, the library's."""
    return {
        name: median(ours / theirs for ours, theirs in zip(times, library, strict=True))
        for name, times in found.items()
        if name != "ring"
    }


# ---- the program
class Ops:
    """What the bench may ask of the world."""

    def __init__(self) -> None:
        import labkit

        self.world: Any = labkit.start(ranks=RANKS, backend="gloo")

    def compare(self, num_bytes: int, rounds: int) -> dict[str, list[float]]:
        """Seconds of each round, by contestant."""
        found = self.world.compare(ALGORITHMS, num_bytes=num_bytes, rounds=rounds, deadline_s=280.0)
        return {timing.name: list(timing.times_s) for timing in found.timings}

    def residuals(self, name: str, sizes: list[int], held: list[int], rounds: int) -> dict[str, list[float]]:
        """The relative errors of a fit: on the sizes it has seen, and on those held out."""
        found = self.world.sweep(sizes, [name], rounds=rounds).fit(name, held)
        seen = [abs(each.relative) for each in found.fit.residuals]
        return {"seen": seen, "held out": [abs(each.relative) for each in found.residuals]}

    def crossing(self, one: str, other: str, rounds: int) -> list[float | None]:
        """The sizes at which two algorithms cross: predicted, and measured."""
        found = self.world.crossing(one, other, rounds=rounds)
        return [found.predicted_bytes, found.measured_bytes]


def main() -> None:
    ops = Ops()
    channel = Channel()
    channel.tell(event="up")
    try:
        channel.serve({name: getattr(ops, name) for name in ("compare", "residuals", "crossing")})
    finally:
        ops.world.stop()


if __name__ == "__main__":
    main()
