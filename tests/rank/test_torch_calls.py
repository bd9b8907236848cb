"""Everything in torch that moves bytes between ranks is seen by the tap: torch's own tables are walked.

Each entry of a table is either tried here, in a group of one rank, and must leave a line in the beacon; or it is wrapped by
name; or it is on a list of what moves no bytes, with the reason. Something that a new torch brings along fails.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from types import FunctionType
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as funcol
from torch.distributed import distributed_c10d as c10d

from labkit.rank import monitored, torch_calls
from labkit.rank.context import RankContext
from labkit.rank.tap import Tap
from labkit.ring import read_ring
from labkit.wire import Call, CallSite

SEEN_AS_GROUPS = {  # the makers of groups have wrappers of their own (makers.py)
    "new_group", "new_subgroups", "new_subgroups_by_enumeration", "split_group", "init_device_mesh", "destroy_process_group",
    "init_process_group", "shrink_group",
}  # fmt: skip
QUESTION, LOCAL = "answered from what this process knows", "a type, a constant or a setting of this process"
MOVES_NO_BYTES = {
    **dict.fromkeys(
        "get_backend get_backend_config get_backend_impl get_default_backend_for_device get_global_rank get_group_rank "
        "get_node_local_rank get_pg_count get_process_group_ranks get_rank get_world_size is_available is_backend_available "
        "is_gloo_available is_initialized is_mpi_available is_nccl_available is_torchelastic_launched is_ucc_available "
        "is_xccl_available supports_complex get_debug_level".split(),
        QUESTION,
    ),
    **dict.fromkeys(
        "AllToAllOptions AllreduceCoalescedOptions AllreduceOptions Backend BackendConfig BarrierOptions BroadcastOptions "
        "BuiltinCommHookType DebugLevel DeviceMesh DistBackendError DistError DistNetworkError DistStoreError FileStore "
        "GatherOptions GradBucket GroupMember GroupName HashStore Logger P2POp PrefixStore ProcessGroup ProcessGroupGloo "
        "ProcessGroupNCCL ProcessGroupNCCL2 ProcessGroupNCCLLazy QueueEmptyError ReduceOp ReduceOptions ReduceScatterOptions "
        "Reducer ScatterOptions Store TCPStore Work group reduce_op default_pg_timeout timedelta set_debug_level "
        "set_debug_level_from_env set_timeout".split(),
        LOCAL,
    ),
    "breakpoint": "a debugger on one rank; its barrier is a call of its own",
    "record_comm": "names calls in a profile",
    "register_rendezvous_handler": "finds the store; the ranks are not in a group yet",
    "rendezvous": "finds the store; the ranks are not in a group yet",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted({*dist.__all__, *c10d.__all__} if hasattr(dist, "__all__") else c10d.__all__))
def test_each_public_name_is_wrapped_or_moves_no_bytes(name: str) -> None:
    lists = (torch_calls.TAPPED, SEEN_AS_GROUPS, MOVES_NO_BYTES)
    assert sum(name in each for each in lists) == 1, f"{name} is new in torch: does it move bytes between ranks?"


UNPUBLISHED = {
    "_object_to_tensor": "packs an object; the call after it sends it",
    "_tensor_to_object": "unpacks an object; the call before it has brought it",
    "_new_window": "memory that other ranks can read; gloo has none",
}


def test_each_function_that_takes_a_tensor_and_a_group_is_wrapped() -> None:
    """Also what torch does not export, such as `_all_gather_base`."""
    found = {
        name
        for name, made in vars(c10d).items()
        if type(made) is FunctionType
        and made.__module__ == c10d.__name__
        and "group" in (parameters := inspect.signature(made).parameters)
        and any("tensor" in each or each in ("input", "output", "object", "obj", "object_list") for each in parameters)
    }
    assert found >= {"all_reduce", "gather_object", "_all_gather_base"}
    assert found - {*torch_calls.TAPPED, *UNPUBLISHED} == set()


def test_each_hooked_op_has_a_name() -> None:
    """The hook's own list. `SPLIT` makes a group and `NEW_WINDOW` memory that others can read: no bytes move yet."""
    from torch._C import _distributed_c10d

    hooked = {name for name in dir(_distributed_c10d.HookOpName) if name.isupper()}
    named = {torch_calls.op_name(name) for name in hooked - {"UNKNOWN", "SPLIT", "NEW_WINDOW"}}
    coalesced = {name for name in named if name.endswith("_coalesced")}
    assert named - coalesced - set(torch_calls.TAPPED) == set()
    assert {name.removesuffix("_coalesced") for name in coalesced} <= {*torch_calls.TAPPED, "all_gather_into_tensor"}


def test_the_backends_list_of_ops_is_what_the_hooks_have() -> None:
    from torch._C import _distributed_c10d

    kinds = {name.strip("_") for name in _distributed_c10d.OpType.__members__}
    hooked = {name for name in dir(_distributed_c10d.HookOpName) if name.isupper()}
    others = {"RECVANYSOURCE": "RECV", "COALESCED": "a bracket around other ops", "ALLREDUCE_SPARSE": "ALLREDUCE"}
    assert kinds - hooked - set(others) == set()


# ---- each op of C++, tried in a group of one rank
def _x(size: int = 4) -> torch.Tensor:
    return torch.ones(size)


def _group() -> Any:
    return c10d._get_default_group()


def _name() -> str:
    return str(_group().group_name)


_f, _c = torch.ops._c10d_functional, torch.ops.c10d
PG: dict[str, Callable[[Any], Any]] = {
    "allreduce_": lambda pg: pg.allreduce([_x()]),
    "allreduce_coalesced_": lambda pg: pg.allreduce_coalesced([_x(), _x()], c10d.AllreduceCoalescedOptions()),
    "allgather_": lambda pg: pg.allgather([[_x()]], [_x()]),
    "_allgather_base_": lambda pg: pg._allgather_base(_x(), _x()),
    "allgather_coalesced_": lambda pg: pg.allgather_coalesced([[_x()]], [_x()]),
    "allgather_into_tensor_coalesced_": lambda pg: pg.allgather_into_tensor_coalesced([_x()], [_x()]),
    "alltoall_": lambda pg: pg.alltoall([_x()], [_x()]),
    "alltoall_base_": lambda pg: pg.alltoall_base(_x(), _x(), [], []),
    "barrier": lambda pg: pg.barrier(),
    "broadcast_": lambda pg: pg.broadcast([_x()], c10d.BroadcastOptions()),
    "gather_": lambda pg: pg.gather([[_x()]], [_x()], c10d.GatherOptions()),
    "gather_into_tensor_": lambda pg: pg.gather_into_tensor(_x(), _x(), c10d.GatherOptions()),
    "monitored_barrier_": lambda pg: pg.monitored_barrier(timedelta(seconds=5)),
    "reduce_": lambda pg: pg.reduce([_x()], c10d.ReduceOptions()),
    "reduce_scatter_": lambda pg: pg.reduce_scatter([_x()], [[_x()]]),
    "_reduce_scatter_base_": lambda pg: pg._reduce_scatter_base(_x(), _x()),
    "reduce_scatter_tensor_coalesced_": lambda pg: pg.reduce_scatter_tensor_coalesced([_x()], [_x()]),
    "scatter_": lambda pg: pg.scatter([_x()], [[_x()]], c10d.ScatterOptions()),
}
NOT_ON_GLOO = {"gather_into_tensor_"}  # that it was asked is seen
P2P = {"send", "recv_", "recv_any_source_", "isend", "irecv", "batch_p2p_ops"}  # a rank can't send to itself: tests of two ranks
FUNCTIONAL: dict[str, Callable[[str], Any]] = {
    "all_reduce": lambda g: _f.all_reduce(_x(), "sum", g),
    "all_reduce_": lambda g: _f.all_reduce_(_x(), "sum", g),
    "all_reduce_coalesced": lambda g: _f.all_reduce_coalesced([_x()], "sum", g),
    "all_reduce_coalesced_": lambda g: _f.all_reduce_coalesced_([_x()], "sum", g),
    "all_gather_into_tensor": lambda g: _f.all_gather_into_tensor(_x(), 1, g),
    "all_gather_into_tensor_out": lambda g: _f.all_gather_into_tensor_out(_x(), 1, g, out=_x()),
    "all_gather_into_tensor_coalesced": lambda g: _f.all_gather_into_tensor_coalesced([_x()], 1, g),
    "reduce_scatter_tensor": lambda g: _f.reduce_scatter_tensor(_x(), "sum", 1, g),
    "reduce_scatter_tensor_out": lambda g: _f.reduce_scatter_tensor_out(_x(), "sum", 1, g, out=_x()),
    "reduce_scatter_tensor_coalesced": lambda g: _f.reduce_scatter_tensor_coalesced([_x()], "sum", 1, g),
    "all_to_all_single": lambda g: _f.all_to_all_single(_x(), [4], [4], g),
    "broadcast": lambda g: _f.broadcast(_x(), 0, g),
    "broadcast_": lambda g: _f.broadcast_(_x(), 0, g),
}
AUTOGRAD: dict[str, Callable[[str], Any]] = {
    "all_to_all_single": lambda g: torch.ops._c10d_functional_autograd.all_to_all_single(_x(), [4], [4], g),
    "reduce_scatter_tensor": lambda g: torch.ops._c10d_functional_autograd.reduce_scatter_tensor(_x(), "sum", 1, g),
    "all_gather_into_tensor": lambda g: torch.ops._c10d_functional_autograd.all_gather_into_tensor(_x(), 1, g),
}
OPS_WITHOUT_BYTES = {
    "check_for_nan": "looks at this rank's tensor",
    "wait_tensor": "ends a wait; the call before it moved the bytes",
    "wait_tensors": "ends a wait; the call before it moved the bytes",
    "_wrap_tensor_autograd": "gives a tensor the type that waits on its use",
}


def _wait(result: Any) -> None:
    for tensor in result if isinstance(result, list) else [result]:
        _f.wait_tensor(tensor)


def _ops(namespace: str) -> set[str]:
    """What torch has registered in C++, or in Python, under a namespace."""
    return {each.name.split("::")[1] for each in torch._C._jit_get_all_schemas() if each.name.split("::")[0] == namespace}


def _calls(context: RankContext) -> tuple[Call, ...]:
    seen = read_ring(context.run_dir / "rank-0.beacon")
    assert seen is not None
    return seen.calls


@pytest.mark.parametrize("name", sorted(_ops("c10d") - P2P - set(OPS_WITHOUT_BYTES)))
def test_each_op_of_a_group_is_seen(tap: Tap, rank_context: RankContext, name: str) -> None:
    assert name in PG, f"torch.ops.c10d.{name} is new: try it here"
    if name in NOT_ON_GLOO:
        with pytest.raises(RuntimeError, match="does not support"):
            PG[name](_group())
    else:
        PG[name](_group())
    (call,) = _calls(rank_context)
    assert call.site is not None


@pytest.mark.parametrize("name", sorted(_ops("_c10d_functional") - P2P - set(OPS_WITHOUT_BYTES)))
def test_each_functional_op_is_seen(tap: Tap, rank_context: RankContext, name: str) -> None:
    assert name in FUNCTIONAL, f"torch.ops._c10d_functional.{name} is new: try it here"
    _wait(FUNCTIONAL[name](_name()))
    assert len(_calls(rank_context)) == 1


@pytest.mark.parametrize("name", sorted(_ops("_c10d_functional_autograd")))
def test_each_functional_op_with_a_gradient_is_seen(tap: Tap, rank_context: RankContext, name: str) -> None:
    assert name in AUTOGRAD, f"torch.ops._c10d_functional_autograd.{name} is new: try it here"
    _wait(AUTOGRAD[name](_name()))
    assert len(_calls(rank_context)) == 1


# ---- under the name that is on the line
SOURCES = {
    "gather_object": "dist.gather_object('a', [None], dst=0)",
    "all_gather_object": "dist.all_gather_object([None], 'a')",
    "broadcast_object_list": "dist.broadcast_object_list(['a'], src=0)",
    "scatter_object_list": "dist.scatter_object_list([None], ['a'], src=0)",
    "all_gather_single": "dist.all_gather_single(torch.zeros(4), torch.ones(4))",
    "reduce_scatter_single": "dist.reduce_scatter_single(torch.zeros(4), torch.ones(4))",
    "all_gather_tensor": "wait(funcol.all_gather_tensor(torch.ones(4), 0, group))",
    "all_reduce": "wait(funcol.all_reduce(torch.ones(4), 'sum', group))",
    "monitored_barrier": "dist.monitored_barrier()",
}


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", sorted(SOURCES))
def test_a_call_has_the_name_that_its_line_has(tap: Tap, rank_context: RankContext, name: str) -> None:
    names = {"dist": dist, "torch": torch, "funcol": funcol, "wait": funcol.wait_tensor, "group": _group()}
    exec(compile(f"\n{SOURCES[name]}", "cell 7", "exec"), names)
    tap.end_cell()
    tap.close_cell(True)
    seen = _calls(rank_context)
    assert {call.name for call in seen} == {name}
    assert {(call.site, call.state) for call in seen} == {(CallSite("cell 7", 2, "<module>"), "done")}


def _library(source: str) -> dict[str, Any]:
    """What a module of a library's defines."""
    names: dict[str, Any] = {"dist": dist, "torch": torch}
    exec(compile(source, f"{torch.__path__[0]}/some_library.py", "exec"), names)
    return names


def test_a_librarys_call_is_told_by_the_function_that_the_line_calls(tap: Tap, rank_context: RankContext) -> None:
    library = _library(
        "def _norm(x):\n    dist.all_reduce(x)\n"
        "def clip(x):\n    _norm(x)\n"
        "def late(group, x):\n    group.allreduce([x]).wait()\n"
    )
    exec(compile("\nclip(torch.ones(2))\nlate(group, torch.ones(2))", "cell 7", "exec"), {**library, "group": _group()})
    assert [(call.name, call.part, call.site and call.site.line) for call in _calls(rank_context)] == [
        ("all_reduce", "clip", 2), ("all_reduce", "late", 3),
    ]  # fmt: skip


def test_a_call_of_a_librarys_thread_is_at_the_line_that_waits_for_it(tap: Tap, rank_context: RankContext) -> None:
    """autograd has a thread of its own for a GPU; the main thread is in backward() meanwhile."""
    library = _library(
        "import threading\n"
        "def backward(x):\n"
        "    thread = threading.Thread(target=dist.all_reduce, args=(x,))\n    thread.start()\n    thread.join()\n"
    )
    exec(compile("\n\nbackward(torch.ones(2))", "cell 7", "exec"), library)
    (call,) = _calls(rank_context)
    assert call.site == CallSite("cell 7", 3, "<module>")


def test_the_part_of_a_call_that_is_over_is_done_before_the_next_part(tap: Tap, rank_context: RankContext) -> None:
    """A rank that hangs in the second part of gather_object is in the second part."""
    states: list[list[str]] = []
    _group().register_post_hook(99, lambda seen: states.append([call.state for call in _calls(rank_context)]))
    dist.all_gather_object([None], "a")
    assert states == [["issued"], ["done", "issued"]]


def test_coalesced_calls_are_seen_when_their_bracket_ends(tap: Tap, rank_context: RankContext) -> None:
    with c10d._coalescing_manager(_group()):
        dist.all_reduce(_x())
        dist.all_reduce(_x())
    dist.barrier()
    assert [(call.name, call.state) for call in _calls(rank_context)] == [("all_reduce_coalesced", "done"), ("barrier", "done")]


def test_a_reduce_scatter_that_nobody_can_ask_is_over_when_a_later_call_is(tap: Tap, rank_context: RankContext) -> None:
    """gloo's work says "not completed" for ever, and a wait in C++ tells nobody."""
    _group()._reduce_scatter_base(_x(), _x())
    assert [call.state for call in _calls(rank_context)] == ["issued"]
    dist.barrier()
    assert [call.state for call in _calls(rank_context)] == ["done", "done"]


def test_a_reduce_scatter_is_over_when_someone_has_waited_for_it(tap: Tap, rank_context: RankContext) -> None:
    work = dist.reduce_scatter_tensor(_x(), _x(), async_op=True)
    assert work is not None
    assert not work.is_completed()
    tap.open_calls.waited(work)
    assert [call.state for call in _calls(rank_context)] == ["done"]


def test_a_monitored_barrier_counts_in_its_group_and_safe_mode_lets_it_go(tap: Tap, rank_context: RankContext) -> None:
    asked: list[str] = []
    tap.contract = lambda call: asked.append(call.op)  # type: ignore[assignment]
    dist.barrier()
    dist.monitored_barrier()
    _group().monitored_barrier(timedelta(seconds=5))
    assert [(call.name, call.seq, call.state) for call in _calls(rank_context)] == [
        ("barrier", 1, "done"), (monitored.OP, 2, "done"), (monitored.OP, 3, "done"),
    ]  # fmt: skip
    assert asked == ["barrier"]
