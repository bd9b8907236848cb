"""Random faults in one kernel, one after the other: each is named, the world comes back, and nothing grows."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from labkit.driver.world import World
from labkit.faults import FAULTS
from labkit.wire import Verdict

DEADLINE_S = 0.9
EVERY = 20  # faults between two measures of what the kernel and its helpers hold
MiB = 2**20


@dataclass(frozen=True)
class Held:
    """What the processes that stay hold at one moment: descriptors, children of the kernel, and their own memory."""

    descriptors: int
    children: int
    own_bytes: int


@dataclass
class ChaosReport:
    """How a trial went: how often each rung of the recovery was climbed, wrong verdicts, failed recoveries, what was held."""

    num_faults: int = 0
    rungs: Counter[str] = field(default_factory=Counter)
    unnamed: list[str] = field(default_factory=list)
    unhealthy: list[str] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    restarted: bool = False

    @property
    def problems(self) -> list[str]:
        """All that is not as it should be, a line each; the first measure is left out, since caches fill until then."""
        found = [*self.unnamed, *self.unhealthy]
        if self.restarted:
            found.append("the controller was replaced")
        if len(self.held) > 2:
            first, last = self.held[1], self.held[-1]
            if last.descriptors > first.descriptors + 5:
                found.append(f"descriptors grew from {first.descriptors} to {last.descriptors}")
            if last.children != first.children:
                found.append(f"the kernel had {first.children} child processes and has {last.children}")
            if last.own_bytes - first.own_bytes > 30 * MiB:
                found.append(f"memory grew from {first.own_bytes // MiB} to {last.own_bytes // MiB} MiB")
        return found

    def __str__(self) -> str:
        rungs = ", ".join(f"{rung or 'nothing to do'} {times}" for rung, times in self.rungs.most_common())
        return "\n".join([f"{self.num_faults} faults; recovered by: {rungs}", *(self.problems or ["no problem was found"])])


def chaos(world: World, num_faults: int, seed: int, say: Callable[[str], object] = lambda text: None) -> ChaosReport:
    """Arm `num_faults` random faults on random ranks in random modes, each followed by a recovery and a sum over all ranks."""
    rng, report, size = random.Random(seed), ChaosReport(), world.world_size
    controller = world.core.cluster.pids["controller"]
    keepers = [os.getpid(), controller, world.core.cluster.pids["store"]]
    expected_sum = float(size * (size + 1) // 2)
    for number in range(num_faults):
        fault, rank = rng.choice(list(FAULTS)), rng.randrange(size)
        if world.mode != (mode := rng.choice(["raw", "raw", "safe"])):
            world.set_mode(mode)
        verdict = _try(world, fault, rank)
        expected = FAULTS[fault].expect[mode].codes
        if (verdict is None) != (not expected) or (verdict is not None and verdict.code not in expected):
            report.unnamed.append(f"{number}: {fault} on rank {rank}, {mode}: {verdict and verdict.code}, not {expected}")
        report.rungs[world.recover().rung] += 1
        values = world.run("all_reduce", numel=2).values
        if values != ((expected_sum, expected_sum),) * size:
            report.unhealthy.append(f"{number}: after {fault} on rank {rank}, {mode}, the sum over all ranks was {values}")
        report.num_faults += 1
        if number % EVERY == EVERY - 1:
            await_rest(world)
            report.held.append(Held(descriptors(keepers), len(own_children()), sum(map(own_bytes, keepers))))
            say(f"{number + 1} of {num_faults}: {report.held[-1]}, {len(report.unnamed)} wrong verdicts")
    report.restarted = world.core.cluster.pids["controller"] != controller
    return report


def _try(world: World, fault: str, rank: int) -> Verdict | None:
    slow = fault == "slow"
    result = world.try_fault(fault, rank, deadline_s=4.0 if slow else DEADLINE_S, **({"delay_s": 0.7} if slow else {}))
    return result.diagnosis.verdict if result.diagnosis else None


def await_rest(world: World, timeout_s: float = 3.0) -> None:
    """Wait until each rank has its newest twin only; what is still there after that is counted."""
    end_s = time.monotonic() + timeout_s
    while time.monotonic() < end_s:
        newest = {process.pid for process in world.core.cluster.twins.processes.values()}
        if {pid for pid in own_children() if _name(pid).startswith("labkit twin")} == newest:
            return
        time.sleep(0.05)


def _name(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.NoSuchProcess:
        return ""


def own_children() -> set[int]:
    """Everything below this process, less another lane's browser: it starts and ends processes as it likes."""
    found: set[int] = set()
    for child in psutil.Process().children():
        if "playwright" not in " ".join(child.cmdline()):
            found |= {child.pid, *(one.pid for one in child.children(recursive=True))}
    return found


def descriptors(pids: list[int]) -> int:
    """Open descriptors of these processes."""
    return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)


def own_bytes(pid: int) -> int:
    """Memory that is no file's: a library's pages are shared out among all that have it loaded, strangers included."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss_Anon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(pid)
