"""What every fault of the catalogue must keep to; a new fault is covered by being there."""

from __future__ import annotations

import ast
import contextlib
import math
import re
import subprocess
import sys
from typing import Any

import pytest
import torch

from labkit.diagnosis import RULES
from labkit.errors import UnknownName, UsageError
from labkit.faults import FAULTS, Fault, Interceptor, LeaveCell, PlannedFault
from labkit.faults.base import ENDINGS

QUICK: dict[str, dict[str, Any]] = {
    "holds-gil": {"seconds": 0.01},
    "busy-python": {"seconds": 0.01},
    "slow": {"delay_s": 0.0},
}
every_fault = pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))


@pytest.fixture(autouse=True)
def no_signals(monkeypatch: pytest.MonkeyPatch, rank: Any) -> None:
    monkeypatch.setattr("os.kill", lambda pid, number: rank.tape.append(f"signal {int(number)}"))


def arm(fault: Fault, rank: Any, at: int = 1) -> Interceptor:
    return fault.arm(rank, at=at, **QUICK.get(fault.name, {}))


def go(interceptor: Interceptor, rank: Any, call: Any) -> Any:
    with contextlib.suppress(PlannedFault, LeaveCell):
        return interceptor.around(call, rank.issue)


def cell(rank: Any) -> list[Any]:
    """Calls among which every fault finds one it can apply to."""
    x = [torch.arange(8.0) + step for step in range(4)]
    return [
        rank.call("all_reduce", x[0]),
        rank.call("all_reduce", tensor=x[1]),
        rank.call("broadcast", x[2], src=0),
        rank.call("all_reduce", x[3]),
        rank.call("isend", torch.arange(8.0), 0),
        rank.call("all_to_all_single", torch.arange(8.0), torch.arange(8.0)),
        rank.call("barrier", group="team"),
        rank.call("new_group", [0]),
    ]


def tensors(call: Any) -> list[torch.Tensor]:
    return [value for value in (*call.args, *call.kwargs.values()) if isinstance(value, torch.Tensor)]


def test_the_catalogue() -> None:
    assert set(FAULTS) >= {
        "swapped-order", "swapped-twins", "skipped-collective", "rank-raises", "killed", "stopped", "holds-gil",
        "busy-python", "slow", "shape-mismatch", "dtype-mismatch", "reduce-op-mismatch", "root-mismatch",
        "leaves-early", "extra-collective",
    }  # fmt: skip


def test_reading_the_catalogue_loads_no_torch() -> None:
    code = "import sys; from labkit.faults import FAULTS; assert len(FAULTS) and 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_an_unknown_fault_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'swapped-order'"):
        FAULTS["swaped-order"]


@every_fault
def test_texts(fault: Fault) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", fault.name)
    assert 10 < len(fault.title) < 80
    assert not fault.title.endswith(".")
    sentences = re.split(r"(?<=[.!?]) ", fault.teaches)
    assert 3 <= len(sentences) <= 6
    assert all(20 < len(sentence) < 260 for sentence in sentences)
    assert "Here " in fault.teaches, "one sentence says what this fault does, and what it is in real life"
    assert fault.teaches.endswith(".")
    assert fault.cure.endswith(".")
    assert len(fault.cure) > 40
    assert "  " not in fault.teaches + fault.cure


@every_fault
def test_demo_is_a_rank_cell(fault: Fault) -> None:
    tree = ast.parse(fault.demo)
    assert len(fault.demo.splitlines()) <= 10
    assert isinstance(tree.body[-1], ast.Expr), "the last line shows the result"
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert {"rank", "torch", "dist"} <= names


@every_fault
def test_expectations(fault: Fault) -> None:
    assert set(fault.expect) == {"raw", "safe"}
    declared = [*fault.expect.values(), *([fault.in_schedule] if fault.in_schedule is not None else [])]
    for expectation in declared:
        assert expectation.ending in ENDINGS
        assert expectation.ending != "none"
        assert expectation.codes
        assert set(expectation.codes) <= set(RULES)
    assert fault.replaces_rank or fault.expect["raw"].ending != "abort"


@every_fault
def test_params_are_checked(fault: Fault) -> None:
    assert fault.defaults["at"] == 1
    assert fault.check({}) == fault.defaults
    assert all(param.text for param in fault.params.values())
    for bad in (0, -1, 1.5, "1", True, None):
        with pytest.raises(UsageError, match="at"):
            fault.check({"at": bad})
    with pytest.raises(UnknownName, match="did you mean 'at'"):
        fault.check({"att": 1})
    for name, param in fault.params.items():
        wrong = ["never"] if param.choices else [math.nan, "x"]
        wrong += [param.high * 2] if param.high is not None else []
        for value in wrong:
            with pytest.raises(UsageError, match=name):
                fault.check({name: value})


@every_fault
def test_fires_once_and_first_of_all(fault: Fault, rank: Any) -> None:
    interceptor = arm(fault, rank)
    assert isinstance(interceptor, Interceptor)
    for call in cell(rank) + cell(rank):
        go(interceptor, rank, call)
    interceptor.end_of_cell()
    assert rank.tape.count("fired") == 1
    first = rank.tape.index("fired")
    assert not [entry for entry in rank.tape[:first] if entry.startswith("signal")]


@every_fault
def test_other_calls_pass_unchanged(fault: Fault, rank: Any) -> None:
    rank.answer = lambda call: call.number
    interceptor = arm(fault, rank, at=len(cell(rank)) + 1)
    rank.restart()
    early, late = cell(rank), cell(rank)
    for call in early:
        assert interceptor.around(call, rank.issue) == call.number
    assert all(a is b for a, b in zip(rank.issued, early, strict=True))
    assert "fired" not in rank.tape
    for call in late:
        go(interceptor, rank, call)
    interceptor.end_of_cell()
    rank.issued.clear()
    for call in cell(rank):
        assert interceptor.around(call, rank.issue) == call.number
        assert rank.issued[-1] is call


@every_fault
def test_the_learners_tensors_and_calls_are_not_touched(fault: Fault, rank: Any) -> None:
    interceptor = arm(fault, rank)
    calls = cell(rank)
    before = [each.clone() for call in calls for each in tensors(call)]
    for call in calls:
        go(interceptor, rank, call)
    for now, was in zip([each for call in calls for each in tensors(call)], before, strict=True):
        assert torch.equal(now, was), "an issue that does nothing leaves every tensor as it was"


def move(rank: Any, kind: str, **more: Any) -> Any:
    """A move of a schedule, as the runner gives it to the faults."""
    out, came = {"dst": 0}, {"src": 2, "op": "SUM"}
    if kind == "sendrecv":
        return rank.call(kind, input_tensor=torch.arange(4.0), output_tensor=torch.zeros(4), **out, **came, **more)
    return rank.call(kind, tensor=torch.arange(4.0), **(out if kind == "send" else came), **more)


@every_fault
def test_a_fault_that_applies_to_schedules_acts_on_one_move(fault: Fault, rank: Any) -> None:
    interceptor = arm(fault, rank, at=2)
    assert interceptor.in_schedules == (fault.in_schedule is not None)
    if fault.in_schedule is None:
        return
    first, second, third = (move(rank, kind) for kind in ("sendrecv", "recv", "sendrecv"))
    interceptor.around(first, rank.issue)
    assert [call is first for call in rank.issued] == [True]
    assert "fired" not in rank.tape
    go(interceptor, rank, second)
    assert rank.tape.count("fired") == 1
    interceptor.around(third, rank.issue)
    assert rank.issued[-1] is third


@every_fault
def test_end_of_cell_can_come_twice(fault: Fault, rank: Any) -> None:
    interceptor = arm(fault, rank)
    interceptor.end_of_cell()
    go(interceptor, rank, cell(rank)[0])
    interceptor.end_of_cell()
    tape = list(rank.tape)
    interceptor.end_of_cell()
    assert rank.tape == tape


@every_fault
def test_every_call_form_is_survived(fault: Fault, rank: Any) -> None:
    """No form makes a fault raise anything but what it means to raise."""
    t, u, parts = torch.arange(4.0), torch.zeros(16), [torch.zeros(4) for _ in range(4)]
    for op, args, kwargs in [
        ("barrier", (), {}), ("all_gather", (parts, t), {}), ("all_gather_into_tensor", (u, t), {"async_op": True}),
        ("reduce_scatter_tensor", (t, u), {}), ("reduce_scatter", (t, parts), {}), ("all_to_all_single", (u, u), {}),
        ("all_to_all", (parts, parts), {}), ("reduce", (t, 0), {}), ("gather", (t,), {"dst": 0}), ("gather", (t, parts, 1), {}),
        ("scatter", (t,), {"src": 0}), ("send", (t, 0), {}), ("recv", (t, 0), {}), ("recv", (t,), {}), ("isend", (t, 0), {}),
        ("broadcast", (t,), {"group_src": 0}), ("broadcast", (t, 0, None, True), {}), ("all_reduce", (torch.tensor(1),), {}),
        ("batch_isend_irecv", ([],), {}), ("broadcast_object_list", ([1],), {"src": 0}), ("monitored_barrier", (), {}),
    ]:  # fmt: skip
        interceptor = arm(fault, rank, at=1)
        go(interceptor, rank, rank.call(op, *args, **kwargs))
        interceptor.end_of_cell()
