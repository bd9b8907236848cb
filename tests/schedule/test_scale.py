"""A thousand ranks in about a second, memory that grows with the data, and a hundred thousand ranks priced at once."""

from __future__ import annotations

import subprocess
import sys
import time
import tracemalloc

import numpy as np
import pytest

from labkit.schedule import ALGORITHMS, Link, count, predict, simulate
from labkit.schedule.algorithms import _trees


def best_s(call: object, rounds: int = 5) -> float:
    """The best of some rounds, in time of this thread: other work on the machine only ever makes it slower."""
    times = []
    for _ in range(rounds):
        _trees.trees.cache_clear()
        started_s = time.thread_time()
        call()  # type: ignore[operator]
        times.append(time.thread_time() - started_s)
    return min(times)


@pytest.mark.slow
def test_a_ring_of_1024_ranks_is_simulated_in_about_a_second() -> None:
    schedule = ALGORITHMS["ring"].schedule(1024)
    inputs = np.random.default_rng(0).integers(0, 100, (1024, 1024))

    def run() -> None:
        result = simulate(schedule, list(inputs))
        assert result.ok
        assert all((output == inputs.sum(axis=0)).all() for output in result.outputs)

    assert best_s(run, rounds=2) < 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["halving-doubling", "double-tree", "recursive-doubling", "binomial-tree", "hierarchical"])
def test_the_other_scalable_ones_take_no_longer(name: str) -> None:
    schedule = ALGORITHMS[name].schedule(1024)
    inputs = np.random.default_rng(0).integers(0, 100, (1024, 512))
    started_s = time.thread_time()
    result = simulate(schedule, list(inputs))
    assert time.thread_time() - started_s < 3
    assert result.ok
    assert (result.outputs[77] == inputs.sum(axis=0)).all()


def peak_bytes(world_size: int) -> tuple[int, int]:
    """Peak memory of a simulated ring, and the number of its cells: ranks times chunks, one element in each."""
    schedule = ALGORITHMS["ring"].schedule(world_size)
    inputs = list(np.zeros((world_size, world_size), dtype=np.int64))
    tracemalloc.start()
    simulate(schedule, inputs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, world_size * world_size


@pytest.mark.slow
def test_memory_grows_with_the_data_and_not_with_the_transfers() -> None:
    for world_size in (512, 1024):
        peak, cells = peak_bytes(world_size)
        assert peak < 80 * cells  # 8 of data, 8 of marks, sets or tags, results, and room


@pytest.mark.slow
def test_counting_keeps_one_step_in_memory() -> None:
    schedule = ALGORITHMS["ring"].schedule(1024)
    tracemalloc.start()
    totals = count(schedule, 1024)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert totals.by_rank.sent_messages.sum() == 2 * 1023 * 1024
    assert peak < 1 << 20


@pytest.mark.parametrize("world_size", [99_999, 100_000])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_price_of_100_000_ranks_takes_no_time(name: str, world_size: int) -> None:
    link = Link.of(5, 10)
    assert best_s(lambda: predict(name, world_size, 1e9, link)) < 0.01
    assert predict(name, world_size, 1e9, link).seconds > 0


def test_schedules_load_neither_torch_nor_anything_of_a_notebook() -> None:
    code = (
        "import sys, labkit.schedule\nlist(labkit.schedule.ALGORITHMS)\n"
        "print(*[name for name in ('torch', 'ipyparallel', 'plotly', 'IPython', 'zmq') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    assert done.stdout.split() == []
