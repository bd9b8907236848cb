"""Every lab, run as CI runs it, and its record held against what the lab says it does.

That no cell raised proves little: a cell that should hang and does not raises nothing either. The
record is the proof, and the copies at the end show that it can't be had without the fault, without
the solutions, or without the last cell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labkit.labrecord import shortcomings
from labkit.labs import has_solution, source_of, without_solutions

LABS = Path(__file__).resolve().parent.parent.parent / "labs"
FIRST = LABS / "01-every-rank-the-same.ipynb"
pytestmark = [pytest.mark.labs, pytest.mark.timeout(300)]
Runner = Callable[..., Any]


# Guesses at a time or a speed, or at what is quickest: those of the solutions may be off, too.
MEASURED = {"00/deadline", "02/live", "03/sweep", "03/held-out", "03/crossing", "03/thousand", "03/across"}


def predicted(notebook: dict[str, Any]) -> set[str]:
    return {name for cell in notebook["cells"] for name in re.findall(r'lab\.predict\("([^"]+)"', source_of(cell))}


def read(path: Path) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(path.read_text())
    return notebook


def runs() -> list[Any]:
    found = []
    for path in sorted(LABS.glob("[0-9]*.ipynb")):
        found += [pytest.param(path, ranks, id=f"{path.stem}-{ranks}") for ranks in read(path)["metadata"]["labkit"]["ranks"]]
    return found


@pytest.mark.parametrize(("path", "ranks"), runs())
def test_a_lab_runs_and_its_record_proves_it(path: Path, ranks: int, run_lab: Runner) -> None:
    notebook = read(path)
    run = run_lab(notebook, path.stem, ranks)
    assert run.failed == (), run.output[-3000:]
    record = run.record
    assert record is not None
    assert (record.lab, record.world_size, record.num_processes) == (path.stem, ranks, ranks)
    assert shortcomings(record, notebook["metadata"]["labkit"]["faults"]) == ()
    assert record.checks
    assert {guess.name for guess in record.guesses} == predicted(notebook)
    assert [guess.name for guess in record.guesses if guess.told is None or guess.told.fit == "incomparable"] == []
    measured = [guess.name for guess in record.guesses if guess.told and guess.told.fit != "right"]
    assert set(measured) <= MEASURED, "a solution's guess at a count is right"
    assert record.timings["total_s"] < 60 * notebook["metadata"]["labkit"]["minutes"]
    assert len(record.processes) > ranks
    assert (run.alive, run.folders) == ((), ())


def changed(notebook: dict[str, Any], change: Callable[[dict[str, Any]], str]) -> dict[str, Any]:
    return {**notebook, "cells": [{**cell, "source": change(cell)} for cell in notebook["cells"]]}


def test_a_copy_without_its_fault_passes_nbval_and_not_the_record(run_lab: Runner) -> None:
    def without_fault(cell: dict[str, Any]) -> str:
        return "\n".join(line for line in source_of(cell).splitlines() if not line.startswith("world.inject("))

    run = run_lab(changed(read(FIRST), without_fault), FIRST.stem, 2)
    assert run.failed == (), run.output[-3000:]
    assert shortcomings(run.record, ["swapped-order"]) == ("fault swapped-order did not fire",)


@pytest.mark.parametrize("path", sorted(LABS.glob("[0-9]*.ipynb")), ids=lambda path: path.stem)
def test_a_copy_without_solutions_fails_at_its_exercises_and_nowhere_else(path: Path, run_lab: Runner) -> None:
    notebook = read(path)
    exercises = [cell for cell in notebook["cells"] if has_solution(cell)]
    run = run_lab(without_solutions(notebook), path.stem, min(notebook["metadata"]["labkit"]["ranks"]))
    needy = [cell for cell in notebook["cells"] if "needs-exercise" in cell["metadata"].get("tags", ())]  # they call a solution
    assert sorted(run.failed) == sorted(cell["id"] for cell in [*exercises, *needy]), run.output[-3000:]
    asked = {name for cell in exercises for name in re.findall(r'lab\.check\("([^"]+)"', source_of(cell))}
    assert asked
    assert set(run.record.open_checks) == asked
    assert (run.alive, run.folders) == ((), ())


def test_a_killed_kernel_leaves_its_last_state_and_no_process(run_lab: Runner) -> None:
    notebook = read(FIRST)
    ids = [cell["id"] for cell in notebook["cells"]]
    run = run_lab({**notebook, "cells": notebook["cells"][: ids.index("check-sum") + 1]}, FIRST.stem, 2)
    assert run.failed == (), run.output[-3000:]
    record = run.record
    assert not record.finished
    assert record.seen("all_reduce").ranks == (0, 1)
    assert [check.name for check in record.checks if check.passed] == ["01/processes", "01/sum"]
    assert "it was not finished" in shortcomings(record)
    assert (run.alive, run.folders) == ((), ())
