"""Schedules in words: the short form reads back, and steps are explained in plain words."""

from __future__ import annotations

import pytest

from labkit.errors import UsageError
from labkit.schedule import ALGORITHMS, explain, from_text, to_text


@pytest.mark.parametrize("world_size", [1, 2, 5, 8])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_short_form_reads_back(name: str, world_size: int) -> None:
    schedule = ALGORITHMS[name].schedule(world_size)
    again = from_text(to_text(schedule))
    assert list(again.steps()) == list(schedule.steps())
    assert [step.phase for step in again.steps()] == [step.phase for step in schedule.steps()]
    assert (again.name, again.collective, again.world_size, again.num_chunks, again.root) == (
        schedule.name, schedule.collective, schedule.world_size, schedule.num_chunks, schedule.root,
    )  # fmt: skip


def test_a_long_schedule_can_be_cut() -> None:
    lines = to_text(ALGORITHMS["ring"].schedule(8), max_steps=2).splitlines()
    assert len(lines) == 4
    assert lines[-1] == "... 12 more steps"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "this text is not a schedule"),
        ("ring on 4 ranks", "the first line is like"),
        ("r: all_reduce ranks=2 chunks=1 root=0\n0 x: 0>1", "not a step: '0 x: 0>1'"),
        ("r: all_reduce ranks=2 chunks=1 root=0\n0 x:", "not a step"),
        ("r: all_reduce ranks=2 chunks=1 root=0\n0 x: 0>2+0", "rank 0 can't send to rank 2"),
        ("r: all_reduce ranks=2 chunks=1 root=0\n0 x (often): 0>1+0", "no kind of sending 'often'"),
    ],
)
def test_a_text_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        from_text(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "world_size", "step", "words"),
    [
        ("ring", 4, 3, "Step 3 (4 of 6), all-gather: every rank sends one chunk to the rank on its right, which copies it."),
        ("everyone", 5, 1, "every rank sends the whole tensor as it was at the start to the rank 2 places on, which adds it."),
        ("naive", 3, 0, "one rank sends the whole tensor, and the receiver adds it. Rank 1 sends its tensor to rank 0."),
        ("recursive-doubling", 4, 0, "2 pairs of ranks exchange the whole tensor; each adds it."),
        ("halving-doubling", 4, 0, "exchange 2 chunks; each adds them. Rank 0 sends chunks 2 to 3 to rank 2"),
        ("recursive-halving", 6, 1, "exchange some chunks; each adds them."),
        ("binomial-broadcast", 4, 1, "2 ranks send the whole tensor, and each receiver copies it."),
        ("double-tree", 4, 3, "(added)"),
        ("unchunked-ring", 3, 1, "Rank 0 sends what it was handed last to rank 1"),
        ("ring", 64, 0, "and 56 more."),
    ],
)
def test_a_step_is_explained(name: str, world_size: int, step: int, words: str) -> None:
    assert words in explain(ALGORITHMS[name].schedule(world_size), step)
