"""On real ranks: where a process died, what a rank handles or has caught, what it is in, and who is not fine."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from labkit.driver.world import World

pytestmark = pytest.mark.gloo
WorldMaker = Callable[..., World]

CASES = {
    "segmentation fault": (
        "import ctypes\ndef peek():\n    return ctypes.string_at(8)\nif rank == 1:\n    peek()\ndist.barrier()",
        "LK001", ("rank 1 died of a segmentation fault in string_at, called in peek (cell 1, line 3)",),
    ),
    "os._exit": (
        "import os\ndef leave():\n    os._exit(3)\nif rank == 1:\n    leave()\ndist.barrier()",
        "LK001", ("rank 1 died (exit code 3) in", "cell 1, line 3"),
    ),
    "a handler that calls": (
        ("def save():\n    dist.broadcast(torch.ones(1), src=0)\nt = torch.ones(2)\ntry:\n    if rank == 1:\n        {}['y']\n"
        "    dist.all_reduce(t)\nexcept KeyError:\n    save()\n    raise"),
        "LK018", ("rank 1 is handling KeyError: 'y', raised at cell 1, line 6", "broadcast", "all_reduce", "line 7"),
    ),
    "caught, and went on": (
        ("for i in range(3):\n    try:\n        if rank == 1 and i == 1:\n            int('a')\n        t = torch.ones(2)\n"
        "        dist.all_reduce(t)\n    except ValueError:\n        continue\ndist.barrier()"),
        "", ("Before that, rank 1 caught ValueError: invalid literal", "cell 1, line 4"),
    ),
    "a thread that raised": (
        ("import queue, threading\nq = queue.Queue()\ndef load():\n    q.put({}['y'] if rank == 1 else 1)\n"
        "threading.Thread(target=load).start()\nq.get()\ndist.barrier()"),
        "LK010", ("rank 1 is still in get of Queue, called at cell 1, line 6", "raised KeyError: 'y' at cell 1, line 4"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_verdict_names_the_line(name: str, world_of: WorldMaker) -> None:
    code, rule, said = CASES[name]
    world = world_of(2)
    verdict = world.run_cell(code.replace("cell 1", f"cell {world.cell + 1}"), deadline_s=3).diagnosis.verdict
    text = verdict.sentence.replace(f"cell {world.cell},", "cell 1,")
    assert rule in ("", verdict.code)
    for piece in said:
        assert piece in text
    world.recover()


def test_a_rank_that_raised_is_not_idle_until_the_ranks_are_recovered(world_of: WorldMaker) -> None:
    world = world_of(2)
    world.run_cell("if rank == 1:\n    {}['y']\ndist.barrier()")
    assert [card.state for card in world.status().cards][1] == "raised"
    world.recover()
    assert {card.state for card in world.status().cards} == {"idle"}


def test_a_cell_that_never_ends_is_not_called_fine(world_of: WorldMaker) -> None:
    world = world_of(2)
    result = world.run_cell("def poll():\n    while True: pass\npoll()", deadline_s=1.5)
    assert "in poll (cell" in result.standing
    assert "no rank has made a call for 1." in result.standing
    assert "no fault" not in str(world.diagnose())
    world.recover()
