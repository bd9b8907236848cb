"""A rank that was replaced comes back with what it knew, and no twin outlives its use."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from labkit.driver.start import bring_up
from labkit.driver.world import World
from labkit.processes import running
from labkit.recovered import in_a_sentence

pytestmark = [pytest.mark.gloo, pytest.mark.timeout(240)]

WorldMaker = Callable[..., World]

TRAINING = """
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
torch.manual_seed(rank)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
    def forward(self, x): return self.a(x)
net = Net(); ddp = DDP(net); opt = torch.optim.SGD(ddp.parameters(), lr=.1, momentum=.9)
numbers = torch.full((4_000_000,), float(rank))
everyone = dist.group.WORLD
file = open("/dev/null")
def step():
    opt.zero_grad(); loss = ddp(torch.ones(2, 4) * (rank + 1)).sum(); loss.backward(); opt.step()
    return float(net.a.weight.sum())
step()
"""
GO_ON = "dist.barrier(group=everyone)\n(step(), float(numbers[0]), opt.param_groups[0]['params'][0] is net.a.weight)"
KILL = "import os, signal\nif rank == 1: os.kill(os.getpid(), signal.SIGKILL)\ndist.barrier()"


def shown(world: World, code: str) -> list[str]:
    result = world.run_cell(code)
    assert result.ok, [outcome.error for outcome in result.outcomes]
    return [outcome.shown.text for outcome in result.outcomes if outcome.shown]


def test_training_goes_on_after_a_rank_was_killed(world_of: WorldMaker) -> None:
    world = world_of(3)
    assert world.run_cell(TRAINING).ok
    cell = world.cell
    world.run_cell(KILL)
    report = world.recover()
    (given,) = report.restored
    assert (report.replaced, given.rank, given.cell, given.why) == ((1,), 1, cell, "")
    assert {"nn", "DDP", "Net", "net", "ddp", "opt", "numbers", "everyone", "step"} <= set(given.names)
    assert report.lost == {"1": ("file",)}
    assert given.lost == {"file": "an open file"}
    assert f"restored as they were after cell {cell}. Lost on rank 1: file (an open file)." in in_a_sentence(report)
    weights = {text.split(",")[0] for text in shown(world, GO_ON)}
    assert len(weights) == 1, "the momentum of one rank was lost"
    assert shown(world, "(rank, numbers[0].item() == rank, opt.param_groups[0]['params'][0] is net.a.weight)") == [
        f"({rank}, True, True)" for rank in range(3)
    ]


@pytest.mark.parametrize("fault", ["killed", "holds-gil"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_every_variable_is_there_after_a_fault(world_of: WorldMaker, ranks: int, fault: str) -> None:
    world = world_of(ranks)
    world.run_cell("import math\nfirst = rank * 10")
    world.run_cell("second = [first, math.pi]")
    world.run_cell("third = torch.rand(3) + rank")  # one after the other: each has its twin before the next begins
    before = shown(world, "(first, second, third.tolist())")
    world.try_fault(fault, deadline_s=3)
    report = world.recover()
    assert report.replaced == (ranks - 1,)
    assert report.lost == {str(ranks - 1): ()}
    assert shown(world, "(first, second, third.tolist())") == before


def test_a_stopped_rank_keeps_what_it_has(world_of: WorldMaker) -> None:
    world = world_of(2)
    world.run_cell("mine = rank")
    world.try_fault("stopped", deadline_s=1)
    assert world.recover().replaced == ()
    assert shown(world, "mine") == ["0", "1"]


def test_what_the_cell_that_killed_the_rank_defines_is_there(world_of: WorldMaker) -> None:
    world = world_of(2)
    world.run_cell("import torch.nn as lib\ndef twice(x): return 2 * x\n" + KILL)
    report = world.recover()
    assert {"lib", "twice"} <= {*report.restored[0].made}
    assert shown(world, "lib.Linear(2, 2); dist.barrier(); twice(rank)") == ["0", "2"]


def test_two_at_once_and_twice_in_a_row(world_of: WorldMaker) -> None:
    world = world_of(3)
    world.run_cell("kept = [rank]")
    for _ in range(2):
        world.run_cell("import os\nif rank: os._exit(3)\ndist.barrier()")
        assert world.recover().replaced == (1, 2)
        assert shown(world, "kept") == ["[0]", "[1]", "[2]"]


def twins(world: World) -> list[psutil.Process]:
    return [psutil.Process(process.pid) for process in world.core.cluster.twins.processes.values()]


def settled(world: World, count: int) -> list[psutil.Process]:
    """The twins, once each rank has one and older ones are gone."""
    ranks = [psutil.Process(seat.pid) for seat in world.core.seats]
    for _ in range(300):
        found = [each for rank in ranks for each in rank.children()]
        if len(found) == count and {each.pid for each in found} == {each.pid for each in twins(world)}:
            return found
        time.sleep(0.02)
    raise AssertionError([(each.pid, each.name(), each.status()) for each in found])


def test_there_is_one_twin_a_rank_and_none_after_the_world() -> None:
    world = bring_up(2, "gloo")
    try:
        for _ in range(5):
            world.run_cell("x = 1")
        found = settled(world, 2)
        assert sorted(each.cmdline()[0].rstrip() for each in found) == [
            f"labkit: twin of rank {rank} of world {os.getpid()}" for rank in range(2)
        ]
        noted = (world.core.folder / "world.json").read_text()
        assert all(f'"{each.pid}"' in noted for each in found)
        identities = list(world.core.cluster.twins.processes.values())
    finally:
        world.stop()
    assert running(identities) == []


def test_memory_and_descriptors_are_flat(world_of: WorldMaker) -> None:
    world = world_of(2)
    rank = psutil.Process(world.core.seats[0].pid)
    marks = []
    for number in range(60):
        world.run_cell("y = torch.ones(100_000)")
        if number in (20, 59):
            settled(world, 2)
            marks.append((rank.num_fds(), len(os.listdir("/proc/self/fd")), rank.memory_info().rss))
    assert marks[0][0] == marks[1][0]
    assert marks[1][1] <= marks[0][1] + 2
    assert marks[1][2] - marks[0][2] < 20 * 2**20


def test_without_twins_definitions_come_back_and_the_report_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABKIT_KEEP", "no")
    world = bring_up(2, "gloo")
    try:
        world.run_cell("import math\nx = torch.ones(2)\ndef f(): return math.pi")
        world.run_cell(KILL)
        report = world.recover()
        assert report.restored[0].made == ("math", "f", "os", "signal")
        assert report.lost == {"1": ("x",)}
        assert "Rank 1: no variable was kept, since LABKIT_KEEP=no." in in_a_sentence(report)
    finally:
        world.stop()


def test_recovery_takes_half_a_second(world_of: WorldMaker) -> None:
    world = world_of(3)
    world.run_cell("numbers = torch.ones(4_000_000)")  # 16 MB
    took = []
    for _ in range(5):
        world.run_cell(KILL)
        took.append(world.recover().elapsed_s)
    assert statistics.median(took) < 0.5 * patience(), took


def patience() -> float:
    """How many times as long as alone everything takes, by the load of the machine."""
    return max(1.0, float(Path("/proc/loadavg").read_text().split()[0]) / (os.cpu_count() or 1))


GROUPS = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel as DDP
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
even, odd = dist.new_group([0, 2]), dist.new_group([1, 3])
mine = [even, odd][rank % 2]
ddp = DDP(torch.nn.Linear(2, 1, bias=False), process_group=mine)
sharded = fully_shard(torch.nn.Linear(4, 4))
"""
USES = """
ddp.zero_grad()
ddp(torch.full((1, 2), float(rank))).sum().backward()
x, y = torch.full((1,), float(rank)), torch.full((1,), float(rank))
dist.all_reduce(x, group=mesh.get_group("tp"))
dist.all_reduce(y, group=mine)
(x.item(), y.item(), ddp.module.weight.grad[0, 0].item(), dist.get_process_group_ranks(mine))
"""
USED = ["(1.0, 2.0, 1.0, [0, 2])", "(1.0, 4.0, 2.0, [1, 3])", "(5.0, 2.0, 1.0, [0, 2])", "(5.0, 4.0, 2.0, [1, 3])"]


def test_groups_that_the_code_has_made_are_made_again_on_all_ranks(world_of: WorldMaker) -> None:
    """After a soft recovery, and on a rank that was replaced: as variables, in a DDP wrapper, in a mesh."""
    world = world_of(4)
    assert world.run_cell(GROUPS).ok
    assert shown(world, USES) == USED
    assert world.run_cell("if rank != 1: dist.all_reduce(x)").diagnosis is not None
    assert world.recover().rung == "soft"
    assert shown(world, USES) == USED
    assert world.run_cell("sharded(torch.ones(2, 4)).sum().backward()").ok
    world.run_cell(KILL)
    report = world.recover()
    assert report.replaced == (1,)
    assert report.lost == {"1": ("sharded",)}
    assert shown(world, USES) == USED


def test_a_group_that_not_all_ranks_have_made_is_not_made_again(world_of: WorldMaker) -> None:
    world = world_of(3)
    assert world.run_cell("good = dist.new_group([0, 1])").ok
    result = world.run_cell("odd = dist.new_group([0, 1] if rank != 2 else [0, 2])", deadline_s=4)
    assert result.diagnosis is not None
    world.recover()
    assert shown(world, "x = torch.ones(1)\nif rank < 2: dist.all_reduce(x, group=good)\nx.item()") == ["2.0", "2.0", "1.0"]
