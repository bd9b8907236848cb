"""Each check of lab 09 takes what a mended cell gives and refuses what people try instead.

The cells are really run, in a world whose ranks are acted out; the solutions are those of the notebook.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from labkit.driver.world import World
from labkit.exercises import CHECKS, NotYet
from labkit.exercises.clinic import CASES, KINDS
from labkit.exercises.guess import Answer
from labkit.exercises.solutions import BEGIN, END, RANK_STUB, source_of
from labkit.faults import FAULTS
from labkit.testing import fake_world
from labkit.wire import CellResult, RankCard, WorldStatus

LAB = Path(__file__).resolve().parent.parent.parent / "labs" / "09-when-it-hangs.ipynb"
SIZES = (3, 4)
SEEN = {
    "order": ("swapped-order", "hang"),
    "data": ("leaves-early", "hang"),
    "raised": ("rank-raises", "hang"),
    "twins": ("swapped-twins", "silent"),
    "size": ("shape-mismatch", "abort"),
    "slow": ("slow", "slow"),
}
MENDED = ("order", "data", "raised", "twins", "size")


def cell_of(exercise: str) -> str:
    """The text that the notebook gives to the ranks."""
    cells = {cell["id"]: source_of(cell) for cell in json.loads(LAB.read_text())["cells"]}
    found = re.search(r'"""(.*)"""', cells[f"{exercise}-mended"], flags=re.S)
    assert found
    return found[1]


def with_answer(exercise: str, answer: str) -> str:
    """The exercise's cell with somebody's lines in the place of the solution."""
    return re.sub(f"{BEGIN}.*{END}", answer.replace("\\", r"\\"), cell_of(exercise), flags=re.S)


@pytest.fixture(params=SIZES)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with fake_world(request.param) as running:
        yield running


def refused(name: str, *answer: Any) -> NotYet:
    with pytest.raises(NotYet) as caught:
        CHECKS[name](*answer)
    assert caught.value.hint
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("name", SEEN)
def test_an_ending_is_seen(world: World, name: str) -> None:
    fault, ending = SEEN[name]
    result = world.try_fault(fault)
    assert CHECKS[f"09/{name}"](result).startswith(f"{ending}, and LK")
    assert CHECKS[f"09/{name}"](result).answer == Answer(ending)
    other = "slow" if name != "slow" else "order"
    assert refused(f"09/{other}", result).what.startswith("this cell got a different verdict")


@pytest.mark.parametrize("name", SEEN)
def test_a_cell_that_ended_well_is_no_ending(world: World, name: str) -> None:
    assert refused(f"09/{name}", world.run_cell(FAULTS[SEEN[name][0]].demo)).what == "this cell ended well"
    assert "not NoneType" in refused(f"09/{name}", None).what


@pytest.mark.parametrize("exercise", MENDED)
def test_the_solution_passes(world: World, exercise: str) -> None:
    assert CHECKS[f"09/{exercise}-mended"](world.run_cell(cell_of(exercise)), world.diagnose())


@pytest.mark.parametrize("exercise", MENDED)
def test_the_stub_says_that_it_is_your_turn(world: World, exercise: str) -> None:
    result = world.run_cell(with_answer(exercise, RANK_STUB))
    assert "NotImplementedError: your turn" in refused(f"09/{exercise}-mended", result, world.diagnose()).what
    assert world.diagnose().healthy


ALSO_RIGHT = {
    "order": ["calls['scale'](tensors['scale'])\ncalls['grad'](tensors['grad'])"],
    "data": ["steps = 3\ndist.all_reduce(torch.zeros(1))", "dist.barrier()\nsteps = len(samples) // world_size"],
    "raised": [
        "good = torch.ones(1)\ntry:\n    load()\nexcept OSError:\n    good = torch.zeros(1)\ndist.all_reduce(good)",
    ],
    "twins": [
        """flat = torch.cat([grads["weight"], grads["bias"]])
dist.all_reduce(flat)
grads = {"weight": flat[:4], "bias": flat[4:]}""",
    ],
    "size": [
        """total, count = batch.sum(), torch.tensor(float(len(batch)))
dist.all_reduce(total)
dist.all_reduce(count)
mean = total / count""",
    ],
}


@pytest.mark.parametrize(("exercise", "answer"), [(name, answer) for name, answers in ALSO_RIGHT.items() for answer in answers])
def test_other_ways_are_right_too(world: World, exercise: str, answer: str) -> None:
    assert CHECKS[f"09/{exercise}-mended"](world.run_cell(with_answer(exercise, answer)), world.diagnose())


def test_padding_uses_every_sample(world: World) -> None:
    cell = "samples = list(range(1, 4 * world_size))\nmine = samples[rank::world_size]\nmine += [0] * (4 - len(mine))\n"
    cell += "total = torch.zeros(1)\nfor sample in mine:\n    part = torch.tensor([float(sample)])\n    dist.all_reduce(part)\n"
    result = world.run_cell(cell + "    total += part\ntotal.item()")
    assert "all samples are included" in CHECKS["09/data-mended"](result, world.diagnose())


WRONG = {
    "order": {
        "as it was": "for name in names:\n    calls[name](tensors[name])",
        "one call left out": "calls['grad'](tensors['grad'])",
        "left out on one rank": "for name in sorted(names)[: 1 if rank == 1 else 2]:\n    calls[name](tensors[name])",
        "no call at all": "pass",
        "twice": "for name in sorted(names) * 2:\n    calls[name](tensors[name])",
        "the other root": "dist.all_reduce(tensors['grad'])\ndist.broadcast(tensors['scale'], src=1)",
        "a typing mistake": "for name in sorted(nams):\n    calls[name](tensors[name])",
    },
    "data": {
        "as it was": "steps = len(mine)",
        "the most": "steps = torch.tensor(len(mine))\ndist.all_reduce(steps, op=dist.ReduceOp.MAX)",
        "the sum": "steps = torch.tensor(len(mine))\ndist.all_reduce(steps)",
        "none": "steps = 0",
        "too few": "steps = 2\ndist.all_reduce(torch.zeros(1))",
        "asked on one rank only": "steps = torch.tensor(3)\nif rank == 0:\n    dist.all_reduce(steps, op=dist.ReduceOp.MIN)",
    },
    "raised": {
        "as it was": "batch = load()\ngood = torch.ones(1)\ndist.all_reduce(good)",
        "caught, and gone": "good = torch.ones(1)\ntry:\n    load()\n    dist.all_reduce(good)\nexcept OSError:\n    pass",
        "hushed up": "good = torch.ones(1)\ntry:\n    load()\nexcept OSError:\n    pass\ndist.all_reduce(good)",
        "known beforehand": "good = torch.full((1,), world_size - 1.0)",
        "no talk": "good = torch.full((1,), float(rank < world_size - 1))",
    },
    "twins": {
        "as it was": "for name in names:\n    dist.all_reduce(grads[name])",
        "one forgotten": "dist.all_reduce(grads['weight'])",
        "known beforehand": "grads = {'weight': torch.full((4,), 10.0), 'bias': torch.full((4,), 1000.0)}",
        "a flat buffer in the order of arrival": (
            "flat = torch.cat([grads[name] for name in names])\ndist.all_reduce(flat)\n"
            "grads = {'weight': flat[:4], 'bias': flat[4:]}"
        ),
        "swapped everywhere": "for name in sorted(grads):\n    dist.all_reduce(grads[name])\n"
        "grads = {'weight': grads['bias'], 'bias': grads['weight']}",
    },
    "size": {
        "as it was": "dist.all_reduce(batch)\nmean = batch.mean() / world_size",
        "the mean of the means": "mean = batch.mean()\ndist.all_reduce(mean)\nmean = mean / world_size",
        "the sum": "mean = batch.sum()\ndist.all_reduce(mean)",
        "its own": "mean = batch.mean()",
        "four each": "mean = batch.sum()\ndist.all_reduce(mean)\nmean = mean / (4 * world_size)",
    },
}


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [pytest.param(name, text, id=f"{name}: {what}") for name, answers in WRONG.items() for what, text in answers.items()],
)
def test_a_wrong_answer_fails_and_the_world_can_go_on(world: World, exercise: str, answer: str) -> None:
    result = world.run_cell(with_answer(exercise, answer))
    refused(f"09/{exercise}-mended", result, world.diagnose())
    world.recover(force=True)
    assert CHECKS[f"09/{exercise}-mended"](world.run_cell(cell_of(exercise)), world.diagnose())


def test_a_hang_is_answered_with_the_verdict_and_the_way_out(world: World) -> None:
    result = world.run_cell(with_answer("data", WRONG["data"]["as it was"]))
    missing = refused("09/data-mended", result, world.diagnose())
    assert "has finished cell" in missing.what
    assert missing.hint == "world.recover(), then try again"


def test_the_mean_of_the_means_is_named(world: World) -> None:
    result = world.run_cell(with_answer("size", WRONG["size"]["the mean of the means"]))
    assert "is the mean of the ranks' means" in refused("09/size-mended", result, world.diagnose()).what


def test_a_last_line_that_was_changed_is_said(world: World) -> None:
    result = world.run_cell(cell_of("size") + "torch")
    assert "the cell's last line shows" in refused("09/size-mended", result, world.diagnose()).what


def test_two_deadlines(world: World) -> None:
    hangs = []
    for deadline_s in (1.0, 3.0):
        result = world.try_fault("busy-python", deadline_s=deadline_s)
        hangs.append(dataclasses.replace(result, elapsed_s=deadline_s))  # acted ranks take no time
        world.recover()
    short, long = hangs
    assert "the same rank and the same line" in CHECKS["09/timeout"](short, long)
    refused("09/timeout", long, short)
    refused("09/timeout", short, short)
    refused("09/timeout", short, world.run_cell("1"))
    other = dataclasses.replace(world.try_fault("stopped", deadline_s=3.0), elapsed_s=3.0)
    assert "the two verdicts differ" in refused("09/timeout", short, other).what


def status(*states: str, first_pid: int = 5, note: str = "", mode: str = "raw") -> WorldStatus:
    cards = tuple(RankCard(rank, first_pid + rank, "cpu", "gloo", state) for rank, state in enumerate(states))
    return WorldStatus(len(states), "gloo", mode, 2, "fork", cards, note=note)


def test_interrupt() -> None:
    waiting, free = status("in all_reduce #1", "in all_reduce #1", "running cell 4"), status("idle", "idle", "idle")
    assert CHECKS["09/interrupt"](waiting, free).startswith("ranks 0 and 1 were waiting")
    assert refused("09/interrupt", free, free).what == "no rank was waiting before"
    assert refused("09/interrupt", waiting, waiting).what == "ranks 0-2 are not free yet"
    assert refused("09/interrupt", waiting, status("idle", "idle", "idle", note="the groups are broken")).what.endswith("broken")
    assert refused("09/interrupt", waiting, status("idle", "idle", "idle", first_pid=50)).what == "some processes are new"


def test_safe(world: World) -> None:
    names = [fault for fault, ending in SEEN.values() if ending != "slow"]
    world.set_mode("safe")
    results = {name: world.try_fault(name) for name in names}
    assert CHECKS["09/safe"](results, world.status()).startswith("5 of 5 ended as ordinary errors")
    assert "raw mode" in refused("09/safe", results, dataclasses.replace(world.status(), mode="raw")).what
    assert "did not end as an error" in refused("09/safe", {**results, "none": world.run_cell("1")}, world.status()).what
    world.set_mode("raw")
    assert "swapped-order did" in refused("09/safe", {"swapped-order": world.try_fault("swapped-order")}, world.status()).what


# ---- the clinic
RIGHT = (
    {"rank": 1, "line": 5, "kind": "raised"},
    {"rank": 2, "line": 4, "kind": "skipped"},
    {"rank": 0, "line": 8, "kind": "twins"},
)


@pytest.fixture
def seen(world: World) -> Callable[[int], CellResult]:
    return lambda number: world.run_cell(CASES[number].code)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_clinic_takes_the_right_answer(seen: Callable[[int], CellResult], number: int) -> None:
    assert "The verdict is" in CHECKS[f"09/clinic-{number + 1}"](RIGHT[number], seen(number))


@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_clinic_refuses_all_others(seen: Callable[[int], CellResult], number: int) -> None:
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


def test_the_clinic_wants_its_own_run(seen: Callable[[int], CellResult]) -> None:
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
