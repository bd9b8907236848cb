"""The simulator's time and memory against the number of ranks."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np

from labkit.schedule import ALGORITHMS, simulate

from ..bench import Bench
from ..core import Goal, Row, Series, measure

WORLDS = (64, 128, 256, 512, 1024)


@measure("schedules-simulator", "The simulator: a ring with as many chunks as ranks", order=12)
def run(bench: Bench) -> list[Row]:
    """Every element is followed and checked. CPU time of the thread; memory in a run of its own, since tracing is slow."""
    times: dict[int, Series] = {}
    peaks: dict[int, int] = {}
    for world_size in WORLDS:
        bench.say(f"{world_size} ranks")
        times[world_size] = Series.of("labkit", [seconds(world_size) for _ in range(bench.repeat)])
        peaks[world_size] = peak_bytes(world_size)
    last, before = WORLDS[-1], WORLDS[-2]
    cells = {world_size: peak / world_size**2 for world_size, peak in peaks.items()}
    notes = tuple(f"{world_size} ranks: {times[world_size].median:.3f} s" for world_size in WORLDS[:-1])
    each = tuple(f"{world_size} ranks: {cells[world_size]:.0f} bytes an element" for world_size in WORLDS)
    grows = f"twice the ranks are four times the elements, and {peaks[last] / peaks[before]:.1f} times the memory"
    peak = Series.of("labkit", [peaks[last]], "bytes")
    return [
        Row(
            f"simulate a ring of {last} ranks",
            times[last],
            None,
            Goal(2.0, ratio=False),
            "array operations of numpy, step by step",
            notes,
        ),
        Row(f"memory of that, {last * last:,} elements", peak, None, Goal(80.0 * last * last, ratio=False), grows, each),
    ]


def seconds(world_size: int) -> float:
    """CPU seconds of one simulated all-reduce."""
    schedule, inputs = ALGORITHMS["ring"].schedule(world_size), _inputs(world_size)
    began = time.thread_time()
    assert simulate(schedule, inputs).ok
    return time.thread_time() - began


def peak_bytes(world_size: int) -> int:
    """The most memory it holds, its results included."""
    schedule, inputs = ALGORITHMS["ring"].schedule(world_size), _inputs(world_size)
    tracemalloc.start()
    try:
        simulate(schedule, inputs)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _inputs(world_size: int) -> list[np.ndarray]:
    return list(np.zeros((world_size, world_size), dtype=np.int64))
