"""Each check of lab 00 takes the right answer and refuses the wrong ones that people give."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from labkit.doctor import CheckResult, DoctorReport
from labkit.doctor.experiment import ExperimentRecord
from labkit.driver.world import World
from labkit.exercises import CHECKS, NotYet
from labkit.testing import fake_world
from labkit.wire import RankCard, TensorTable, WorldStatus

Table = Callable[..., TensorTable]
SIZES = (2, 3, 4)


@pytest.fixture(params=SIZES)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with fake_world(request.param) as running:
        yield running


def refused(name: str, *answer: Any) -> str:
    with pytest.raises(NotYet) as caught:
        CHECKS[name](*answer)
    assert caught.value.hint
    assert "\n" not in str(caught.value)
    return caught.value.what


def status(*pids: int, state: str = "idle", note: str = "") -> WorldStatus:
    cards = tuple(RankCard(rank, pid, "cpu", "gloo", state) for rank, pid in enumerate(pids))
    return WorldStatus(len(pids), "gloo", "raw", 1, "fork", cards, note=note)


def report(*statuses: str) -> DoctorReport:
    results = tuple(CheckResult(f"c{n}", f"Check {n}", status, "why", "do this") for n, status in enumerate(statuses))
    return DoctorReport(results, ranks=4)


def test_doctor() -> None:
    assert CHECKS["00/doctor"](report("ok", "warn", "note")) == "none of 3 lines says FAIL: 4 ranks can run on this machine."
    assert refused("00/doctor", report("ok", "fail")) == "Check 1: why"
    assert "the doctor's report" in refused("00/doctor", None)


def test_processes() -> None:
    assert CHECKS["00/processes"](status(5, 6), {0: 5, 1: 6}).startswith("2 ranks are 2 processes")
    assert "rank 1 gave no pid" in refused("00/processes", status(5, 6), {0: 5})
    assert "rank 1 gave no pid" in refused("00/processes", status(5, 6), {0: 5, 1: 5})
    assert refused("00/processes", status(5, 5), {0: 5, 1: 5}) == "two ranks share one process"


def test_some(world: World) -> None:
    assert CHECKS["00/some"](world.run_cell("word = 1", ranks=0)).answer.value == 1
    assert "rank 0" in CHECKS["00/some"](world.run_cell("word = 1", ranks=0))
    assert refused("00/some", world.run_cell("word = 1")).startswith("this cell went to ranks 0")
    assert refused("00/some", world.run_cell("word = 1", ranks=1)) == "this cell went to rank 1"
    assert "not str" in refused("00/some", "rank 0")


@pytest.mark.parametrize("line", ["print(rank % 2)", "rank % 2 == 0", "print('odd' if rank % 2 else 'even')"])
def test_voices(world: World, line: str) -> None:
    assert CHECKS["00/voices"](world.run_cell(line)) == f"{world.world_size} ranks printed, and the output has two blocks."


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("print('hello')", "all ranks print the same"),
        ("if rank % 2: print('odd')", " printed nothing"),
        ("print(rnk % 2)", "the cell raised an exception"),
        ("x = rank % 2", "printed nothing"),
    ],
)
def test_voices_that_are_not_two(world: World, line: str, what: str) -> None:
    assert what in refused("00/voices", world.run_cell(line))


def test_voices_of_the_wrong_ranks() -> None:
    with fake_world(4) as world:
        assert "the output has 4 blocks" in refused("00/voices", world.run_cell("print(rank)"))
        assert "the blocks do not separate" in refused("00/voices", world.run_cell("print(rank > 1)"))
        assert "ranks 1 and 3 printed nothing" in refused("00/voices", world.run_cell("print(rank)", ranks=[0, 2])).replace(
            ",", ""
        )


def test_raises(world: World) -> None:
    assert CHECKS["00/raises"](world.run_cell("1 / rank")).startswith("rank 0 raised ZeroDivisionError (cell 1, line 1), and")
    assert refused("00/raises", world.run_cell("1 / (rank + 1)")) == "no rank raised"
    assert refused("00/raises", world.run_cell("1 / 0")).startswith("ranks 0")
    assert refused("00/raises", world.run_cell("1 / rank", ranks=0)) == "this cell did not go to all ranks"


def test_push() -> None:
    assert CHECKS["00/push"]({0: 0, 1: 1, 2: 4}) == "0, 1, 4: one number per rank."
    assert refused("00/push", {0: 0, 1: 1, 2: 2}) == "rank 2 has 2"
    assert refused("00/push", {0: 4, 1: 4, 2: 4}) == "rank 0 has 4"
    assert refused("00/push", {0: 0, 1: "1", 2: 4}) == "rank 1 has '1': this is text, not a number"


@pytest.mark.parametrize("size", SIZES)
def test_tensors(table: Table, size: int) -> None:
    total = size * (size + 1) / 2
    assert CHECKS["00/tensors"](table([[total] * 6] * size)).answer.value == total
    assert CHECKS["00/tensors"](table([[total] * 6] * size)) == f"{total:g} on all {size} ranks."
    assert refused("00/tensors", table([[total] * 6] * (size - 1) + [[1.0] * 6])) == f"rank {size - 1} has 1"
    assert "missing on rank 0" in refused("00/tensors", table([[total]] * size, missing=(0,)))


def test_deadline(world: World) -> None:
    with world.inject("busy-python", rank=0):
        late = world.run_cell("dist.all_reduce(torch.ones(1))", deadline_s=2)
    assert "not free yet" in refused("00/deadline", late, status(5, 6, state="running cell 4"))
    assert refused("00/deadline", late, status(5, 6, note="the groups are broken")) == "the groups are broken"
    assert refused("00/deadline", dataclasses.replace(late, outcomes=()), status(5, 6)).startswith("no rank missed")
    world.recover()
    assert "free again" in CHECKS["00/deadline"](late, world.status())


RECORD = ExperimentRecord("0.1.0", "CPython 3.11", {"torch": "2.15.0"}, launch="python train.py")


def test_note() -> None:
    right = {"ranks": 2, "backend": "gloo", "seed": 2024}
    assert CHECKS["00/note"](RECORD, right, status(5, 6)).startswith("1 versions, the launch command")
    assert CHECKS["00/note"](RECORD, {**right, "why": "to show that more is fine"}, status(5, 6))
    for name, wrong in (("ranks", 4), ("backend", "nccl"), ("seed", 1), ("seed", None)):
        assert refused("00/note", RECORD, {**right, name: wrong}, status(5, 6)) == f"{name} was not {wrong!r}"
        without = {key: value for key, value in right.items() if key != name}
        assert refused("00/note", RECORD, without, status(5, 6)) == f"your note has no {name}"
    seed = refused("00/note", RECORD, {**right, "seed": "2024"}, status(5, 6))
    assert seed == "your note says of seed '2024': this is text, not a number"
    assert refused("00/note", RECORD, None, status(5, 6)) == "your note is a NoneType"
    assert refused("00/note", None, right, status(5, 6)) == "the record has no versions"


def test_again(table: Table) -> None:
    first, second = table([[1.5], [2.5]]), table([[1.5], [2.5]])
    assert CHECKS["00/again"](first, second, status(5, 6), status(7, 8)).startswith("2 new processes drew exactly the same")
    assert refused("00/again", first, second, status(5, 6), status(5, 6)) == "these are the old processes"
    assert refused("00/again", first, table([[1.5], [2.6]]), status(5, 6), status(7, 8)) == "the numbers differ"
    assert "missing on rank 1" in refused("00/again", first, table([[1.5], [2.5]], missing=(1,)), status(5, 6), status(7, 8))


def test_every_check_of_the_lab_is_tested_here() -> None:
    text = Path(__file__).read_text()
    assert [name for name in CHECKS if name.startswith("00/") and f'"{name}"' not in text] == []
