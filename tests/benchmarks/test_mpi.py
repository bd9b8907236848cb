"""MPI beside ours: found or not, run to its end or ended, and what its program writes."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import mpi
from benchmarks.bench import Bench
from benchmarks.core import BenchError
from benchmarks.program import left_behind
from benchmarks.programs import mpi_all_reduce
from labkit.schedule.external import read_results

Launcher = Callable[[str], Path]
ROUNDS = {1024: 3, 4096: 2}
WRITES = """
import json, pathlib, sys
words = sys.argv[1:]
assert words[:2] == ["-n", "4"], words
sizes, rounds, out = (words.index(option) for option in ("--sizes", "--rounds", "--json"))
times = {size: [0.5] * int(number) for size, number in zip(words[sizes + 1 : rounds], words[rounds + 1 : out])}
pathlib.Path(words[out + 1]).write_text(json.dumps({"library": "MPI 1.0", "ranks": 4, "times_s": times}))
"""


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(1) as made:
        yield made


@pytest.fixture
def launcher(tmp_path: Path) -> Launcher:
    """`launcher(source)`: a program in the place of mpiexec."""

    def make(source: str) -> Path:
        path = tmp_path / "mpiexec"
        path.write_text(f"#!{sys.executable}\n{source}")
        path.chmod(0o755)
        return path

    return make


def test_mpi_counts_as_installed_with_both_its_halves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert mpi.mpiexec() is None
    (tmp_path / "mpiexec").touch()
    assert mpi.mpiexec() == tmp_path / "mpiexec"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert mpi.mpiexec() is None


def test_it_is_asked_for_our_sizes_and_rounds(bench: Bench, launcher: Launcher) -> None:
    found = mpi.all_reduces(bench, launcher(WRITES), 4, ROUNDS, 30.0)
    assert found == mpi.MpiRun("MPI 1.0", {1024: [0.5] * 3, 4096: [0.5] * 2})


@pytest.mark.parametrize(("source", "said"), [("raise SystemExit('no fabric')", "no fabric"), ("print('done')", "done")])
def test_without_a_result_its_last_words_are_told(bench: Bench, launcher: Launcher, source: str, said: str) -> None:
    (bench.folder / "mpi.json").write_text("a result of the run before")
    with pytest.raises(BenchError, match=rf"ended with [01]; its last words: {said}"):
        mpi.all_reduces(bench, launcher(source), 4, ROUNDS, 30.0)


def test_one_that_takes_too_long_is_ended(bench: Bench, launcher: Launcher) -> None:
    with pytest.raises(BenchError, match=r"mpi-1 took more than 0\.5 s"):
        mpi.all_reduces(bench, launcher("import time; time.sleep(600)"), 4, ROUNDS, 0.5)
    assert list(left_behind(bench.mark)) == []


def test_the_printed_table_is_read_as_a_result_of_osu() -> None:
    text = mpi_all_reduce.osu_text({1024: [3e-6, 1e-6, 2e-6], 4096: [5e-6]}, 4, "MPICH 5.0.2")
    found = read_results(text, 4)
    assert (found.tool, found.collective, found.sizes) == ("OSU", "all_reduce", (1024, 4096))
    assert found.times == pytest.approx((2e-6, 5e-6))
    assert "labkit's measurement" in text


class Alone:
    """MPI's world with one rank in it."""

    rank, size = 0, 1

    def __init__(self) -> None:
        self.calls: list[object] = []

    def Barrier(self) -> None:
        self.calls.append("barrier")

    def Allreduce(self, place: str, tensor: np.ndarray, op: str = "sum") -> None:
        assert place == "in place"
        self.calls.append((tensor.nbytes, op))


def test_a_round_is_a_barrier_and_one_call_and_the_last_rank_counts() -> None:
    played, world = SimpleNamespace(IN_PLACE="in place", MAX="max"), Alone()
    mpi_all_reduce.check(played, world)
    world.calls.clear()
    taken = mpi_all_reduce.seconds(played, world, 1024, 3)
    assert len(taken) == 3
    assert all(seconds > 0 for seconds in taken)
    assert world.calls == [*["barrier", (1024, "sum")] * 4, (4 * 2 * 8, "max")]


def test_a_wrong_sum_is_no_result() -> None:
    world = Alone()
    world.size = 2
    with pytest.raises(AssertionError):
        mpi_all_reduce.check(SimpleNamespace(IN_PLACE="in place"), world)


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    mpi_all_reduce.write_whole(tmp_path / "found.json", "all of it")
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"]


@pytest.mark.gloo
@pytest.mark.skipif(mpi.mpiexec() is None, reason=mpi.ABSENT)
def test_four_ranks_under_the_real_launcher(bench: Bench) -> None:
    launcher = mpi.mpiexec()
    assert launcher is not None
    found = mpi.all_reduces(bench, launcher, 4, ROUNDS, 60.0)
    assert {size: len(taken) for size, taken in found.times_s.items()} == ROUNDS
    assert all(seconds > 0 for taken in found.times_s.values() for seconds in taken)
    with pytest.raises(BenchError, match="took more than"):
        mpi.all_reduces(bench, launcher, 4, {64 << 20: 10_000}, 3.0)
    assert bench.tidy() == []
    assert not (bench.folder / "mpi.json").exists()
