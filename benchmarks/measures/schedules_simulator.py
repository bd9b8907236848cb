"""The simulator's time and memory against the number of ranks, for a ring and for others."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np

from labkit.schedule import ALGORITHMS, simulate

from ..bench import Bench
from ..core import Goal, Row, Series, measure

WORLDS = (16, 64, 256, 1024)
RING = "ring"
OTHERS = ("halving-doubling", "recursive-doubling", "binomial-tree", "double-tree", "hierarchical", "naive")
BYTES_AN_ELEMENT = 80.0

Times = dict[int, Series]  # by the number of ranks
Peaks = dict[int, int]


@measure("schedules-simulator", "The simulator: as many elements on a rank as there are ranks", order=12)
def run(bench: Bench) -> list[Row]:
    """Every element is followed and checked; n ranks hold n² of them. CPU time of the thread; memory in a run of its own,
    since tracing is slow."""
    times: dict[str, Times] = {}
    peaks: dict[str, Peaks] = {}
    for name in (RING, *OTHERS):
        bench.say(name)
        times[name] = {n: Series.of(name, [seconds(name, n) for _ in range(bench.repeat)]) for n in WORLDS}
        peaks[name] = {n: peak_bytes(name, n) for n in WORLDS}
    return [*ring_rows(times[RING], peaks[RING]), *(other_row(name, times) for name in OTHERS), growth_row(peaks)]


def ring_rows(times: Times, peaks: Peaks) -> list[Row]:
    """A ring of the largest world: its time and its memory."""
    before, last = WORLDS[-2:]
    notes = tuple(f"{n} ranks: {taken.median * 1e3:.3g} ms" for n, taken in times.items())
    grows = f"{peaks[last] / peaks[before]:.1f} times that of {before} ranks, for {(last // before) ** 2} times the elements"
    what, limits = f"simulate a ring of {last} ranks", "array operations of numpy, step by step"
    peak = Series.of("labkit", [peaks[last]], "bytes")
    goal = Goal(BYTES_AN_ELEMENT * last**2, ratio=False)
    return [
        Row(what, times[last], None, Goal(2.0, ratio=False), limits, notes),
        Row(f"memory of that, {last**2:,} elements", peak, None, goal, grows),
    ]


def other_row(name: str, times: dict[str, Times]) -> Row:
    """Another algorithm beside the ring."""
    last = WORLDS[-1]
    notes = tuple(f"{n} ranks: {taken.median * 1e3:.3g} ms" for n, taken in times[name].items())
    limits = f"{ALGORITHMS[name].schedule(last).num_steps} steps, the ring has {ALGORITHMS[RING].schedule(last).num_steps}"
    return Row(f"simulate {name}, {last} ranks", times[name][last], times[RING][last], limits=limits, notes=notes)


def growth_row(peaks: dict[str, Peaks]) -> Row:
    """Memory of an element in the largest world beside that in the world before: 1 is linear in the elements."""
    before, last = WORLDS[-2:]
    each = {name: {n: peak / n**2 for n, peak in found.items()} for name, found in peaks.items()}
    worst = max(each, key=lambda name: each[name][last] / each[name][before])
    sides = (Series.of(f"{n} ranks", [each[worst][n]], "bytes") for n in (last, before))
    notes = tuple(f"{name}: {', '.join(f'{part:.0f}' for part in found.values())} bytes" for name, found in each.items())
    limits = f"memory that grows faster than the elements; below, bytes an element on {', '.join(map(str, WORLDS))} ranks"
    return Row(f"memory an element, where it grows most ({worst})", *sides, Goal(1.1), limits, notes)


def seconds(name: str, world_size: int) -> float:
    """CPU seconds of one simulated all-reduce."""
    schedule, inputs = ALGORITHMS[name].schedule(world_size), zeros(world_size)
    began_s = time.thread_time()
    assert simulate(schedule, inputs).ok
    return time.thread_time() - began_s


def peak_bytes(name: str, world_size: int) -> int:
    """The most memory it holds, its results included."""
    schedule, inputs = ALGORITHMS[name].schedule(world_size), zeros(world_size)
    tracemalloc.start()
    try:
        simulate(schedule, inputs)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def zeros(world_size: int) -> list[np.ndarray]:
    """Inputs with an element for every chunk that a schedule may have."""
    return list(np.zeros((world_size, world_size), dtype=np.int64))
