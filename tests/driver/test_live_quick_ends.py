"""How soon a cell that can't end is ended: a contradiction without a stall, an absence soon after it; never a slow group."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

from labkit.driver.world import World
from labkit.errors import RankError

pytestmark = [pytest.mark.gloo, pytest.mark.timeout(120)]
WorldMaker = Callable[[int], World]
ARRIVE = "import time\nfrom time import monotonic\ntime.sleep(0.2 * rank)\narrived = monotonic()\n"
LOAD = 3.0  # other work on this machine makes everything longer


def test_a_contradiction_is_told_within_a_tenth_of_a_second_of_the_second_arrival(world_of: WorldMaker) -> None:
    world, took = world_of(2), []
    for _ in range(3):
        world.run_cell("warm = torch.ones(1); dist.all_reduce(warm)")
        result = world.run_cell(ARRIVE + "dist.all_reduce(torch.ones(4)) if rank else dist.broadcast(torch.ones(4), src=0)")
        ended = time.monotonic()
        assert result.diagnosis is not None
        assert result.diagnosis.verdict.code == "LK004"
        assert set(result.diagnosis.verdict.culprits) <= {0, 1}
        arrivals = [
            max(call.issued_s for call in view.calls if call.state == "issued") for view in result.diagnosis.evidence.ranks
        ]
        took.append(ended - max(arrivals))
        world.recover()
    assert min(took) < 0.1 * LOAD, took


def test_a_rank_that_has_left_is_told_within_half_a_second(world_of: WorldMaker) -> None:
    world = world_of(3)
    began = time.monotonic()
    result = world.run_cell("dist.barrier() if rank else None")
    assert result.diagnosis.verdict.code == "LK007"
    assert time.monotonic() - began < 0.5 * LOAD
    world.recover()


def test_asynchronous_calls_in_one_order_are_never_ended(world_of: WorldMaker) -> None:
    world = world_of(3)
    code = (
        "import random, time\nrandom.seed(rank)\nfor step in range(40):\n    x = [torch.ones(1 + n) for n in range(4)]\n"
        "    works = [dist.all_reduce(each, async_op=True) for each in x]\n    time.sleep(random.random() * 0.04)\n"
        "    [work.wait() for work in works]\n    if step % 10 == rank: time.sleep(0.1)\n"
    )
    result = world.run_cell(code)
    assert result.ok, result
    assert result.diagnosis is None


def test_a_stopped_controller_is_said_within_a_second_and_mended(world_of: WorldMaker) -> None:
    world = world_of(2)
    world.run_cell("keep = rank")
    pid = world.core.cluster.pids["controller"]
    threading.Timer(0.3, os.kill, (pid, signal.SIGSTOP)).start()
    began = time.monotonic()
    with pytest.raises(RankError, match=r"controller .* is stopped.*world\.recover"):
        world.run_cell("import time; time.sleep(2)")
    assert time.monotonic() - began < 0.3 + 1.0
    assert "stopped" in world.status().note
    report = world.recover()
    assert (report.rung, report.replaced) == ("soft", ())
    assert world.pull("keep") == {0: 0, 1: 1}
