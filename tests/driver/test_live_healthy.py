"""A healthy world is never accused: many collectives of all kinds, long computations, and legal asymmetries."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from labkit.driver.world import World

pytestmark = pytest.mark.gloo

WorldMaker = Callable[..., World]

PREAMBLE = """
halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
mine = halves[rank // 2]
left, right = (rank - 1) % world_size, (rank + 1) % world_size
def t(n=5): return torch.arange(n * 1.0) + rank
"""
KINDS = {
    "all_reduce": "dist.all_reduce(t({n}))",
    "max": "dist.all_reduce(t({n}), op=dist.ReduceOp.MAX)",
    "async": "w = dist.all_reduce(t({n}), async_op=True); t(50).sum(); w.wait()",
    "two in flight": "ws = [dist.all_reduce(t({n}), async_op=True) for _ in range(2)]; [w.wait() for w in ws[::-1]]",
    "broadcast": "dist.broadcast(t({n}), src={root})",
    "reduce": "dist.reduce(t({n}), dst={root})",
    "all_gather": "dist.all_gather([torch.empty({n}) for _ in range(world_size)], t({n}))",
    "gather into": "dist.all_gather_into_tensor(torch.empty({n} * world_size), t({n}))",
    "reduce_scatter": "dist.reduce_scatter_tensor(torch.empty({n}), t({n} * world_size))",
    "all_to_all": "dist.all_to_all_single(torch.empty(4 * world_size), t(4 * world_size))",
    "barrier": "dist.barrier()",
    "subgroup": "dist.all_reduce(t({n}), group=mine)",
    "one subgroup only": "dist.all_reduce(t({n}), group=mine) if rank < 2 else None",
    "objects": "dist.all_gather_object([None] * world_size, dict(rank=rank, text='x' * rank))",
    "rooted branch": "dist.broadcast(t({n}), src={root}) if rank == {root} else dist.broadcast(torch.empty({n}), src={root})",
    "ring": "ops = [dist.P2POp(dist.isend, t(3), right), dist.P2POp(dist.irecv, torch.empty(3), left)]; "
    "[w.wait() for w in dist.batch_isend_irecv(ops)]",
    "pair": "dist.send(t(3), right) if rank % 2 == 0 else dist.recv(torch.empty(3), left)",
    "uneven work": "[t(2000).sort() for _ in range(20 * (rank == {root}))]; dist.barrier()",
    "empty": "dist.all_reduce(torch.empty(0))",
}
RAW_ONLY = {"rooted branch"}


def program(seed: int, length: int) -> str:
    rng = random.Random(seed)
    lines = [KINDS[rng.choice(list(KINDS))].format(n=rng.choice([1, 7, 64, 1000]), root=rng.randrange(4)) for _ in range(length)]
    return PREAMBLE + "\n".join(lines) + "\n'end'"


@pytest.mark.parametrize("mode", ["raw", "safe"])
def test_five_hundred_mixed_collectives_give_no_verdict(world_of: WorldMaker, mode: str) -> None:
    world = world_of(4, mode)
    for seed in range(5):
        result = world.run_cell(program(seed, 100), deadline_s=60)
        assert result.ok, [outcome.error for outcome in result.outcomes]
        assert result.diagnosis is None, result.diagnosis
        assert result.notes == (), result.notes
        assert world.diagnose().healthy
    assert world.recover().rung == "none"


@pytest.mark.parametrize(
    "code",
    [
        "import time; time.sleep(1.5)",
        "if rank == 1: import time; time.sleep(1.5)",
        "import time\nend = time.time() + 1.2\nwhile time.time() < end: pass\ndist.barrier()",
        "x = torch.ones(16 * 2**20)\nfor _ in range(8): dist.all_reduce(x)",
        "if rank == 0: dist.all_reduce(torch.ones(2), group=dist.group.WORLD)\nelse: dist.all_reduce(torch.ones(2))",
    ],
    ids=["all sleep", "one sleeps, none waits", "all compute", "long collectives", "branches to one collective"],
)
def test_what_is_only_long_or_uneven_is_no_fault(world_of: WorldMaker, code: str) -> None:
    world = world_of(4)
    result = world.run_cell(code, deadline_s=30)
    assert result.ok
    assert result.diagnosis is None, result.diagnosis
