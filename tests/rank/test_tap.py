"""What the tap sees of a call: its beacon line, its number, its end, and who may step in between. One rank, in this process."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

from labkit.errors import ContractError
from labkit.faults.base import Interceptor
from labkit.makings import OUTSIDE
from labkit.rank import tap as tap_module
from labkit.rank.context import RankContext
from labkit.rank.tap import PendingCall, Tap, pass_through
from labkit.ring import read_ring
from labkit.wire import Call, CallSite


def calls(context: RankContext) -> tuple[Call, ...]:
    seen = read_ring(context.run_dir / "rank-0.beacon")
    assert seen is not None
    return seen.calls


def run(source: str, **names: Any) -> dict[str, Any]:
    names |= {"dist": dist, "torch": torch}
    exec(compile(source, "cell 7", "exec"), names)
    return names


def test_a_call_with_all_that_the_learner_said(tap: Tap, rank_context: RankContext) -> None:
    run("x = torch.ones(2, 3)\ndist.all_reduce(x, op=dist.ReduceOp.MAX)")
    (call,) = calls(rank_context)
    assert (call.op, call.seq, call.group, call.group_ranks, call.state) == ("all_reduce", 1, "world", (0,), "done")
    assert (call.shape, call.dtype, call.num_bytes, call.reduce_op, call.root) == ((2, 3), "float32", 24, "max", -1)
    assert (call.site, call.cell, call.async_op) == (CallSite("cell 7", 2, "<module>"), 7, False)
    assert call.returned_s >= call.issued_s > 0


@pytest.mark.parametrize(
    ("source", "op", "reduce_op", "root"),
    [
        ("dist.all_reduce(x)", "all_reduce", "sum", -1),
        ("dist.reduce(x, 0, dist.ReduceOp.MIN)", "reduce", "min", 0),
        ("dist.broadcast(x, src=0)", "broadcast", "", 0),
        ("dist.all_gather([torch.zeros(4)], x)", "all_gather", "", -1),
        ("dist.all_gather_into_tensor(torch.zeros(4), x)", "all_gather_into_tensor", "", -1),
        ("dist.gather(x, [torch.zeros(4)], dst=0)", "gather", "", 0),
        ("dist.scatter(x, [torch.zeros(4)], src=0)", "scatter", "", 0),
        ("dist.reduce_scatter_tensor(torch.zeros(4), x, dist.ReduceOp.PRODUCT)", "reduce_scatter_tensor", "product", -1),
        ("dist.all_to_all_single(torch.zeros(4), x)", "all_to_all_single", "", -1),
        ("dist.barrier()", "barrier", "", -1),
    ],
)
def test_each_collective_by_its_name(
    tap: Tap, rank_context: RankContext, source: str, op: str, reduce_op: str, root: int
) -> None:
    run(f"x = torch.ones(4)\n{source}")
    (call,) = calls(rank_context)
    assert (call.op, call.reduce_op, call.root, call.state) == (op, reduce_op, root, "done")
    assert call.site == CallSite("cell 7", 2, "<module>")


def test_calls_are_numbered_by_group(tap: Tap, rank_context: RankContext) -> None:
    group = dist.new_group([0])
    assert isinstance(group, dist.ProcessGroup)
    tap.watch(group, "1 (0)", (0,))
    run("for _ in range(2): dist.all_reduce(torch.ones(1))\ndist.all_reduce(torch.ones(1), group=group)", group=group)
    assert [(call.index, call.group, call.seq) for call in calls(rank_context)] == [
        (1, "world", 1),
        (2, "world", 2),
        (3, "1 (0)", 1),
    ]


def test_an_asynchronous_call_is_done_when_a_sweep_finds_it_so(tap: Tap, rank_context: RankContext) -> None:
    work = run("work = dist.all_reduce(torch.ones(1), async_op=True)")["work"]
    assert [(call.async_op, call.state) for call in calls(rank_context)] == [(True, "issued")]
    work.wait()
    tap.end_cell()
    assert [call.state for call in calls(rank_context)] == ["done"]


def test_a_collective_that_is_made_of_collectives_counts_as_its_parts_at_one_line(tap: Tap, rank_context: RankContext) -> None:
    run("\n\ndist.all_gather_object([None], {'a': 1})")
    seen = calls(rank_context)
    assert {call.site for call in seen} == {CallSite("cell 7", 3, "<module>")}
    assert {call.state for call in seen} == {"done"}
    assert len(seen) == 2  # the sizes, and what is sent


def test_what_torch_turns_down_is_invalid(tap: Tap, rank_context: RankContext) -> None:
    """It has cost no other rank a partner, so no rank is blamed for it."""
    with pytest.raises(RuntimeError, match="invalid root rank: 5"):
        run("dist.broadcast(torch.ones(1), src=5)")
    run("dist.all_reduce(torch.ones(1))")
    assert [(call.op, call.state) for call in calls(rank_context)] == [("broadcast", "invalid"), ("all_reduce", "done")]


def test_a_call_on_a_group_that_the_rank_is_not_in_is_kept(tap: Tap, rank_context: RankContext) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run("dist.all_reduce(torch.ones(2), group=dist.GroupMember.NON_GROUP_MEMBER)\ndist.barrier()")
    outside, barrier = calls(rank_context)
    assert (outside.op, outside.group, outside.state, outside.site) == (
        "all_reduce",
        OUTSIDE,
        "invalid",
        CallSite("cell 7", 1, "<module>"),
    )
    assert (barrier.op, barrier.seq, barrier.state) == ("barrier", 1, "done")


def test_a_refused_call_is_not_counted_and_not_issued(tap: Tap, rank_context: RankContext) -> None:
    seen: list[bool] = []

    def refuse(call: Call) -> None:
        seen.append(tap.in_contract)
        raise ContractError("the ranks do not agree", hint="mend the cell")

    tap.contract = refuse
    tensor = torch.ones(2)
    with pytest.raises(ContractError):
        run("dist.all_reduce(tensor)", tensor=tensor)
    tap.contract = None
    run("dist.all_reduce(tensor)", tensor=tensor)
    assert [(call.seq, call.state) for call in calls(rank_context)] == [(1, "refused"), (1, "done")]
    assert (seen, tap.in_contract) == ([True], False)


def test_the_contract_is_asked_before_the_call(tap: Tap, rank_context: RankContext) -> None:
    asked: list[tuple[str, str]] = []
    tap.contract = lambda call: asked.append((call.op, calls(rank_context)[-1].state))
    run("dist.all_reduce(torch.ones(1))")
    assert asked == [("all_reduce", "issued")]


class Recorder(Interceptor):
    """Notes what passes, and may change it."""

    def __init__(self, name: str, log: list[str], change: Callable[[PendingCall], None] = lambda call: None) -> None:
        self.name, self.log, self.change = name, log, change

    def around(self, call: Any, issue: Callable[[Any], Any]) -> Any:
        self.log.append(f"{self.name} {call.op} {call.number} in cell {call.cell}, line {call.site.line}")
        self.change(call)
        result = issue(call)
        self.log.append(f"{self.name} after")
        return result

    def end_of_cell(self) -> None:
        self.log.append(f"{self.name} ends")


def test_interceptors_are_passed_in_order_and_see_what_the_learner_asked(tap: Tap, rank_context: RankContext) -> None:
    log: list[str] = []
    tap.interceptors += [Recorder("a", log), Recorder("b", log)]
    run("dist.barrier()\ndist.barrier()")
    assert log[:4] == ["a barrier 1 in cell 7, line 1", "b barrier 1 in cell 7, line 1", "b after", "a after"]
    assert log[4] == "a barrier 2 in cell 7, line 2"
    tap.end_cell()
    assert log[-2:] == ["a ends", "b ends"]
    tap.begin_cell()
    run("dist.barrier()")
    assert "a barrier 1" in log[-4], "numbers begin anew in each cell"


def test_an_interceptor_may_call_something_else(tap: Tap, rank_context: RankContext) -> None:
    def change(call: PendingCall) -> None:
        call.op, call.kwargs = "all_reduce", {"op": dist.ReduceOp.MIN}

    tap.interceptors.append(Recorder("a", [], change))
    run("dist.broadcast(torch.ones(1), src=0)")
    assert [(call.op, call.reduce_op) for call in calls(rank_context)] == [("all_reduce", "min")]


def test_an_interceptor_may_hold_a_call_back(tap: Tap, rank_context: RankContext) -> None:
    class Holds(Interceptor):
        def around(self, call: Any, issue: Callable[[Any], Any]) -> Any:
            return "held"

    pending = PendingCall("barrier", (), {}, None, 1, 7)
    assert pass_through([Holds()], pending, lambda call: "issued") == "held"
    assert pass_through([], pending, lambda call: "issued") == "issued"
    tap.interceptors.append(Holds())
    assert run("x = dist.barrier()")["x"] == "held"
    assert calls(rank_context) == ()


def test_a_second_install_does_not_wrap_twice(tap: Tap, rank_context: RankContext) -> None:
    before = dist.all_reduce
    tap.install()
    assert dist.all_reduce is before
    assert dist.all_reduce.__name__ == "all_reduce"


def test_p2p_ops_can_still_be_made(tap: Tap) -> None:
    """torch compares their function with the one in its own module."""
    made = dist.P2POp(dist.isend, torch.ones(1), 0)
    assert made.op is dist.isend


def test_what_the_picture_needs_is_kept_before_the_call(tap: Tap) -> None:
    tensor = torch.tensor([2.0, 3.0])
    run("dist.all_reduce(tensor)", tensor=tensor)
    found = tap.samples.of(tensor)
    assert found is not None
    assert (found[0], found[1].tolist()) == ("all_reduce", [2.0, 3.0])


def test_a_call_outside_of_the_learners_code_has_no_line(tap: Tap, rank_context: RankContext) -> None:
    """C++ (DDP's buckets) calls the group itself: the hook alone sees it."""
    from torch.distributed import distributed_c10d as c10d

    group = c10d._get_default_group()
    work = run("work = group.allreduce([torch.ones(3)])", group=group)["work"]
    work.wait()
    tap.end_cell()
    (call,) = calls(rank_context)
    assert (call.op, call.shape, call.reduce_op, call.state) == ("all_reduce", (3,), "", "done")


def test_a_new_generation_forgets_what_was_open(tap: Tap, rank_context: RankContext) -> None:
    run("work = dist.all_reduce(torch.ones(1), async_op=True)")["work"].wait()
    tap.forget()
    tap.end_cell()
    assert [call.state for call in calls(rank_context)] == ["issued"]


def test_an_interrupt_before_the_call_does_not_hide_the_calls_after_it(
    tap: Tap, rank_context: RankContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may land while the tensors are sampled; the next call would then count as a part of the one that never was."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(tap.samples, "take", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run("dist.all_reduce(torch.ones(4))")
    run("\ndist.reduce(torch.ones(4), 0, dist.ReduceOp.MIN)")
    (call,) = calls(rank_context)
    assert (call.op, call.reduce_op, call.site) == ("reduce", "min", CallSite("cell 7", 2, "<module>"))


def test_a_new_cell_begins_outside_of_any_call(tap: Tap, rank_context: RankContext) -> None:
    tap._here.call = object()  # an interrupt can land anywhere, also where nothing cleans up
    tap.begin_cell()
    run("dist.all_reduce(torch.ones(4))")
    assert [call.reduce_op for call in calls(rank_context)] == ["sum"]


def test_what_join_calls_for_ddp_is_no_bucket_of_an_older_model(
    tap: Tap, rank_context: RankContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the size of a bucket, and a model that nobody uses any more waits for its first one."""
    old = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    for part, said in (("DDP's join", "DDP's join"), ("", "DDP's gradient bucket 0 (weight, bias)")):
        monkeypatch.setattr(tap_module, "find_part", lambda frame, part=part: ("", part))
        dist.group.WORLD.allreduce([torch.zeros(5)]).wait()
        assert calls(rank_context)[-1].part == said
    del old
