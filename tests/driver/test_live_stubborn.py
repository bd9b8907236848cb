"""What a hostile tester found, kept found: waits that Python does not show, groups of the learner's own, odd code."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import psutil
import pytest

from labkit.driver.world import World
from labkit.errors import RankDead
from labkit.processes import state_of_pid

pytestmark = pytest.mark.gloo

WorldMaker = Callable[..., World]

DDP = "from torch.nn.parallel import DistributedDataParallel as DDP\nm = DDP(torch.nn.Linear(4, 4))\n"
HIDDEN_WAITS = {
    "raises in a DDP loop": (
        DDP
        + "for i in range(3):\n    if rank == 1 and i == 1: raise ValueError('bad')\n    m(torch.ones(1, 4)).sum().backward()",
        "LK003",
    ),
    "one batch less": (DDP + "for i in range(3 if rank != 1 else 2): m(torch.ones(1, 4)).sum().backward()", "LK007"),
    "waits through a name": (
        "h = dist.all_reduce(torch.ones(1), async_op=True) if rank != 1 else None\nf = h.wait if h else None\nif f: f()",
        "LK007",
    ),
    "polls": (
        (
            "import time\nh = dist.all_reduce(torch.ones(1), async_op=True) if rank != 1 else None\n"
            "while h and not h.is_completed(): time.sleep(.01)"
        ),
        "LK007",
    ),
}


@pytest.mark.parametrize("mode", ["raw", "safe"])
@pytest.mark.parametrize("name", list(HIDDEN_WAITS))
def test_a_wait_in_cpp_is_seen(world_of: WorldMaker, name: str, mode: str) -> None:
    world = world_of(3, mode)
    code, expected = HIDDEN_WAITS[name]
    result = world.run_cell(code, deadline_s=8)
    assert result.diagnosis is not None, result.outcomes
    verdict = result.diagnosis.verdicts[0]
    assert (verdict.code, verdict.culprits) == (expected, (1,))
    assert result.elapsed_s < 5
    assert world.recover().replaced == ()


LEGAL_IN_SAFE_MODE = [
    "x = torch.ones(2)\nif rank == 0:\n    dist.all_reduce(x)\nelse:\n    dist.all_reduce(x)",
    (
        "x = torch.ones(2)\nif rank == 0:\n    dist.all_reduce(x)\n    dist.all_reduce(x)\nelse:\n"
        "    for i in range(2): dist.all_reduce(x)"
    ),
    (
        "a = dist.new_group([0, 1]); b = dist.new_group([2])\nx = torch.ones(2)\nif rank < 2:\n"
        "    dist.all_reduce(x, group=a); dist.all_reduce(x)\nelse:\n    dist.all_reduce(x, group=b); dist.all_reduce(x)"
    ),
]


@pytest.mark.parametrize("code", LEGAL_IN_SAFE_MODE)
def test_safe_mode_lets_legal_branches_through(world_of: WorldMaker, code: str) -> None:
    result = world_of(3, "safe").run_cell(code)
    assert result.ok, result.outcomes
    assert result.diagnosis is None


def test_a_group_of_the_learners_own_is_watched_and_cut(world_of: WorldMaker) -> None:
    world = world_of(2)
    made = world.run_cell(
        "keep = 1\nimport tempfile, os\nfolder = os.environ['LABKIT_RUN_DIR'] + '/own'\ndist.destroy_process_group()\n"
        "dist.init_process_group('gloo', store=dist.FileStore(folder, world_size), rank=rank, world_size=world_size)\n"
        "x = torch.ones(1); dist.all_reduce(x); x.item()"
    )
    assert made.ok, made.outcomes
    result = world.run_cell("if rank == 0: dist.all_reduce(x)\nelse: dist.broadcast(x, 0)", deadline_s=8)
    assert result.diagnosis is not None
    assert result.diagnosis.verdicts[0].code == "LK004"
    assert world.recover().rung == "soft"
    assert world.run_cell("keep").ok


def test_a_destroyed_group_is_formed_anew(world_of: WorldMaker) -> None:
    world = world_of(2)
    world.run_cell("dist.destroy_process_group()")
    assert world.recover().rung == "soft"
    assert world.run("all_reduce", numel=1).values == ((3.0,),) * 2


def test_an_exception_without_a_text_is_an_outcome(world_of: WorldMaker) -> None:
    world = world_of(2)
    result = world.run_cell("class E(Exception):\n    def __str__(self): raise ValueError('boo')\nraise E()", deadline_s=5)
    assert [outcome.status for outcome in result.outcomes] == ["error", "error"]


def test_a_daemon_of_a_cell_ends_with_its_rank(world_of: WorldMaker) -> None:
    world = world_of(2)
    result = world.run_cell("import subprocess\nq = subprocess.Popen(['sleep', '120'], start_new_session=True)\nq.pid")
    pids = [int(outcome.shown.text) for outcome in result.outcomes if outcome.shown]
    assert len(pids) == 2
    world.stop()
    end = time.monotonic() + 3
    while time.monotonic() < end and any(state_of_pid(pid) != "dead" for pid in pids):
        time.sleep(0.05)
    assert [state_of_pid(pid) for pid in pids] == ["dead", "dead"]


def test_a_fork_of_the_kernel_does_not_end_the_world(world_of: WorldMaker) -> None:
    world = world_of(2)
    child = os.fork()
    if child == 0:
        world.stop()
        os._exit(0)
    os.waitpid(child, 0)
    assert world.run_cell("rank").ok


def test_an_interrupted_recovery_is_whole(world_of: WorldMaker) -> None:
    world = world_of(3)
    for delay_s in (0.02, 0.1, 0.2):
        world.run_cell("keep = 1")
        world.run_cell("import os\nif rank == 1: os._exit(1)\ndist.barrier()")
        threading.Timer(delay_s, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - wherever the interrupt lands
            world.recover()
            time.sleep(1)  # the recovery was quicker than the interrupt
        assert world.recover().rung == "none"
        assert world.run_cell("keep", [0, 2]).ok


def test_a_lost_controller_is_said_and_mended(world_of: WorldMaker) -> None:
    world = world_of(2)
    world.run_cell("1")
    before = num_processes()
    os.kill(world.core.cluster.pids["controller"], signal.SIGKILL)
    time.sleep(0.3)
    assert "controller" in world.status().note
    with pytest.raises(RankDead, match=r"world\.recover"):
        world.run_cell("1")
    assert world.recover().rung == "cluster"
    assert world.run_cell("rank").ok
    assert num_processes() <= before


def num_processes() -> int:
    """Processes of this kernel when nothing changes any more: a rank's old twin ends shortly after the next one begins."""
    counted = [-1, -2]
    while len(set(counted[-5:])) > 1:
        time.sleep(0.1)
        counted.append(len(psutil.Process().children(recursive=True)))
    return counted[-1]
