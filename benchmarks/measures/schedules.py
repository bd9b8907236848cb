"""Algorithms on live ranks beside the library's own all-reduce, and that beside MPI's.

As a program: the kernel with the world that runs the algorithms.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from labkit.units import format_bytes

from .. import mpi
from ..bench import Bench
from ..channel import Channel
from ..core import BenchError, Goal, Row, Series, measure
from ..program import Program

KIB, MIB = 2**10, 2**20
RANKS = 4
ALGORITHMS = ("ring", "recursive-doubling", "halving-doubling", "binomial-tree", "double-tree")
LIBRARY, MPI = "library", "MPI"
TURNS = 3
ROUNDS = {KIB: 14, 64 * KIB: 14, MIB: 14, 16 * MIB: 7, 64 * MIB: 3}  # of each turn
LIMITS = "CPU time, most of it copies through loopback TCP; each piece is handed from gloo's thread to ours and back"
NOT_ALGORITHMS = "TCP on loopback beside shared memory: what carries the bytes is compared here, not the algorithms"
MPI_S = 120.0

Times = dict[int, dict[str, list[float]]]  # seconds of each round, by size and by contestant


def program(bench: Bench) -> Program:
    """A kernel with a world of four ranks, for the measures of schedules."""
    return bench._start("schedules", ["-m", "benchmarks.measures.schedules"])


@measure("schedules", "Algorithms on live ranks, gloo and MPI, 4 ranks", order=10)
def run(bench: Bench) -> list[Row]:
    """Each algorithm and gloo's all-reduce in turn, in one request to the ranks; from the last rank's start to its end.
    Then MPI's all-reduce of the same sizes, as often, in a world of its own; then both again. MPI goes through shared
    memory on one machine and gloo through TCP, so a ratio beside MPI says what that costs, and nothing about algorithms.
    """
    rounds = {num_bytes: bench.rounds(number) for num_bytes, number in ROUNDS.items()}
    times: Times = {num_bytes: {} for num_bytes in rounds}
    launcher, library, failed = mpi.mpiexec(), "", ""
    with program(bench) as world:
        world.hear()
        for turn in range(1 if bench.quick else TURNS):
            bench.say(f"live, turn {turn + 1}")
            take_live(world, rounds, times)
            if launcher is None or failed:
                continue
            bench.say(f"MPI, turn {turn + 1}")
            try:
                library = take_mpi(bench, launcher, rounds, times)
            except BenchError as error:
                failed = str(error)
    beside = [Row("gloo's all-reduce beside MPI's", skipped="" if failed else mpi.ABSENT, failed=failed)]
    return live_rows(times) + (mpi_rows(times, library) if launcher and not failed else beside)


def take_live(world: Program, rounds: dict[int, int], times: Times) -> None:
    """A turn of the algorithms and of gloo's all-reduce."""
    for num_bytes, number in rounds.items():
        found = world.ask("compare", deadline_s=300.0, num_bytes=num_bytes, rounds=number)
        add(times[num_bytes], found)


def take_mpi(bench: Bench, launcher: Path, rounds: dict[int, int], times: Times) -> str:
    """A turn of MPI's all-reduce; which MPI it was."""
    found = mpi.all_reduces(bench, launcher, RANKS, rounds, MPI_S)
    for num_bytes, taken in found.times_s.items():
        add(times[num_bytes], {MPI: taken})
    return found.library


def add(times: dict[str, list[float]], more: dict[str, list[float]]) -> None:
    """Another turn's rounds behind those of the turns before."""
    for name, taken in more.items():
        times.setdefault(name, []).extend(taken)


def live_rows(times: Times) -> list[Row]:
    """The ring beside gloo's all-reduce, by size; the other algorithms are notes."""
    rows = []
    for num_bytes, found in times.items():
        goal = Goal(1 / 0.6) if num_bytes == 16 * MIB else None
        sides = Series.of("live ring", found["ring"]), Series.of("gloo's all-reduce", found[LIBRARY])
        notes = parts(found, ALGORITHMS[1:], LIBRARY, "the library's")
        rows.append(Row(f"live ring, {format_bytes(num_bytes)}", *sides, goal, "as above" if rows else LIMITS, notes))
    return rows


def mpi_rows(times: Times, library: str) -> list[Row]:
    """gloo's all-reduce beside MPI's, by size; the algorithms on live ranks are notes."""
    rows = []
    for num_bytes, found in times.items():
        sides = Series.of("gloo's all-reduce", found[LIBRARY]), Series.of(f"{library}'s all-reduce", found[MPI])
        notes, limits = parts(found, ALGORITHMS, MPI, "MPI's"), "as above" if rows else NOT_ALGORITHMS
        rows.append(Row(f"gloo's all-reduce, {format_bytes(num_bytes)}", *sides, None, limits, notes))
    return rows


def parts(found: dict[str, list[float]], names: tuple[str, ...], beside: str, whose: str) -> tuple[str, ...]:
    """Each algorithm's time over its neighbour's, in words.

    >>> parts({"ring": [2.0, 3.0, 4.0], "library": [1.0, 1.0, 1.0]}, ("ring",), "library", "the library's")
    ("ring: 3.00 of the library's time",)
    """
    ratios = {name: [ours / theirs for ours, theirs in zip(found[name], found[beside], strict=True)] for name in names}
    return tuple(f"{name}: {median(each):.2f} of {whose} time" for name, each in ratios.items())


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

    def residuals(self, names: list[str], sizes: list[int], rounds: int) -> dict[str, dict[str, list[float]]]:
        """By name, the relative errors of fits that have not seen one size, in the order of sizes, and on what they have."""
        swept = self.world.sweep(sizes, names, rounds=rounds)
        fits = {name: [swept.fit(name, hold=[size]) for size in sizes] for name in names}
        return {
            name: {
                "held": [each.relative for found in taken for each in found.residuals],
                "seen": [each.relative for found in taken for each in found.fit.residuals],
            }
            for name, taken in fits.items()
        }

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
