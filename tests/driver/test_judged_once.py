"""A look is judged once, and a cell that made no call is not looked at at all."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.driver import ranks as ranks_module
from labkit.testing import Script, call, late, ok


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often the judge was asked, and how often ranks were looked at, beginning after the start of the world."""
    counts = {"judged": 0, "looks": 0}
    judge, look = ranks_module.judge, ranks_module.Ranks.look

    def counting_judge(evidence: Any) -> Any:
        counts["judged"] += 1
        return judge(evidence)

    def counting_look(self: Any, *, ask: bool = True) -> Any:
        counts["looks"] += 1
        return look(self, ask=ask)

    monkeypatch.setattr(ranks_module, "judge", counting_judge)
    monkeypatch.setattr(ranks_module.Ranks, "look", counting_look)
    return counts


def test_a_cell_without_a_call_is_not_looked_at(counted: dict[str, int]) -> None:
    with Script(3).world() as world:
        assert world.run_cell("1").ok
        assert counted == {"judged": 0, "looks": 0}


def test_a_cell_with_calls_is_looked_at_and_judged_once(counted: dict[str, int]) -> None:
    script = Script(3)
    script.on("cell", ok(calls=(call("all_reduce"),)))
    with script.world() as world:
        assert world.run_cell("dist.all_reduce(x)").diagnosis is None
        assert counted == {"judged": 1, "looks": 1}


def test_a_hang_is_judged_as_often_as_it_is_looked_at(counted: dict[str, int]) -> None:
    script = Script(3)
    script.on("cell", {1: late(call("barrier")), 2: late(call("barrier"))})
    with script.world() as world:
        assert world.run_cell("dist.barrier() if rank else None").diagnosis is not None
        assert counted["judged"] == counted["looks"] == 2  # the same must be seen twice
