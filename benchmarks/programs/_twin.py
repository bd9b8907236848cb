"""What keeping variables costs: cells of a burst, memory, and a recovery of a rank that held a lot."""

from __future__ import annotations

import time
from typing import Any

import psutil

HOLD = "held = torch.full(({numel},), float(rank)); other = {{}}"
TOUCH = "other[{number}] = rank"
KILL = "import os, signal\nif rank == 1: os.kill(os.getpid(), signal.SIGKILL)\ndist.barrier()"
CHECK = "(held.sum().item(), len(other))"


def hold(world: Any, num_bytes: int) -> None:
    """Give every rank a tensor of so many bytes."""
    result = world.run_cell(HOLD.format(numel=num_bytes // 4))
    assert result.ok, result


def burst(world: Any, count: int) -> dict[str, float]:
    """Seconds of each of `count` cells in a row that change a variable, and CPU seconds of a rank for each."""
    pids = [outcome.value["pid"] for outcome in world.run("ping").outcomes]
    before_s, began = sum(map(_cpu_s, pids)), time.perf_counter()
    for number in range(count):
        world.run_cell(TOUCH.format(number=number))
    taken_s = time.perf_counter() - began
    return {"cell_s": taken_s / count, "cpu_s": (sum(map(_cpu_s, pids)) - before_s) / count / len(pids)}


def _cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def twins_bytes(world: Any) -> int:
    """Memory that the twins of all ranks have for themselves or share only with each other and their ranks (PSS), per rank."""
    time.sleep(0.5)  # a twin is made when its rank rests
    pids = [outcome.value["pid"] for outcome in world.run("ping").outcomes]
    time.sleep(0.5)
    twins = [child for pid in pids for child in psutil.Process(pid).children()]
    return sum(int(twin.memory_full_info().pss) for twin in twins) // len(pids)


def killed(world: Any) -> dict[str, float]:
    """Kill rank 1 and recover: seconds, and whether all that the rank knew is there again."""
    before = _values(world)
    world.run_cell(KILL)
    began = time.perf_counter()
    report = world.recover()
    taken_s = time.perf_counter() - began
    assert report.replaced == (1,), report
    assert _values(world) == before, report
    return {"recover_s": taken_s}


def _values(world: Any) -> list[str]:
    return [outcome.shown.text for outcome in world.run_cell(CHECK).outcomes]
