"""The measures of schedules: what their rows hold, and that MPI may be missing or fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import mpi, render
from benchmarks.bench import Bench
from benchmarks.core import BenchError, Row
from benchmarks.measures import schedules, schedules_model, schedules_simulator

MIB = schedules.MIB


class Played:
    """The program with the world; the ring takes twice gloo's time, all else half of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __enter__(self) -> Played:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def hear(self) -> None:
        pass

    def ask(self, op: str, deadline_s: float, **payload: Any) -> Any:
        self.asked.append((op, payload))
        if op == "crossing":
            return [None, 4.0 * MIB]
        if op == "residuals":
            error = {"held": [-0.5, *[0.1] * 7], "seen": [0.2, -0.4]}
            return dict.fromkeys(payload["names"], error)
        return {name: [1.0] * payload["rounds"] for name in schedules.ALGORITHMS} | {
            "ring": [4.0] * payload["rounds"],
            schedules.LIBRARY: [2.0] * payload["rounds"],
        }


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(5) as made:
        yield made


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    program = Played()
    for module in (schedules, schedules_model):
        monkeypatch.setattr(module, "program", lambda bench: program)
    return program


def with_mpi(monkeypatch: pytest.MonkeyPatch, answers: list[float | BenchError]) -> None:
    """MPI is installed, and each run of it takes so long a round."""

    def run(bench: Bench, launcher: Path, ranks: int, rounds: dict[int, int], limit_s: float) -> mpi.MpiRun:
        answer = answers.pop(0)
        if isinstance(answer, BenchError):
            raise answer
        return mpi.MpiRun("MPI 1.0", {size: [answer] * number for size, number in rounds.items()})

    monkeypatch.setattr(mpi, "mpiexec", lambda: Path("mpiexec"))
    monkeypatch.setattr(mpi, "all_reduces", run)


def named(rows: list[Row], start: str) -> list[Row]:
    return [row for row in rows if row.what.startswith(start)]


def test_ring_gloo_and_mpi_are_laid_beside_by_size(bench: Bench, played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    with_mpi(monkeypatch, [0.5, 0.25, 0.25])
    rows = schedules.run.run(bench)
    live, library = named(rows, "live ring"), named(rows, "gloo's all-reduce")
    assert [row.what for row in live] == [f"live ring, {size}" for size in ("1 KiB", "64 KiB", "1 MiB", "16 MiB", "64 MiB")]
    assert [row.ratio for row in live] == [2.0] * 5
    assert [row.ratio for row in library] == [8.0] * 5
    assert library[0].ratio_spread == (4.0, 8.0)
    assert library[0].beside is not None
    assert library[0].beside.name == "MPI 1.0's all-reduce"
    assert len(library[0].beside.values) == schedules.TURNS * schedules.ROUNDS[1024]
    assert "ring: 16.00 of MPI's time" in library[0].notes
    assert "recursive-doubling: 0.50 of the library's time" in live[0].notes
    assert "not the algorithms" in library[0].limits
    assert [row.met for row in live] == [None, None, None, False, None]


def test_without_mpi_a_line_says_what_to_do_and_the_rest_is_there(
    bench: Bench, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mpi, "mpiexec", lambda: None)
    *live, last = schedules.run.run(bench)
    assert len(live) == 5
    assert render.verdict(last) == "skipped"
    assert "`make bench`" in last.skipped
    assert "\n" not in last.skipped


def test_mpi_that_fails_once_is_told_and_not_asked_again(bench: Bench, played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    with_mpi(monkeypatch, [0.5, BenchError("mpi-2 ended with 1")])
    *live, last = schedules.run.run(bench)
    assert (render.verdict(last), last.failed) == ("failed", "mpi-2 ended with 1")
    assert len(live) == 5
    assert all(
        len(row.ours.values) == schedules.TURNS * number
        for row, number in zip(live, schedules.ROUNDS.values(), strict=True)
        if row.ours
    )


def test_quick_is_one_turn_of_each(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    with_mpi(monkeypatch, [0.5])
    with Bench(5, quick=True) as quick:
        rows = schedules.run.run(quick)
    assert len(rows) == 10
    assert {payload["rounds"] for _, payload in played.asked} == {2}


def test_errors_of_the_fit_by_algorithm_and_by_size(bench: Bench, played: Played) -> None:
    *rows, crossing = schedules_model.run.run(bench)
    assert len(rows) == 1 + len(schedules.ALGORITHMS)
    assert rows[0].ours is not None
    assert (rows[0].ours.median, rows[0].ours.high) == (0.1, 0.5)
    assert rows[0].notes[:3] == ("held out: median 10%, worst 50%", "1 KiB: -50%", "4 KiB: +10%")
    assert crossing.skipped
    assert played.asked[0][1]["sizes"] == schedules_model.SIZES


@pytest.mark.slow
def test_the_simulator_is_taken_at_every_size_and_its_memory_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules_simulator, "WORLDS", (64, 128))
    with Bench(1, quick=True) as quick:
        ring, memory, *others, growth = schedules_simulator.run.run(quick)
    assert len(ring.notes) == 2
    assert memory.met is True
    assert [row.what for row in others] == [f"simulate {name}, 128 ranks" for name in schedules_simulator.OTHERS]
    assert growth.ratio is not None
    assert len(growth.notes) == 1 + len(others)


def test_memory_that_grows_faster_than_the_elements_is_no_pass() -> None:
    worlds = schedules_simulator.WORLDS
    linear, worse = {n: 20 * n**2 for n in worlds}, {n: n**3 for n in worlds}
    assert schedules_simulator.growth_row({"ring": linear}).met is True
    row = schedules_simulator.growth_row({"ring": linear, "naive": worse})
    assert row.what.endswith("(naive)")
    assert (row.ratio, row.met) == (4.0, False)
