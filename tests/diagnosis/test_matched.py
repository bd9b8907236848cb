"""Calls of different lines that were matched in a cell that ended well: a slip is noted, a branch that is meant is not."""

from __future__ import annotations

import pytest

from labkit.diagnosis import judge
from labkit.diagnosis.matched import matched_with_others
from labkit.notes import gather

from .cells import run_cells

SKIPPED = """
for step in range(4):
    dist.all_reduce()
    if not (rank == 1 and step == 1):
        dist.all_reduce()
if rank == 1:
    dist.all_reduce()
"""
EXTRA = """
def part():
    dist.all_reduce()
for step in range(4):
    part()
    if rank == 2 and step == 1:
        part()
    dist.all_reduce()
if rank != 2:
    dist.all_reduce()
"""
MEANT = {
    "two arms": "dist.barrier()\nfor step in range(6):\n    if (step + rank) % 2:\n        dist.all_reduce()\n"
    "    else:\n        dist.all_reduce()",
    "a first call of its own": "if rank == 0:\n    dist.all_reduce()\nfor _ in range(5):\n    dist.all_reduce()\n"
    "if rank != 0:\n    dist.all_reduce()",
    "arms of other lengths": "for step in range(6):\n    if rank == 0:\n        dist.all_reduce()\n        dist.all_reduce()\n"
    "    else:\n        for _ in range(2): dist.all_reduce()",
    "the same everywhere": "for _ in range(5):\n    dist.all_reduce()",
}  # fmt: skip


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize(("source", "rank", "line", "words"), [(SKIPPED, 1, 5, "skipped"), (EXTRA, 2, 3, "once more than")])
def test_what_was_left_out_or_made_once_more_is_noted(source: str, rank: int, line: int, words: str, ranks: int) -> None:
    if rank >= ranks:
        return
    evidence = run_cells(source, ranks).evidence()
    assert judge(evidence) == ()
    (note,) = gather({rank: [found] for rank, found in matched_with_others(evidence).items()}, range(ranks))
    assert (note.kind, note.place) == ("other-lines", f"cell 7, line {line}")
    assert note.ranks == ((rank,) if ranks > 2 else note.ranks)
    assert words in note.sentence or ranks == 2
    assert "4 calls are matched" in note.sentence or "5 calls are matched" in note.sentence


@pytest.mark.parametrize("name", sorted(MEANT))
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_branch_that_is_meant_is_no_slip(name: str, ranks: int) -> None:
    assert matched_with_others(run_cells(MEANT[name], ranks).evidence()) == {}
