"""A cell that ended badly is shown at once if its result is thrown away, and only then."""

from __future__ import annotations

import pytest

from labkit.instruments.unseen import Unseen
from labkit.testing import Script, ok, raises
from labkit.wire import CellResult

BAD = "1 / 0"
SHOWN = {
    "a statement": "world.run_cell(BAD)\nprint('done')",
    "in a loop": "for _ in range(2):\n    world.run_cell(BAD)",
    "in a function": "def go():\n    world.run_cell(BAD)\ngo()",
    "given back and thrown away": "def go():\n    return world.run_cell(BAD)\ngo()",
}
HELD = {
    "a name": "result = world.run_cell(BAD)",
    "an argument": "print(world.run_cell(BAD))",
    "an attribute": "world.run_cell(BAD).ok",
    "given back and kept": "def go():\n    return world.run_cell(BAD)\nresult = go()",
    "a cell that ended well": "world.run_cell('1')",
}


def shown(source: str, mode: str = "exec") -> list[CellResult]:
    """What is shown while this code runs in a notebook; mode "single" is how its last expression is compiled."""
    seen: list[CellResult] = []
    script = Script(2)
    script.on("cell", lambda rank, sent: raises("ZeroDivisionError: no") if sent["code"] == BAD else ok(), always=True)
    with script.world(listeners=[Unseen(seen.append)]) as world:
        exec(compile(source, "notebook", mode), {"world": world, "BAD": BAD})
    return seen


@pytest.mark.parametrize("source", SHOWN.values(), ids=SHOWN)
def test_a_failure_whose_result_is_thrown_away_is_shown(source: str) -> None:
    found = shown(source)
    assert len(found) == (2 if "range(2)" in source else 1)
    assert not found[0].ok


@pytest.mark.parametrize("source", HELD.values(), ids=HELD)
def test_a_result_that_somebody_has_is_not_shown(source: str) -> None:
    assert shown(source) == []


def test_what_the_notebook_displays_is_not_shown_twice(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown("world.run_cell(BAD)", "single") == []
    assert "ZeroDivisionError" in capsys.readouterr().out
