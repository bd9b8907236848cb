"""After FSDP, DTensor, a pipeline and DDP nothing is open in the books, and a fault in a later cell gets its verdict."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from labkit.driver.world import World

pytestmark = [pytest.mark.gloo, pytest.mark.timeout(150)]

WorldMaker = Callable[..., World]

MODEL = """
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
mesh = init_device_mesh("cpu", (world_size,))
def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
def steps(model, count=2):
    for _ in range(count):
        model(torch.randn(4, 8)).pow(2).mean().backward()
"""
LIBRARIES = {
    "fsdp2": """
from torch.distributed.fsdp import fully_shard
model = net()
for layer in (model[0], model[2], model):
    fully_shard(layer, mesh=mesh)
steps(model)
""",
    "fsdp1": """
from torch.distributed.fsdp import FullyShardedDataParallel
steps(FullyShardedDataParallel(net(), device_id=torch.device("cpu")))
""",
    "dtensor": """
from torch.distributed.tensor import DTensor, Partial, Shard, distribute_tensor
rows = distribute_tensor(torch.arange(12.0).reshape(6, 2), mesh, [Shard(0)])
rows.full_tensor(), rows.sum().full_tensor()
DTensor.from_local(torch.ones(6, 2), mesh, [Partial()]).redistribute(mesh, [Shard(0)])
""",
    "pipeline": """
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
pair = dist.new_group([0, 1])
if rank < 2:
    stage = PipelineStage(nn.Linear(4, 4), rank, 2, torch.device("cpu"), group=pair)
    schedule = ScheduleGPipe(stage, 2, loss_fn=lambda out, target: (out - target).pow(2).mean())
    schedule.step(torch.ones(4, 4)) if rank == 0 else schedule.step(target=torch.ones(4, 4))
""",
    "ddp": """
steps(nn.parallel.DistributedDataParallel(net(), bucket_cap_mb=0.0005), 3)
""",
}
FAULTS = {
    "skip": ("if rank != 1:\n    dist.all_reduce(torch.ones(2))", ("LK007", "LK009"), "line 2"),
    "raise": ("if rank == 1:\n    raise ValueError('bad batch')\ndist.barrier()", ("LK003",), "line 2"),
    "busy": ("import time\nif rank == 1:\n    time.sleep(6)\ndist.barrier()", ("LK010",), "line 3"),
    "killed": ("import os\nif rank == 1:\n    os.kill(os.getpid(), 9)\ndist.barrier()", ("LK001",), "line 4"),
}


def run_libraries(world: World) -> None:
    for name, code in LIBRARIES.items():
        result = world.run_cell(MODEL + code, deadline_s=30)
        assert result.ok, f"{name}: {result}"
        seen = world.core.look()
        open_calls = {view.rank: [str(call) for call in view.calls if call.state == "issued"] for view in seen.ranks}
        assert open_calls == {0: [], 1: [], 2: []}, name
        assert {card.state for card in world.status().cards} == {"idle"}, name


@pytest.mark.parametrize("mode", ["raw", "safe"])
def test_a_fault_after_the_libraries_gets_its_verdict(world_of: WorldMaker, mode: str) -> None:
    world = world_of(3, mode)
    for fault, (code, codes, line) in FAULTS.items():
        run_libraries(world)
        result = world.run_cell(code, deadline_s=3)
        assert result.diagnosis is not None, fault
        verdict = result.diagnosis.verdict
        assert verdict is not None, fault
        assert verdict.code in codes, f"{fault}: {verdict}"
        assert verdict.culprits == (1,), f"{fault}: {verdict}"
        assert line in str(verdict), f"{fault}: {verdict}"
        assert "reduce_scatter" not in str(world.status()), fault
        world.recover()


def test_calls_of_ddp_and_fsdp_say_what_they_are_for(world_of: WorldMaker) -> None:
    world = world_of(3)
    for name in ("ddp", "fsdp2", "dtensor"):
        world.run_cell(MODEL + LIBRARIES[name], deadline_s=30)
    calls = world.core.look().ranks[0].calls
    assert {(call.part, call.step) for call in calls if call.op == "all_reduce" and call.part} == {
        ("DDP's gradient bucket 0 (0.weight, 0.bias, 2.weight, 2.bias)", 1),
        ("DDP's gradient bucket 0 (2.bias, 2.weight)", 2), ("DDP's gradient bucket 1 (0.bias, 0.weight)", 2),
        ("DDP's gradient bucket 0 (2.bias, 2.weight)", 3), ("DDP's gradient bucket 1 (0.bias, 0.weight)", 3),
    }  # fmt: skip
    parts = {call.part for call in calls}
    assert parts >= {"DDP's construction", "FSDP's all-gather of module 2", "FSDP's reduce-scatter of module 0"}
    assert "full_tensor" in {call.name for call in calls}


def test_a_step_of_ddp_that_one_rank_leaves_out_is_told_by_its_bucket(world_of: WorldMaker) -> None:
    world = world_of(3)
    assert world.run_cell(MODEL + "model = nn.parallel.DistributedDataParallel(net())", deadline_s=30).ok
    result = world.run_cell("steps(model, 2 if rank != 2 else 1)\ndist.barrier()", deadline_s=8)
    assert result.diagnosis is not None
    assert "DDP's" in str(result.diagnosis.verdict)
    assert result.diagnosis.verdict is not None
    assert result.diagnosis.verdict.culprits == (2,)


@pytest.mark.parametrize("mode", ["raw", "safe"])
def test_a_late_rank_of_a_monitored_barrier_is_told_with_where_it_was(world_of: WorldMaker, mode: str) -> None:
    world = world_of(3, mode)
    source = """\
import time
from datetime import timedelta

def load():
    time.sleep(4 if rank == 2 else 0)

load()
dist.monitored_barrier(timeout=timedelta(seconds=1.5), wait_all_ranks=True)
"""
    result = world.run_cell(source, deadline_s=12)
    assert result.diagnosis is not None
    assert result.diagnosis.verdict is not None
    text = str(result.diagnosis.verdict)
    assert result.diagnosis.verdict.culprits == (2,), text
    assert "monitored_barrier" in text
    assert "load (cell" in text
    assert "line 5" in text
    world.recover()
