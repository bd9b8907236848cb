"""Bugs that people reported in public, each as a small cell: what must be said of it, and what must not.

`cases.json` has for each cell of `cells/`: ranks, deadline, what it is about, perhaps where it was seen and what a right
answer says, and regular expressions over the printed result, diagnosis and status. They are loose on purpose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from labkit.driver.current import HOLDER
from labkit.driver.start import start
from labkit.driver.world import World

pytestmark = [pytest.mark.gloo, pytest.mark.timeout(90)]

HERE = Path(__file__).parent
CASES: dict[str, dict[str, Any]] = json.loads((HERE / "cases.json").read_text())
IN_ORDER = sorted(CASES, key=lambda name: (CASES[name]["ranks"], name))  # a world is used for all cases of its size
SUM = "t = torch.ones(3) * (rank + 1); dist.all_reduce(t); assert float(t[0]) == sum(range(1, world_size + 1))"


@pytest.fixture(scope="module")
def world_of() -> Iterator[Callable[[int, str], World]]:
    def make(ranks: int, mode: str) -> World:
        running = HOLDER.world
        if running is not None and running.world_size != ranks:
            running.stop()
        world = start(ranks, "gloo")
        if world.mode != mode:
            world.set_mode(mode)
        return world

    yield make
    HOLDER.close()


def test_every_cell_has_its_case() -> None:
    assert sorted(path.stem for path in (HERE / "cells").glob("*.py")) == sorted(CASES)


@pytest.mark.parametrize("mode", ["raw", "safe"])
@pytest.mark.parametrize("name", IN_ORDER)
def test_what_is_said_leads_to_the_bug(world_of: Callable[[int, str], World], name: str, mode: str) -> None:
    case = CASES[name]
    world = world_of(case["ranks"], mode)
    result = world.run_cell((HERE / "cells" / f"{name}.py").read_text(), deadline_s=case["deadline_s"])
    said = "\n".join(map(str, (result, world.diagnose(), world.status())))
    answer = "\n".join(line for line in said.splitlines() if not line.startswith("    "))  # without what ranks printed or raised
    statuses = [str(outcome.status) for outcome in result.outcomes]
    world.recover()
    assert [outcome.status for outcome in world.run_cell(SUM, deadline_s=15).outcomes] == ["ok"] * case["ranks"]
    assert [wanted for wanted in case.get("must_say", []) if not re.search(wanted, answer, re.IGNORECASE)] == [], said
    assert [wrong for wrong in case.get("must_not_say", []) if re.search(wrong, answer, re.IGNORECASE)] == [], said
    if mode == "safe" and "ends_a_process" not in case:
        assert not {"stuck", "dead"} & set(statuses), said
