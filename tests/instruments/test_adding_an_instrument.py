"""The page "Add an instrument in one file", tried word by word on a copy of labkit."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..pages import carry_out, copy, run

KNOWN = """
from labkit.driver.core import INSTRUMENTS
from labkit.testing import Script, ok

script = Script(2)
script.on("peak_memory", {0: ok(7), 1: ok(8)}, always=True)
with script.world() as world:
    assert world.peak_memory() == {0: 7, 1: 8}
    assert "peak_memory" in dir(world) and "peak_memory" in INSTRUMENTS
    try:
        world.peek_memory
    except AttributeError as error:
        assert "did you mean 'peak_memory'?" in str(error), error
"""
ANSWERS = """
from labkit.rank.dispatch import OPS

assert OPS["peak_memory"]() > 1 << 20
"""


def test_the_world_and_the_rank_find_it_by_themselves(root: Path, tmp_path: Path) -> None:
    tree = copy(root, tmp_path, "labkit", "pyproject.toml")
    written = carry_out(root / "docs" / "adding-an-instrument.md", tree)
    assert written == ["labkit/rank/ops/memory.py", "labkit/instruments/memory.py"]
    for code in (KNOWN, ANSWERS):
        ran = run(tree, "-c", code)
        assert ran.returncode == 0, ran.stderr


@pytest.mark.slow
def test_it_is_written_as_the_project_writes(root: Path, tmp_path: Path) -> None:
    tree = copy(root, tmp_path, "labkit", "pyproject.toml")
    written = carry_out(root / "docs" / "adding-an-instrument.md", tree)
    for command in (("ruff", "check", *written), ("mypy",)):
        checked = run(tree, "-m", *command)
        assert checked.returncode == 0, checked.stdout
