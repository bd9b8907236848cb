"""What the kernel remembers of cells, for ranks that have to learn it again."""

from __future__ import annotations

from labkit.driver.restoring import History
from labkit.wire import CellResult, Outcome


def test_a_text_that_runs_often_is_kept_once_at_its_newest_place() -> None:
    history = History()
    for number, source in enumerate(["import os", "x = 1", "import os", "y = 2", ""], start=1):
        history.note(CellResult(number, (Outcome(0), Outcome(1, "error"))), source)
    history.note(CellResult(4, (Outcome(0, "error"),)), "y = 2")
    assert history.cells(0) == [(2, "x = 1", True), (3, "import os", True), (4, "y = 2", True)]
    assert [ran_well for _, _, ran_well in history.cells(1)] == [False] * 3
    assert history.cells(2) == []
