"""Each check of lab 09 takes what a mended cell gives and refuses what people try instead.

What the cells give was recorded on three live ranks; the answers are in `answers.py`, the solutions in the notebook.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from labkit.exercises import CHECKS, NotYet
from labkit.exercises.clinic import CASES, KINDS
from labkit.exercises.guess import Answer
from labkit.faults import FAULTS
from labkit.labs import RANK_STUB
from labkit.testing import replay
from labkit.wire import CellResult, Diagnosis, RankCard, WorldStatus

from .answers import ALSO_RIGHT, MENDED, PADDED, SEEN, WRONG, cell_of, changed_last_line, key_of, with_answer

DATA = Path(__file__).resolve().parent.parent / "data"


@cache
def recorded() -> dict[str, tuple[CellResult, Diagnosis]]:
    """The result of each cell, and the look at the ranks after it."""
    entries = replay(DATA / "lab09.jsonl").entries
    return {cell.note: (cell.value, look.value) for cell, look in zip(entries[::2], entries[1::2], strict=True)}


def ran(code: str) -> tuple[CellResult, Diagnosis]:
    """What this cell gave on three ranks."""
    if key_of(code) not in recorded():
        pytest.fail("this cell was not recorded; run: python tests/data/make_evidence.py lab09")
    return recorded()[key_of(code)]


def with_fault(fault: str, mode: str = "raw") -> CellResult:
    """The fault's own cell, with the fault in it."""
    result = replay(DATA / {"raw": "evidence", "safe": "safe"}[mode] / f"{fault}.jsonl").entries[1].value
    assert isinstance(result, CellResult)
    return result


def refused(name: str, *answer: Any) -> NotYet:
    with pytest.raises(NotYet) as caught:
        CHECKS[name](*answer)
    assert caught.value.hint
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("name", SEEN)
def test_an_ending_is_seen(name: str) -> None:
    fault, ending = SEEN[name]
    result = with_fault(fault)
    assert CHECKS[f"09/{name}"](result).startswith(f"{ending}, and LK")
    assert CHECKS[f"09/{name}"](result).answer == Answer(ending)
    other = "slow" if name != "slow" else "order"
    assert refused(f"09/{other}", result).what.startswith("this cell got a different verdict")


@pytest.mark.parametrize("name", SEEN)
def test_a_cell_that_ended_well_is_no_ending(name: str) -> None:
    assert refused(f"09/{name}", ran(FAULTS[SEEN[name][0]].demo)[0]).what == "this cell ended well"
    assert "not NoneType" in refused(f"09/{name}", None).what


@pytest.mark.parametrize("exercise", MENDED)
def test_the_solution_passes(exercise: str) -> None:
    assert CHECKS[f"09/{exercise}-mended"](*ran(cell_of(exercise)))


@pytest.mark.parametrize("exercise", MENDED)
def test_the_stub_says_that_it_is_your_turn(exercise: str) -> None:
    result, diagnosis = ran(with_answer(exercise, RANK_STUB))
    assert "NotImplementedError: your turn" in refused(f"09/{exercise}-mended", result, diagnosis).what
    assert diagnosis.healthy


@pytest.mark.parametrize(("exercise", "answer"), [(name, answer) for name, answers in ALSO_RIGHT.items() for answer in answers])
def test_other_ways_are_right_too(exercise: str, answer: str) -> None:
    assert CHECKS[f"09/{exercise}-mended"](*ran(with_answer(exercise, answer)))


def test_padding_uses_every_sample() -> None:
    assert "all samples are included" in CHECKS["09/data-mended"](*ran(PADDED))


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [pytest.param(name, text, id=f"{name}: {what}") for name, answers in WRONG.items() for what, text in answers.items()],
)
def test_a_wrong_answer_fails(exercise: str, answer: str) -> None:
    refused(f"09/{exercise}-mended", *ran(with_answer(exercise, answer)))


def test_a_hang_is_answered_with_the_verdict_and_the_way_out() -> None:
    missing = refused("09/data-mended", *ran(with_answer("data", WRONG["data"]["as it was"])))
    assert "has finished cell" in missing.what
    assert missing.hint == "world.recover(), then try again"


def test_the_mean_of_the_means_is_named() -> None:
    found = refused("09/size-mended", *ran(with_answer("size", WRONG["size"]["the mean of the means"])))
    assert "is the mean of the ranks' means" in found.what


def test_a_last_line_that_was_changed_is_said() -> None:
    assert "the cell's last line shows" in refused("09/size-mended", *ran(changed_last_line())).what


def test_two_deadlines() -> None:
    result = with_fault("busy-python")
    short, long = (dataclasses.replace(result, elapsed_s=deadline_s) for deadline_s in (1.0, 3.0))
    assert "the same rank and the same line" in CHECKS["09/timeout"](short, long)
    refused("09/timeout", long, short)
    refused("09/timeout", short, short)
    refused("09/timeout", short, ran("1")[0])
    other = dataclasses.replace(with_fault("stopped"), elapsed_s=3.0)
    assert "the two verdicts differ" in refused("09/timeout", short, other).what


def status(*states: str, first_pid: int = 5, note: str = "", mode: str = "raw") -> WorldStatus:
    cards = tuple(RankCard(rank, first_pid + rank, "cpu", "gloo", state) for rank, state in enumerate(states))
    return WorldStatus(len(states), "gloo", mode, 2, "fork", cards, note=note)


def test_interrupt() -> None:
    waiting, free = status("waiting", "waiting", "running"), status("idle", "idle", "idle")
    assert CHECKS["09/interrupt"](waiting, free).startswith("ranks 0 and 1 were waiting")
    assert refused("09/interrupt", free, free).what == "no rank was waiting before"
    assert refused("09/interrupt", waiting, waiting).what == "ranks 0-2 are not free yet"
    assert refused("09/interrupt", waiting, status("idle", "idle", "idle", note="the groups are broken")).what.endswith("broken")
    assert refused("09/interrupt", waiting, status("idle", "idle", "idle", first_pid=50)).what == "some processes are new"


def test_safe() -> None:
    names = [fault for fault, ending in SEEN.values() if ending != "slow"]
    results, safe = {name: with_fault(name, "safe") for name in names}, status("idle", "idle", "idle", mode="safe")
    assert CHECKS["09/safe"](results, safe).startswith("5 of 5 ended as ordinary errors")
    assert "raw mode" in refused("09/safe", results, dataclasses.replace(safe, mode="raw")).what
    assert "did not end as an error" in refused("09/safe", {**results, "none": ran("1")[0]}, safe).what
    assert "swapped-order did" in refused("09/safe", {"swapped-order": with_fault("swapped-order")}, safe).what


# ---- the clinic
RIGHT = (
    {"rank": 1, "line": 5, "kind": "raised"},
    {"rank": 2, "line": 4, "kind": "skipped"},
    {"rank": 0, "line": 8, "kind": "twins"},
)


def seen(number: int) -> CellResult:
    return ran(CASES[number].code)[0]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_clinic_takes_the_right_answer(number: int) -> None:
    assert "The verdict is" in CHECKS[f"09/clinic-{number + 1}"](RIGHT[number], seen(number))


@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_clinic_refuses_all_others(number: int) -> None:
    result, right = seen(number), RIGHT[number]
    name = f"09/clinic-{number + 1}"
    for rank in {0, 1, 2} - {right["rank"]}:
        assert "does the same as most ranks" in refused(name, {**right, "rank": rank}, result).what
    for kind in set(KINDS) - {right["kind"]}:
        assert f"the kind is not {kind!r}" in refused(name, {**right, "kind": kind}, result).what
    for line in set(range(12)) - set(CASES[number].lines):
        assert "" in refused(name, {**right, "line": line}, result).what
    for strange in (None, {}, "rank 1", {**right, "line": None}, {**right, "kind": 4}):
        assert refused(name, strange, result).what == "this is not an answer"
    text = refused(name, {**right, "line": "4"}, result).what
    assert text == "your answer says of the line '4': this is text, not a number"
    assert "unknown kind" in refused(name, {**right, "kind": "odd"}, result).what


def test_the_clinic_wants_its_own_run() -> None:
    assert "does not belong to the case" in refused("09/clinic-1", RIGHT[0], seen(2)).what
    assert "does not belong to the case" in refused("09/clinic-1", RIGHT[0], None).what


def test_cases_show_their_lines() -> None:
    assert [repr(case).splitlines()[0][:3] for case in CASES] == [" 1 "] * len(CASES)
    assert all(0 < line <= len(case.code.splitlines()) for case in CASES for line in case.lines)
    assert {case.kind for case in CASES} <= set(KINDS)


def test_every_check_of_the_lab_is_tested_here() -> None:
    tested = {f"09/{name}" for name in SEEN} | {f"09/{name}-mended" for name in MENDED}
    tested |= {f"09/clinic-{number + 1}" for number in range(len(CASES))} | {"09/timeout", "09/interrupt", "09/safe"}
    assert {name for name in CHECKS if name.startswith("09/")} == tested
