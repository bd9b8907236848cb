"""Two hundred random faults in one kernel, one after the other: the same kernel, no orphans, nothing grows."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from labkit.driver.world import World
from labkit.faults import FAULTS

pytestmark = [pytest.mark.gloo, pytest.mark.timeout(900)]

WorldMaker = Callable[..., World]

NUM_FAULTS = 200
SEED = 20
SIZE = 3
DEADLINE_S = 0.9
MiB = 2**20


def own_children() -> set[int]:
    """Everything below this process, less another lane's browser: it starts and ends processes as it likes."""
    found: set[int] = set()
    for child in psutil.Process().children():
        if "playwright" not in " ".join(child.cmdline()):
            found |= {child.pid, *(one.pid for one in child.children(recursive=True))}
    return found


def descriptors(pids: list[int]) -> int:
    return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)


def own_bytes(pid: int) -> int:
    """Memory that is no file's: a library's pages are shared out among all that have it loaded, strangers included."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss_Anon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(pid)


def test_two_hundred_random_faults(world_of: WorldMaker) -> None:
    world = world_of(SIZE)
    rng = random.Random(SEED)
    keepers = [os.getpid(), world.core.cluster.pids["controller"], world.core.cluster.pids["store"]]
    marks: list[tuple[int, int, int]] = []
    seen: dict[str, int] = {}
    unnamed: list[str] = []
    for number in range(NUM_FAULTS):
        fault, rank = rng.choice(list(FAULTS)), rng.randrange(SIZE)
        if world.mode != (mode := rng.choice(["raw", "raw", "safe"])):
            world.set_mode(mode)
        limit = 4.0 if fault == "slow" else DEADLINE_S
        params = {"delay_s": 0.7} if fault == "slow" else {}
        result = world.try_fault(fault, rank, deadline_s=limit, **params)
        expected = FAULTS[fault].expect[mode].codes
        verdict = result.diagnosis.verdict if result.diagnosis else None
        if (verdict is None) != (not expected) or (verdict is not None and verdict.code not in expected):
            unnamed.append(f"{number}: {fault} on rank {rank}, {mode}: {verdict and verdict.code}, not {expected}")
        seen[world.recover().rung] = seen.get(world.recover().rung, 0) + 1
        assert world.run("all_reduce", numel=2).values == ((6.0, 6.0),) * SIZE
        if number % 20 == 19:
            marks.append((descriptors(keepers), len(own_children()), sum(map(own_bytes, keepers))))
    assert world.core.cluster.pids["controller"] == keepers[1], "the controller was replaced"
    assert unnamed == []
    first, last = marks[1], marks[-1]
    assert last[0] <= first[0] + 5, marks
    assert last[1] == first[1], marks
    assert last[2] - first[2] < 30 * MiB, marks
