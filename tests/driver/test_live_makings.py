"""Ranks that wait while they make a process group are named and freed, with all of their variables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from labkit.driver.world import World

pytestmark = pytest.mark.gloo

MEMBERS_ONLY = (
    "if rank in (0, 2):\n"
    "    pair = dist.new_group([0, 2])\n"
    "    dist.all_reduce(torch.ones(2), group=pair)\n"
    "dist.barrier()\n"
    "team = dist.new_group([0, 1, 2])\n"
)


@pytest.mark.parametrize("mode", ["raw", "safe"])
def test_a_group_made_by_its_members_only(world_of: Callable[..., World], mode: str) -> None:
    world = world_of(3, mode)
    world.run_cell("kept = 40 + rank")
    result = world.run_cell(MEMBERS_ONLY, deadline_s=8)
    assert result.diagnosis is not None
    verdict = result.diagnosis.verdict
    assert verdict is not None
    assert verdict.code == "LK020"
    assert "ranks 0 and 2 called new_group([0, 2])" in verdict.sentence
    assert "line 2" in verdict.sentence
    report = world.recover()
    assert report.replaced == ()
    after = world.run_cell("team = dist.new_group([0, 1, 2]); x = torch.ones(1); dist.all_reduce(x, group=team); kept")
    assert [outcome.shown.text for outcome in after.outcomes if outcome.shown] == ["40", "41", "42"]


def test_the_end_of_the_groups_is_in_the_status(world_of: Callable[..., World]) -> None:
    world = world_of(3, "raw")
    world.run_cell("if rank == 1:\n    dist.destroy_process_group()")
    assert "rank 1 ended all process groups" in world.status().note
    world.recover()
    assert world.run_cell("x = torch.ones(1); dist.all_reduce(x); del dist, torch").ok
    world.recover()
    assert world.run_cell("x = torch.ones(1); dist.all_reduce(x)").ok
