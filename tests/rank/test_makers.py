"""The functions that make and end process groups leave a line in the beacon, before torch begins with them."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.errors import ContractError
from labkit.makings import OF_ALL, OF_MEMBERS
from labkit.rank.context import RankContext
from labkit.rank.makers import GroupMakers
from labkit.rank.tap import Tap
from labkit.ring import read_ring
from labkit.wire import Call

NAMES = ("new_group", "split_group", "init_process_group", "destroy_process_group")


@pytest.fixture
def makers(tap: Tap, rank_context: RankContext, monkeypatch: pytest.MonkeyPatch) -> GroupMakers:
    import torch.distributed as dist
    from torch.distributed import device_mesh
    from torch.distributed import distributed_c10d as c10d

    for module in (dist, c10d, device_mesh):
        for name in NAMES:
            if hasattr(module, name):
                monkeypatch.setattr(module, name, getattr(module, name))
    made = GroupMakers(rank_context, tap)
    made.install()
    return made


def seen(context: RankContext) -> list[Call]:
    state = read_ring(context.run_dir / "rank-0.beacon")
    assert state is not None
    return list(state.calls)


def run(text: str) -> dict[str, Any]:
    import torch
    import torch.distributed as dist

    names: dict[str, Any] = {"dist": dist, "torch": torch}
    exec(compile(text, "cell 7", "exec"), names)
    return names


def test_a_new_group_is_a_call_with_its_members_and_its_line(makers: GroupMakers, rank_context: RankContext) -> None:
    from torch.distributed import distributed_c10d as c10d

    number = c10d._world.group_count
    run("x = 1\ng = dist.new_group([0])\ndist.all_reduce(torch.ones(2), group=g)")
    made, reduced = seen(rank_context)
    assert (made.op, made.group, made.group_ranks, made.seq, made.state) == ("new_group", OF_ALL, (0,), number, "done")
    assert str(made.site) == "cell 7, line 2"
    assert reduced.group == f"{number} (0)"


def test_what_makes_groups_is_named(makers: GroupMakers, rank_context: RankContext) -> None:
    run("dist.new_subgroups(1)")
    run("dist.init_device_mesh('cpu', (1, 1))")
    run("dist.new_group([0], use_local_synchronization=True)")
    first, *_, last = seen(rank_context)
    assert (first.op, first.asked) == ("new_group", "new_subgroups")
    assert (last.group, last.asked) == (OF_MEMBERS, "")
    assert {call.asked for call in seen(rank_context)[1:-1]} <= {"init_device_mesh"}


def test_what_torch_turns_down_has_cost_no_rank_a_partner(makers: GroupMakers, rank_context: RankContext) -> None:
    with pytest.raises(ValueError, match="out of range"):
        run("dist.new_group([5])")
    (call,) = seen(rank_context)
    assert call.state == "invalid"


def test_safe_mode_asks_before_torch_begins(makers: GroupMakers, rank_context: RankContext, tap: Tap) -> None:
    asked: list[tuple[str, tuple[int, ...]]] = []

    def refuse(call: Call, among: tuple[int, ...] = ()) -> None:
        asked.append((call.op, among))
        raise ContractError("other members")

    tap.contract = refuse
    with pytest.raises(ContractError):
        run("dist.new_group([0])")
    assert asked == [("new_group", (0,))]
    assert seen(rank_context)[-1].state == "refused"


def test_the_end_of_all_groups_is_noted(makers: GroupMakers, rank_context: RankContext) -> None:
    run("g = dist.new_group([0])\ndist.destroy_process_group(g)")
    assert [call.op for call in seen(rank_context)] == ["new_group"]
    run("dist.destroy_process_group()\ndist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)")
    assert [call.op for call in seen(rank_context)][1:] == ["destroy_process_group", "init_process_group"]
