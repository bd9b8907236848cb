"""Programs that are right get no verdict and no note; the same slips that ranks find alone are told of a live world."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.stress.healthy import said_of
from benchmarks.stress.programs import PROGRAMS
from labkit.driver.world import World

pytestmark = pytest.mark.gloo

WorldMaker = Callable[..., World]

SLIPS = {
    "not-contiguous": "table = torch.arange(12.0).reshape(4, 3)\ndist.all_reduce(table[:, 1])",
    "not-waited": "buffer = torch.ones(4)\ndist.all_reduce(buffer, async_op=True)\nbuffer.div_(world_size)",
    "thrown-away": "def mean(x):\n    dist.all_reduce(x.contiguous())\n    return x / world_size\ny = mean(torch.ones(3, 4).t())",
}

ACCUMULATES = """from contextlib import nullcontext
from torch.nn.parallel import DistributedDataParallel as DDP
torch.manual_seed(0)
net = DDP(torch.nn.Linear(3, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for number in range(4):
    with nullcontext() if number % 2 == 0 else net.no_sync():
        net(torch.ones(2, 3) * (rank + 1)).pow(2).mean().backward()
    if number % 2 == 1:
        opt.step()
        opt.zero_grad()
"""


@pytest.mark.parametrize("mode", ["raw", "safe"])
def test_nothing_is_said_of_right_programs(world_of: WorldMaker, mode: str) -> None:
    world = world_of(3, mode)
    assert {name: said for name, source in PROGRAMS.items() if (said := said_of(world, source))} == {}


@pytest.mark.parametrize("mode", ["raw", "safe"])
@pytest.mark.parametrize("kind", sorted(SLIPS))
def test_a_slip_is_noted_once_with_its_line_and_all_ranks(world_of: WorldMaker, kind: str, mode: str) -> None:
    world = world_of(2, mode)
    result = world.run_cell(SLIPS[kind], deadline_s=20)
    assert result.ok
    assert [(note.kind, note.ranks, note.place) for note in result.notes] == [(kind, (0, 1), f"cell {result.cell}, line 2")]
    assert f"Note, cell {result.cell}, line 2: " in str(result)
    assert world.run_cell("x = 1").notes == ()


def test_a_step_on_gradients_that_ddp_did_not_average_is_noted(world_of: WorldMaker) -> None:
    world = world_of(2)
    result = world.run_cell(ACCUMULATES, deadline_s=20)
    assert [(note.kind, note.ranks, note.place) for note in result.notes] == [
        ("not-synced", (0, 1), f"cell {result.cell}, line 10")
    ]
    assert not world.replicas("net").same
    assert world.run_cell(ACCUMULATES.replace("number % 2 == 0", "number % 2 == 1"), deadline_s=20).notes == ()
    assert world.replicas("net").same


def test_models_that_drifted_apart_are_found_by_one_call(world_of: WorldMaker) -> None:
    world = world_of(3)
    world.run_cell(
        "torch.manual_seed(7)\nfc = torch.nn.Linear(3, 2)\nopt = torch.optim.SGD(fc.parameters(), lr=0.1, momentum=0.9)\n"
        "fc(torch.ones(1, 3)).sum().backward(); opt.step()\n"
        "with torch.no_grad(): fc.weight[0, 0] += 0.125 * (rank == 2)"
    )
    found = world.replicas()
    assert found["opt"].same
    (weight,) = found["fc"].differing
    assert (weight.name, weight.sides, weight.difference) == ("weight", ((0, 1), (2,)), pytest.approx(0.125))
    assert "fc, Linear: weight differs on rank 2; ranks 0 and 1 agree: max |difference|" in " ".join(str(found).split())
    assert [part.name for part in world.tensors("fc").compared[0].parts] == ["weight", "bias"]
