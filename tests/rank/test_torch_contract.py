"""What labkit's ranks use of torch and IPython without a promise that it stays: each part is named here and tried.

`PARTS` names the private ones. A new one in labkit/rank fails until it has an entry, and so a test, of its own.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import weakref
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from labkit.rank import torch_calls
from labkit.rank.notes.not_waited import WAITS

RANK = Path(__file__).resolve().parents[2] / "labkit" / "rank"

# what is read -> (the files of labkit/rank that read it, the test here that tries it)
PARTS = {
    "c10d._get_default_group": ({"groups.py", "makers.py", "channel.py"}, "test_the_default_group_and_its_backend"),
    "group._get_backend": ({"channel.py"}, "test_the_default_group_and_its_backend"),
    "c10d._world": ({"backends/nccl.py", "groups.py", "makers.py", "remaking.py"}, "test_every_group_is_in_the_worlds_map"),
    "backend._start_coalescing": ({"channel.py"}, "test_sends_can_be_coalesced"),
    "backend._end_coalescing": ({"channel.py"}, "test_sends_can_be_coalesced"),
    "backend._allgather_base": ({"channel.py"}, "test_the_backends_own_collectives"),
    "backend._reduce_scatter_base": ({"channel.py"}, "test_the_backends_own_collectives"),
    "getattr(handle, 'flat_param', None)._fqns": ({"parts.py"}, "test_fsdp_knows_its_modules"),
    "group._module_fqn": ({"parts.py"}, "test_fsdp_knows_its_modules"),
    "reducer._get_zeros_like_grad_buckets": ({"buckets.py"}, "test_ddps_reducer_knows_its_buckets"),
    "tensor._base": ({"overlap.py"}, "test_a_view_knows_its_base"),
    "tensor._version": ({"notes/not_waited.py"}, "test_a_tensor_counts_its_changes"),
    "tensor._use_count": ({"notes/thrown_away.py"}, "test_a_tensor_and_its_memory_know_how_many_refer_to_them"),
    "torch._C._storage_Use_Count": ({"notes/thrown_away.py"}, "test_a_tensor_and_its_memory_know_how_many_refer_to_them"),
    "storage._cdata": ({"notes/thrown_away.py", "saving.py"}, "test_a_tensor_and_its_memory_know_how_many_refer_to_them"),
    "obj._untyped_storage": ({"saving.py"}, "test_a_typed_storage_has_its_memory"),
    "obj._comm_hooks": ({"saving.py"}, "test_ddp_keeps_its_hooks"),
    "wrapper._comm_hooks": ({"remaking.py"}, "test_ddp_keeps_its_hooks"),
    "wrapper._delay_all_reduce_params": ({"remaking.py"}, "test_ddp_keeps_what_its_buckets_leave_out"),
    "torch._dynamo": ({"forkserver.py"}, "test_the_module_that_the_fork_server_loads_early"),
}
OF_PYTHON = {"sys._getframe", "sys._current_frames", "sys._current_exceptions", "os._exit"}  # documented
# distributed_c10d is a module of torch's that its documentation does not name
OF_C10D = {
    "_get_default_group", "_world", "all_reduce", "init_process_group", "destroy_process_group", "new_group", "is_initialized",
    "AllreduceOptions", "BroadcastOptions", "ReduceOptions", "AllgatherOptions", "ReduceScatterOptions", "AllToAllOptions",
}  # fmt: skip


def _reads() -> Iterator[tuple[str, str]]:
    """(file, "owner.name") of every attribute that is read, and of every module that is imported, in labkit/rank."""
    for path in sorted(RANK.rglob("*.py")):
        file = path.relative_to(RANK).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                owner = node.value
                yield file, f"{owner.attr if isinstance(owner, ast.Attribute) else ast.unparse(owner)}.{node.attr}"
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "setattr"):
                if isinstance(node.args[1], ast.Constant):
                    yield file, f"{ast.unparse(node.args[0])}.{node.args[1].value}"
            elif isinstance(node, ast.Import):
                yield from ((file, name.name) for name in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                yield from ((file, f"{node.module}.{name.name}") for name in node.names)


def _private(name: str) -> bool:
    owner, _, last = name.rpartition(".")
    ours = owner in ("self", "cls", "super()", "__future__") or "labkit" in owner
    return not ours and last.startswith("_") and not last.startswith("__")


def test_every_private_part_is_named_where_it_is_used() -> None:
    found: dict[str, set[str]] = {}
    for file, name in _reads():
        if _private(name) and name not in OF_PYTHON:
            found.setdefault(name, set()).add(file)
    assert found == {name: files for name, (files, _) in PARTS.items()}


@pytest.mark.parametrize("name", sorted({test for _, test in PARTS.values()}))
def test_every_part_has_a_test(name: str) -> None:
    assert callable(globals()[name])


def test_what_is_used_of_the_module_without_documentation() -> None:
    found = {name.partition(".")[2] for _, name in _reads() if name.startswith("c10d.")}
    assert found == OF_C10D
    assert [name for name in sorted(found) if not hasattr(c10d, name)] == []


# ---- tensors
def test_a_tensor_counts_its_changes(alone: Any) -> None:
    """A collective changes it as well, and is not counted: what is counted is the learner's."""
    tensor = torch.ones(2)
    before = tensor._version
    dist.all_reduce(tensor)
    dist.all_reduce(tensor, async_op=True).wait()
    assert tensor._version == before
    tensor += 1
    assert tensor._version == before + 1


def test_a_tensor_and_its_memory_know_how_many_refer_to_them() -> None:
    tensor = torch.ones(4)
    storage = tensor.untyped_storage()
    alone = torch._C._storage_Use_Count(storage._cdata)
    assert tensor._use_count() == 1
    part = tensor[1:]
    assert torch._C._storage_Use_Count(storage._cdata) == alone + 1
    del part
    parameter = torch.nn.Parameter(torch.ones(1))
    (parameter * 2).sum().backward()
    assert parameter.grad is not None
    assert parameter.grad._use_count() == 2


def test_a_handle_can_be_listened_to(alone: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its methods can be replaced, and it can be referred to weakly."""
    asked: list[str] = []
    wait = dist.Work.wait
    monkeypatch.setattr(dist.Work, "wait", lambda work, *args: (asked.append("wait"), wait(work, *args))[1])
    work = dist.all_reduce(torch.ones(1), async_op=True)
    assert isinstance(work, dist.Work)
    known = weakref.ref(work)
    work.wait()
    assert asked == ["wait"]
    del work
    assert known() is None
    for name in WAITS:
        assert callable(getattr(dist.Work, name))


# ---- groups and backends
def test_the_default_group_and_its_backend(alone: Any) -> None:
    assert not inspect.signature(c10d._get_default_group).parameters
    backend = alone._get_backend(torch.device("cpu"))
    tensor = torch.ones(2)
    work = backend.allreduce([tensor], c10d.AllreduceOptions())
    work.wait()
    assert (tensor.tolist(), work.is_completed()) == ([1.0, 1.0], True)
    for name in ("send", "recv", "broadcast", "reduce", "alltoall_base"):
        assert callable(getattr(backend, name))


def test_every_group_is_in_the_worlds_map(alone: Any) -> None:
    """Recovery of NCCL aborts each of them; and torch counts how many groups a rank has made."""
    count = c10d._world.group_count
    other = dist.new_group([0])
    assert c10d._world.group_count == count + 1
    c10d._world.group_count = 40  # a group that is made again has its old name
    assert dist.new_group([0]).group_name == "40"
    assert {id(alone), id(other)} <= {id(group) for group in c10d._world.pg_map}
    assert callable(dist.ProcessGroup.abort)


def test_sends_can_be_coalesced(alone: Any) -> None:
    """NCCL's backend does it; gloo's says that it can't, which shows that the method is there and takes no argument."""
    backend = alone._get_backend(torch.device("cpu"))
    for name in ("_start_coalescing", "_end_coalescing"):
        with pytest.raises(RuntimeError, match="Backend gloo does not implement"):
            getattr(backend, name)()


def test_the_backends_own_collectives(alone: Any) -> None:
    """In the order of `labkit.rank.channel`: where the result goes, what goes in, options."""
    backend = alone._get_backend(torch.device("cpu"))
    for name, options in (("_allgather_base", c10d.AllgatherOptions()), ("_reduce_scatter_base", c10d.ReduceScatterOptions())):
        result = torch.zeros(3)
        getattr(backend, name)(result, torch.full((3,), 5.0), options).wait()
        assert result.tolist() == [5.0] * 3, name


def test_fsdp_knows_its_modules() -> None:
    from torch.distributed.fsdp import _flat_param, _runtime_utils
    from torch.distributed.fsdp._fully_shard import _fsdp_param_group

    from labkit.rank import parts

    assert "self._module_fqn" in inspect.getsource(_fsdp_param_group.FSDPParamGroup)
    assert [name for name in parts.FSDP2 if not hasattr(_fsdp_param_group.FSDPParamGroup, name)] == []
    functions = {**vars(_runtime_utils), **vars(_flat_param.FlatParamHandle)}
    assert [name for name in parts.FSDP1 if name not in functions] == []
    assert "_fqns" in inspect.getsource(_flat_param.FlatParamHandle)


def test_ddps_reducer_knows_its_buckets(alone: Any) -> None:
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 3))
    for _ in range(2):
        model(torch.ones(1, 2)).sum().backward()
    (bucket,) = model.reducer._get_zeros_like_grad_buckets()
    assert {id(parameter) for parameter in bucket.parameters()} == {id(parameter) for parameter in model.parameters()}


def test_ddp_keeps_its_hooks(alone: Any) -> None:
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 3))
    assert model._comm_hooks == []
    model.register_comm_hook("state", allreduce_hook)
    assert model._comm_hooks == [(allreduce_hook, "state")]


def test_ddp_keeps_what_its_buckets_leave_out(alone: Any) -> None:
    """A wrapper with such parameters is named as lost, since it can't be made again as it was."""
    layer = torch.nn.Linear(2, 3)
    late = torch.nn.parallel.DistributedDataParallel(
        layer, delay_all_reduce_named_params=[("bias", layer.bias)], param_to_hook_all_reduce=layer.weight
    )
    assert [id(one) for one in late._delay_all_reduce_params] == [id(layer.bias)]
    assert not torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 3))._delay_all_reduce_params


def test_a_typed_storage_has_its_memory() -> None:
    tensor = torch.ones(3)
    memory = tensor.untyped_storage()
    typed = torch.storage.TypedStorage(wrap_storage=memory, dtype=tensor.dtype, _internal=True)
    assert typed._untyped_storage.data_ptr() == memory.data_ptr()


def test_a_view_knows_its_base() -> None:
    whole = torch.zeros(4)
    assert whole[:2]._base is whole
    assert whole._base is None


def test_the_module_that_the_fork_server_loads_early() -> None:
    assert importlib.util.find_spec("torch._dynamo") is not None


def test_groups_are_made_with_these_arguments() -> None:
    made = inspect.signature(c10d.init_process_group).parameters
    assert {"backend", "store", "rank", "world_size", "timeout", "device_id"} <= set(made)
    assert list(inspect.signature(c10d.new_group).parameters)[:2] == ["ranks", "timeout"]
    assert timedelta(seconds=1) < c10d.default_pg_timeout


# ---- hooks: what a process group tells of its calls
def test_the_hooks_see_every_call_before_and_after(alone: Any) -> None:
    seen: list[tuple[Any, ...]] = []
    alone.register_pre_hook(
        1, lambda call: seen.append((str(call.name), call.op_id, call.async_op, call.root, call.input_tensors[0].tolist()))
    )
    alone.register_post_hook(1, lambda call: seen.append((str(call.name), call.op_id, call.work.is_completed())))
    dist.all_reduce(torch.ones(2))
    assert [(one[0], one[1]) for one in seen] == [("HookOpName.ALLREDUCE", seen[0][1])] * 2
    assert seen[0][2:] == (False, -1, [1.0, 1.0])


def test_a_hook_that_raises_stops_the_call(alone: Any) -> None:
    """Safe mode refuses a call so."""

    def refuse(call: Any) -> None:
        raise ValueError("not this one")

    alone.register_pre_hook(1, refuse)
    tensor = torch.ones(2)
    with pytest.raises(ValueError, match="not this one"):
        dist.broadcast(tensor, 0)


def test_each_hooked_op_has_labkits_name() -> None:
    """A new kind of call in torch would pass under a name that no rule knows."""
    names = {name for name in dir(type(_first_hook_name())) if name.isupper()}
    labkits = {torch_calls.op_name(name) for name in names}
    known = {*torch_calls.TAPPED, "unknown", "split", "new_window"}  # the last two make groups and windows, and move no data
    variants = {name for name in labkits if name.endswith("_coalesced")}
    assert labkits - variants - known == set()


def _first_hook_name() -> Any:
    from torch._C import _distributed_c10d

    return next(value for name, value in vars(_distributed_c10d.HookOpName).items() if name == "ALLREDUCE")


# ---- the Python functions that are wrapped
@pytest.mark.parametrize("name", torch_calls.TAPPED)
def test_each_tapped_function_is_there(name: str) -> None:
    assert callable(getattr(dist, name))


@pytest.mark.parametrize(("name", "place"), sorted(torch_calls.REDUCE_OP_AT.items()))
def test_the_reduce_op_stands_where_the_tap_looks(name: str, place: int) -> None:
    assert list(inspect.signature(getattr(dist, name)).parameters)[place] == "op"


def test_reduce_ops_have_names_and_a_type() -> None:
    assert isinstance(dist.ReduceOp.SUM, dist.ReduceOp.RedOpType)
    assert {"SUM", "AVG", "MAX", "MIN", "PRODUCT"} <= set(dist.ReduceOp.RedOpType.__members__)


def test_p2p_op_looks_its_two_ops_up_in_its_own_module() -> None:
    source = inspect.getsource(c10d._check_op)
    assert "isend" in source
    assert "irecv" in source


# ---- IPython
def test_what_a_rank_uses_of_ipython() -> None:
    from ipykernel.ipkernel import IPythonKernel
    from ipykernel.zmqshell import ZMQInteractiveShell
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    assert shell.transform_cell("!true\n").startswith("get_ipython()")
    data, _ = shell.display_formatter.format(3, include={"text/plain", "text/html"})
    assert data == {"text/plain": "3"}
    assert isinstance(shell.user_ns, dict)
    assert ZMQInteractiveShell.class_traits().keys() >= {"kernel"}
    source = inspect.getsource(importlib.import_module("ipykernel.kernelbase"))
    for name in ("self.shell_handlers[", "self.control_handlers[", "self.session.send("):
        assert name in source, name
    assert "session" in IPythonKernel.class_traits()
