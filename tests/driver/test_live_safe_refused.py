"""Safe mode frees every rank that waits for what can't come: each raises, none is stuck, none is lost, and the world goes on."""

# ruff: noqa: E501, ISC004 - each case is one row

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable

import pytest

from labkit.driver.world import World

pytestmark = [pytest.mark.gloo, pytest.mark.timeout(120)]
WorldMaker = Callable[..., World]

DDP = "from torch.nn.parallel import DistributedDataParallel as DDP\nnet = DDP(torch.nn.Linear(4, 4))\n"
FSDP = """
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 8))
fully_shard(net, mesh=init_device_mesh("cpu", (world_size,)))
"""
FUNCTIONAL = "import torch.distributed._functional_collectives as fc\n"
# name: (code, who raises a ContractError, what is said)
CASES: dict[str, tuple[str, tuple[int, ...], str]] = {
    "a rank leaves DDP's loop": (
        DDP + "for b in range(4 if rank else 2): net(torch.randn(2, 4)).sum().backward()", (1, 2), r"rank 0 has finished",
    ),
    "a rank raises in DDP's loop": (
        DDP + "for b in range(4):\n    if rank == 1 and b == 2: raise ValueError('bad batch')\n"
        "    net(torch.randn(2, 4)).sum().backward()",
        (0, 2), r"rank 1 raised ValueError",
    ),
    "a rank leaves FSDP's loop": (
        FSDP + "for b in range(3 if rank else 1): net(torch.randn(4, 8)).pow(2).mean().backward()", (1, 2), r"rank 0 has finished",
    ),
    "a functional collective is missing": (
        FUNCTIONAL + "if rank != 1: fc.all_gather_tensor(torch.ones(2), 0, dist.group.WORLD) + 0", (0, 2), r"rank 1 has finished",
    ),
    "functional collectives differ": (
        FUNCTIONAL + "fc.all_reduce(torch.ones(4 if rank else 6), 'sum', dist.group.WORLD) + 0", (0, 1, 2), r"shape",
    ),
    "an asynchronous call is missing": (
        "h = dist.all_reduce(torch.ones(3), async_op=True) if rank else None\nif h: h.wait()", (1, 2), r"rank 0 has finished",
    ),
    "an object collective is missing": ("if rank == 0: dist.all_gather_object([None] * world_size, 1)", (0,), r"all_gather_object"),
    "a monitored barrier is missing": ("if rank != 1: dist.monitored_barrier()", (0, 2), r"monitored_barrier"),
    "everybody sends first": ("dist.send(torch.ones(2), (rank + 1) % 3)\ndist.recv(torch.ones(2), (rank - 1) % 3)", (0, 1, 2), r"send"),
    "everybody receives first": (
        "b = torch.zeros(2); dist.recv(b, (rank - 1) % 3); dist.send(b, (rank + 1) % 3)", (0, 1, 2), r"recv",
    ),
    "everybody waits for its isend": (
        "dist.isend(torch.ones(2), (rank + 1) % 3).wait(); dist.recv(torch.ones(2), (rank - 1) % 3)", (0, 1, 2), r"send",
    ),
    "a send against a barrier": (
        "if rank == 0: dist.send(torch.ones(2), 1)\ndist.barrier()\nif rank == 1: dist.recv(torch.ones(2), 0)",
        (0, 1, 2), r"rank 0 .*send to rank 1.*barrier",
    ),
    "another tag": ("dist.send(torch.ones(4), 1, tag=7) if rank == 0 else dist.recv(torch.ones(4), 0, tag=8) if rank == 1 else None",
                    (0, 1), r"tag 7.*tag 8"),
    "more is sent than there is room for": (
        "dist.send(torch.ones(8), 1) if rank == 0 else dist.recv(torch.ones(4), 0) if rank == 1 else None", (0, 1), r"rank 0.*rank 1",
    ),
    "nobody sends to a recv from any rank": ("dist.recv(torch.zeros(2)) if rank == 0 else None", (0,), r"recv from any rank"),
    "an irecv is waited for in vain": ("dist.irecv(torch.zeros(2), 1).wait() if rank == 0 else None", (0,), r"rank 1 has finished"),
    "splits that do not match": (
        "take = [1, 1, 2] if rank == 2 else [1, 1, 1]\n"
        "dist.all_to_all_single(torch.zeros(sum(take)), torch.ones(3), take, [1, 1, 1])",
        (0, 1, 2), r"splits",
    ),
    "two groups crossed": (
        "a, b = dist.new_group([0, 1, 2]), dist.new_group([0, 1, 2])\n"
        "for g in ((a, b) if rank else (b, a)): dist.all_reduce(torch.ones(2), group=g)",
        (0, 1, 2), r"rank 0.*process group",
    ),
    "an argument that torch turns down on one rank": (
        "dist.all_gather([torch.zeros(3)] * (3 if rank else 2), torch.ones(3))", (1, 2), r"rank 0 raised RuntimeError",
    ),
    "a call after an exception of its own": (
        "try:\n    if rank == 1: raise KeyError('y')\n    dist.all_reduce(torch.ones(4))\nfinally:\n    dist.barrier()",
        (0, 1, 2), r"rank 1.*barrier.*all_reduce",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_whoever_waits_raises_and_keeps_its_variables(world_of: WorldMaker, name: str) -> None:
    code, raising, said = CASES[name]
    world = world_of(3, "safe")
    world.run_cell("kept = rank + 40")
    result = world.run_cell(textwrap.dedent(code), deadline_s=8)
    assert not {str(outcome.status) for outcome in result.outcomes} & {"stuck", "late", "dead"}, result
    told = tuple(o.rank for o in result.outcomes if o.error is not None and o.error.type == "ContractError")
    assert told == raising, result
    assert result.diagnosis is not None
    assert result.diagnosis.verdict is not None, result
    assert re.search(said, result.diagnosis.verdict.sentence), result.diagnosis.verdict
    if world.broken:
        assert "No rank has issued" not in result.diagnosis.verdict.next_step
    assert world.recover().replaced == ()
    check = world.run_cell("x = torch.ones(1) * kept; dist.all_reduce(x); assert x.item() == 123", deadline_s=8)
    assert check.ok, check
