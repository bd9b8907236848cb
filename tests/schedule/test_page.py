"""The page on schedules: its examples run, and its table says what the catalogue says."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from labkit.schedule import ALGORITHMS, COLLECTIVES


def test_the_examples_run(root: Path) -> None:
    result = doctest.testfile(str(root / "docs" / "schedules.md"), module_relative=False, encoding="utf-8")
    assert result.attempted > 8
    assert not result.failed


def test_every_row_of_the_table_is_in_the_catalogue(root: Path) -> None:
    text = (root / "docs" / "schedules.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+) \| (.+) \| (.+) \|$", text, flags=re.M)
    made = [
        (each.name, COLLECTIVES[each.collective].title, each.formulas.steps, each.formulas.sent) for each in ALGORITHMS.values()
    ]
    assert len(rows) == len(set(rows)) >= 17
    assert set(rows) <= set(made)
