"""Each check of lab 00 takes the right answer and refuses the wrong ones that people give."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labkit.doctor import CheckResult, DoctorReport
from labkit.doctor.experiment import ExperimentRecord
from labkit.exercises import CHECKS, NotYet
from labkit.testing import Act, Script, late, ok, raises
from labkit.wire import CellResult, RankCard, TensorTable, WorldStatus

Table = Callable[..., TensorTable]
SIZES = (2, 3, 4)


@pytest.fixture(params=SIZES)
def script(request: pytest.FixtureRequest) -> Script:
    return Script(request.param)


def ran(script: Script, act: Callable[[int], Act] = lambda rank: ok(), ranks: Any = None) -> CellResult:
    """A cell on these ranks, and what each of them does with it."""
    with script.world() as world:
        script.on("cell", lambda rank, _: act(rank))
        return world.run_cell("...", ranks=ranks)


def prints(text: Callable[[int], object]) -> Callable[[int], Act]:
    return lambda rank: ok(printed=f"{text(rank)}\n")


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


def test_some(script: Script) -> None:
    found = CHECKS["00/some"](ran(script, ranks=0))
    assert (found.answer.value, "rank 0" in found) == (1, True)
    assert refused("00/some", ran(script)).startswith("this cell went to ranks 0")
    assert refused("00/some", ran(script, ranks=1)) == "this cell went to rank 1"
    assert "not str" in refused("00/some", "rank 0")


VOICES = [
    prints(lambda rank: rank % 2),
    lambda rank: ok(shown=str(rank % 2 == 0)),
    prints(lambda rank: ("even", "odd")[rank % 2]),
]


@pytest.mark.parametrize("act", VOICES)
def test_voices(script: Script, act: Callable[[int], Act]) -> None:
    assert CHECKS["00/voices"](ran(script, act)) == f"{script.world_size} ranks printed, and the output has two blocks."


@pytest.mark.parametrize(
    ("act", "what"),
    [
        (prints(lambda rank: "hello"), "all ranks print the same"),
        (lambda rank: ok(printed="odd\n" if rank % 2 else ""), " printed nothing"),
        (lambda rank: raises("NameError: name 'rnk' is not defined"), "the cell raised an exception"),
        (lambda rank: ok(), "printed nothing"),
    ],
)
def test_voices_that_are_not_two(script: Script, act: Callable[[int], Act], what: str) -> None:
    assert what in refused("00/voices", ran(script, act))


def test_voices_of_the_wrong_ranks() -> None:
    numbers = prints(lambda rank: rank)
    assert "the output has 4 blocks" in refused("00/voices", ran(Script(4), numbers))
    assert "the blocks do not separate" in refused("00/voices", ran(Script(4), prints(lambda rank: rank > 1)))
    assert "ranks 1 and 3 printed nothing" in refused("00/voices", ran(Script(4), numbers, ranks=[0, 2]))


def test_raises(script: Script) -> None:
    error = raises("ZeroDivisionError: division by zero")
    said = CHECKS["00/raises"](ran(script, lambda rank: ok() if rank else error))
    assert said.startswith("rank 0 raised ZeroDivisionError (cell 1, line 1), and")
    assert refused("00/raises", ran(script)) == "no rank raised"
    assert refused("00/raises", ran(script, lambda rank: error)).startswith("ranks 0")
    assert refused("00/raises", ran(script, lambda rank: error, ranks=0)) == "this cell did not go to all ranks"


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


def test_deadline(script: Script) -> None:
    with script.world() as world:
        script.on("cell", {0: late(stack=((1, "<module>"),))})
        result = world.run_cell("while rank == 0: pass", deadline_s=2)
        assert "not free yet" in refused("00/deadline", result, status(5, 6, state="running cell 4"))
        assert refused("00/deadline", result, status(5, 6, note="the groups are broken")) == "the groups are broken"
        assert refused("00/deadline", dataclasses.replace(result, outcomes=()), status(5, 6)).startswith("no rank missed")
        world.recover()
        assert "free again" in CHECKS["00/deadline"](result, world.status())


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
