"""The page on schedules: its examples run, and its table says what the catalogue says."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from labkit.driver.current import HOLDER
from labkit.schedule import ALGORITHMS, COLLECTIVES

LIVE = "## Breaking one"  # from here on the page starts ranks


def run_examples(text: str) -> doctest.TestResults:
    test = doctest.DocTestParser().get_doctest(text, {}, "schedules.md", "schedules.md", 0)
    return doctest.DocTestRunner().run(test)


def test_the_examples_run(root: Path) -> None:
    before, heading, after = (root / "docs" / "schedules.md").read_text(encoding="utf-8").partition(LIVE)
    result = run_examples(before)
    assert heading
    assert "labkit.start(" in after
    assert result.attempted >= 8
    assert not result.failed


@pytest.mark.gloo
def test_the_examples_on_live_ranks_run(root: Path) -> None:
    HOLDER.close()
    text = (root / "docs" / "schedules.md").read_text(encoding="utf-8").partition(LIVE)[2]
    try:
        result = run_examples(text)
    finally:
        HOLDER.close()
    assert result.attempted >= 9
    assert not result.failed


def test_every_row_of_the_table_is_in_the_catalogue(root: Path) -> None:
    text = (root / "docs" / "schedules.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+) \| (.+) \| (.+) \|$", text, flags=re.M)
    made = [
        (each.name, COLLECTIVES[each.collective].title, each.formulas.steps, each.formulas.sent) for each in ALGORITHMS.values()
    ]
    assert len(rows) == len(set(rows)) >= 17
    assert set(rows) <= set(made)
