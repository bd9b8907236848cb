"""What the single faults do to a call, on a fake tap."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

from labkit.faults import FAULTS, LeaveCell, PlannedFault


class Work:
    def __init__(self, on_wait: Any = None) -> None:
        self.waits, self._on_wait = 0, on_wait

    def wait(self, *timeout: Any) -> bool:
        self.waits += 1
        if self._on_wait:
            self._on_wait()
        return True

    def is_completed(self) -> bool:
        return self.waits > 0


def two(rank: Any, **kwargs: Any) -> tuple[Any, Any]:
    return rank.call("all_reduce", torch.ones(4), **kwargs), rank.call("broadcast", torch.ones(4), src=0, **kwargs)


# ---- the swaps
def test_swap_issues_the_held_call_right_after_with_its_own_line(rank: Any) -> None:
    swap = FAULTS["swapped-order"].arm(rank)
    first, second = two(rank)
    assert swap.around(first, rank.issue) is None
    swap.around(second, rank.issue)
    assert rank.tape == ["fired", "broadcast", "all_reduce"]
    assert rank.issued[1] is first
    assert rank.issued[1].site.line == 1


def test_a_held_call_with_nothing_after_it_goes_at_the_end_of_the_cell(rank: Any) -> None:
    swap = FAULTS["swapped-order"].arm(rank)
    swap.around(two(rank)[0], rank.issue)
    assert rank.issued == []
    swap.end_of_cell()
    swap.end_of_cell()
    assert rank.tape == ["fired", "all_reduce"]


def test_swap_of_asynchronous_calls_gives_both_callers_their_work(rank: Any) -> None:
    works = {"all_reduce": Work(), "broadcast": Work()}
    rank.answer = lambda call: works[call.op]
    swap = FAULTS["swapped-order"].arm(rank)
    first, second = two(rank, async_op=True)
    held = swap.around(first, rank.issue)
    assert not held.is_completed()
    assert rank.tape == []
    assert swap.around(second, rank.issue) is works["broadcast"]
    assert rank.tape == ["fired", "broadcast", "all_reduce"]
    assert held.wait()
    assert works["all_reduce"].waits == 1
    assert held.is_completed()
    assert len(rank.issued) == 2


def test_waiting_before_the_next_call_swaps_nothing_and_the_fault_waits_on(rank: Any) -> None:
    rank.answer = lambda call: Work()
    swap = FAULTS["swapped-order"].arm(rank)
    swap.around(two(rank, async_op=True)[0], rank.issue).wait()
    assert rank.tape == ["all_reduce"]
    first, second = two(rank)
    swap.around(first, rank.issue)
    swap.around(second, rank.issue)
    assert rank.tape == ["all_reduce", "fired", "broadcast", "all_reduce"]


def test_if_the_call_that_goes_first_fails_the_held_one_is_dropped(rank: Any) -> None:
    def refuse(call: Any) -> Any:
        raise RuntimeError("refused")

    swap = FAULTS["swapped-order"].arm(rank)
    first, second = two(rank, async_op=True)
    held = swap.around(first, rank.issue)
    rank.answer = refuse
    with pytest.raises(RuntimeError, match="refused"):
        swap.around(second, rank.issue)
    swap.end_of_cell()
    assert rank.tape == ["fired", "broadcast"]
    with pytest.raises(RuntimeError, match="never issued: refused"):
        held.wait()


def test_a_held_call_does_not_outlive_a_cell_that_failed(rank: Any) -> None:
    swap = FAULTS["swapped-order"].arm(rank)
    swap.around(two(rank)[0], rank.issue)
    later = rank.call("barrier")
    later.cell = 2
    swap.around(later, rank.issue)
    swap.end_of_cell()
    assert rank.tape == ["fired", "barrier"]


def test_twins_must_look_alike(rank: Any) -> None:
    swap = FAULTS["swapped-twins"].arm(rank)
    x, y, longer = torch.ones(4), torch.ones(4), torch.ones(5)
    rank.answer = lambda call: Work()
    for tensor in (x, longer, longer, y, x):
        swap.around(rank.call("all_reduce", tensor, async_op=True), rank.issue)
    order = [call.number for call in rank.issued]
    assert order == [1, 2, 3, 5, 4]
    assert rank.tape.count("fired") == 1


# ---- calls left out, made twice, replaced by an exception
def test_skip_gives_the_caller_what_it_expects(rank: Any) -> None:
    skip = FAULTS["skipped-collective"]
    t = torch.ones(4)
    assert skip.arm(rank).around(rank.call("all_reduce", t), rank.issue) is None
    assert skip.arm(rank).around(rank.call("all_reduce", t, async_op=True), rank.issue).wait()
    assert skip.arm(rank).around(rank.call("all_reduce", t, dist.ReduceOp.SUM, None, True), rank.issue).is_completed()
    assert skip.arm(rank).around(rank.call("isend", t, 0), rank.issue).wait()
    assert skip.arm(rank).around(rank.call("recv", t, 3), rank.issue) == 3
    assert rank.issued == []


def test_extra_issues_twice(rank: Any) -> None:
    FAULTS["extra-collective"].arm(rank).around(rank.call("barrier"), rank.issue)
    assert rank.tape == ["fired", "barrier", "barrier"]


def test_raise_and_leave(rank: Any) -> None:
    with pytest.raises(RuntimeError, match=r"planned fault: rank 1 raised instead of call 1, barrier") as caught:
        FAULTS["rank-raises"].arm(rank).around(rank.call("barrier"), rank.issue)
    assert caught.type is PlannedFault
    with pytest.raises(LeaveCell):
        FAULTS["leaves-early"].arm(rank).around(rank.call("barrier"), rank.issue)
    assert not issubclass(LeaveCell, Exception), "a learner's `except Exception` must not swallow it"
    assert rank.issued == []


# ---- other arguments
@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((dist.ReduceOp.SUM,), {}), ((), {"op": dist.ReduceOp.SUM}), ((), {"op": dist.ReduceOp(dist.ReduceOp.AVG)})],
)
def test_reduce_op_is_found_wherever_it_stands(rank: Any, args: Any, kwargs: Any) -> None:
    fault = FAULTS["reduce-op-mismatch"].arm(rank)
    fault.around(rank.call("all_reduce", torch.ones(2), *args, **kwargs), rank.issue)
    issued = rank.issued[0]
    assert (issued.args[1] if len(issued.args) > 1 else issued.kwargs["op"]) == dist.ReduceOp.MAX


def test_reduce_op_that_is_already_there_waits(rank: Any) -> None:
    fault = FAULTS["reduce-op-mismatch"].arm(rank)
    for op in ("broadcast", "all_reduce", "reduce_scatter_tensor"):
        fault.around(rank.call(op, torch.ones(2), **({"op": dist.ReduceOp.MAX} if op == "all_reduce" else {})), rank.issue)
    assert rank.tape == ["broadcast", "all_reduce", "fired", "reduce_scatter_tensor"]


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [((0,), {}, 1), ((), {"src": 0}, 1), ((1,), {}, 2), ((), {"group_src": 3}, 1), ((), {"group_src": 1}, 2)],
)
def test_another_root(rank: Any, args: Any, kwargs: Any, expected: int) -> None:
    FAULTS["root-mismatch"].arm(rank).around(rank.call("broadcast", torch.ones(2), *args, **kwargs), rank.issue)
    issued = rank.issued[0]
    assert [*issued.args[1:], *issued.kwargs.values()] == [expected]
    assert issued.kwargs.keys() == kwargs.keys()


@pytest.mark.parametrize(("size", "numel"), [("smaller", 3), ("larger", 12)])
def test_another_size_and_the_result_comes_back(rank: Any, size: str, numel: int) -> None:
    def reduce(call: Any) -> None:
        assert call.args[0].numel() == numel
        call.args[0].mul_(10)

    rank.answer = reduce
    x = torch.arange(6.0).view(3, 2).t()  # not contiguous
    was = x.clone().flatten()
    fault = FAULTS["shape-mismatch"].arm(rank, size=size)
    fault.around(rank.call("barrier"), lambda call: None)
    fault.around(rank.call("all_reduce", torch.ones(1)), lambda call: None)
    fault.around(rank.call("all_reduce", x), rank.issue)
    count = min(numel, 6)
    assert torch.equal(x.flatten()[:count], was[:count] * 10)
    assert torch.equal(x.flatten()[count:], was[count:])


@pytest.mark.parametrize(
    ("dtype", "width", "expected"),
    [
        ("float32", "half", "float16"),
        ("float32", "double", "float64"),
        ("int64", "half", "int32"),
        ("bfloat16", "double", "float32"),
    ],
)
def test_another_width_in_all_the_tensors_of_a_call(rank: Any, dtype: str, width: str, expected: str) -> None:
    wanted = getattr(torch, expected)

    def gather(call: Any) -> Work:
        out, mine = call.args
        assert mine.dtype == wanted
        assert all(part.dtype == wanted for part in out)
        return Work(lambda: [part.copy_(mine) for part in out])

    rank.answer = gather
    t = torch.arange(4).to(getattr(torch, dtype))
    parts = [torch.zeros_like(t) for _ in range(4)]
    fault = FAULTS["dtype-mismatch"].arm(rank, width=width)
    work = fault.around(rank.call("all_gather", parts, t, async_op=True), rank.issue)
    assert not any(part.any() for part in parts)
    assert work.wait()
    assert all(torch.equal(part, t) for part in parts)


def test_a_leaf_that_needs_a_gradient_can_be_replaced(rank: Any) -> None:
    weight = torch.ones(4, requires_grad=True)
    FAULTS["dtype-mismatch"].arm(rank).around(rank.call("broadcast", weight, 0), rank.issue)
    assert rank.issued[0].args[0].dtype == torch.float16
    assert weight.is_leaf
    assert weight.requires_grad
