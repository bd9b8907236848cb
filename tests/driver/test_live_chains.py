"""Real ranks that part in helpers, loops, classes, files and handlers: both modes name the rank, the lines and what to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from labkit.driver.world import World

pytestmark = pytest.mark.gloo

WorldMaker = Callable[..., World]
DEADLINE_S = 6.0
IMPORTS = """
import importlib, os, sys, tempfile
here = tempfile.mkdtemp()
open(os.path.join(here, "{name}.py"), "w").write('''import torch.distributed as dist

def reduce_mean(t):
    t = t.clone()
    dist.all_reduce(t)
    return t
''')
sys.path.insert(0, here)
{name} = importlib.import_module("{name}")
"""

# name: (cell, the rule, what the sentence says)
CELLS = {
    "a helper in a file": (
        IMPORTS.format(name="chain_utils") + "for step in range(3):\n    if (rank, step) != (1, 1):\n"
        "        chain_utils.reduce_mean(torch.ones(1))\n    total = chain_utils.reduce_mean(torch.ones(1))\n",
        "LK009",
        ("rank 1 skipped", "chain_utils.py, line 5", "line 15", "line 16"),
    ),
    "ddp after a log that one rank leaves out": (
        (
            "from torch.nn.parallel import DistributedDataParallel as DDP\n"
            "net = DDP(torch.nn.Linear(3, 2))\n"
            "def log(x):\n"
            "    dist.all_reduce(x)\n"
            "for step in range(3):\n"
            "    loss = net(torch.ones(2, 3)).sum()\n"
            "    for name in ['a', 'b', 'c'][: 2 + (rank != 1 or step < 1)]:\n"
            "        log(torch.ones(1))\n"
            "    loss.backward()\n"
        ),
        "LK009",
        ("rank 1 skipped", "line 4", "line 8", "line 9"),
    ),
    "one batch less": (
        (
            "def epoch(n):\n"
            "    for batch in range(n):\n"
            "        dist.all_reduce(torch.ones(4))\n"
            "epoch(4 - (rank == 1))\n"
            "dist.barrier()\n"
        ),
        "LK009",
        ("rank 1 skipped", "line 3", "barrier at line 5"),
    ),
    "a branch on data": (
        (
            "def save(x):\n"
            "    dist.broadcast(x, 0)\n"
            "for step in range(3):\n"
            "    dist.all_reduce(torch.ones(4))\n"
            "    if torch.ones(1).item() * rank * step == 1:\n"
            "        save(torch.ones(4))\n"
        ),
        "LK009",
        ("rank 1 made an extra", "line 2", "line 6", "line 4"),
    ),
    "a dict in another order": (
        (
            "calls = {'sum': dist.all_reduce, 'all': lambda x: dist.broadcast(x, 0)}\n"
            "for name in sorted(calls, reverse=rank == 1):\n"
            "    calls[name](torch.ones(4))\n"
        ),
        "LK004",
        ("rank 1", "all_reduce", "broadcast"),
    ),
}


@pytest.mark.parametrize("mode", ["raw", "safe"])
@pytest.mark.parametrize("name", CELLS)
def test_where_ranks_part(world_of: WorldMaker, name: str, mode: str) -> None:
    source, code, words = CELLS[name]
    world = world_of(3, mode)
    result = world.run_cell(source, deadline_s=DEADLINE_S)
    assert result.diagnosis is not None
    verdict = result.diagnosis.verdict
    assert verdict is not None
    assert (verdict.code, verdict.culprits) == (code, (1,)), verdict.sentence
    for word in words:
        assert word in verdict.sentence, verdict.sentence
    assert "shape" not in verdict.next_step
    assert all(side.source for side in verdict.sides), "the lines of cells and of files are shown"
    if mode == "safe":
        assert not any(outcome.status in ("stuck", "dead") for outcome in result.outcomes)
    world.recover()


def test_blank_lines_before_a_cell_shift_no_number(world_of: WorldMaker) -> None:
    world = world_of(2, "raw")
    result = world.run_cell("\n\nx = 1\nraise ValueError(x)\n")
    (error,) = {outcome.error.site.line for outcome in result.outcomes if outcome.error and outcome.error.site}
    assert error == 4
    hung = world.run_cell("\n\nif rank == 0:\n    dist.barrier()\n", deadline_s=3.0)
    assert hung.diagnosis is not None
    (side,) = (side for verdict in hung.diagnosis.verdicts for side in verdict.sides if side.ranks == (0,))
    assert (side.site.line if side.site else 0, side.source) == (4, "dist.barrier()")
    world.recover()
