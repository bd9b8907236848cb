"""Faults inside a schedule, for real: each fires in the move it waits for, rank and step are named, and the world mends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from labkit.driver.world import World
from labkit.errors import UsageError
from labkit.faults import FAULTS
from labkit.wire import dumps, loads

pytestmark = pytest.mark.gloo

WorldMaker = Callable[..., World]
VERDICT_WITHIN_S = 2.5  # where nothing else runs it is 0.5 s to 1 s
FIRING = [fault.name for fault in FAULTS.values() if fault.in_schedule is not None]
PARAMS: dict[str, dict[str, Any]] = {"slow": {"delay_s": 0.7}}
FIRST_MOVE = ("reduce-op-mismatch", "shape-mismatch", "dtype-mismatch")  # the one that receives, and adds, in ring and tree
CASES = [(size, "ring", name) for size in (2, 3, 4) for name in FIRING] + [(4, "binomial-tree", name) for name in FIRING]


def culprit_of(size: int) -> int:
    """Neither the root nor the end, where there is such a rank."""
    return size - 2 if size > 2 else 1


@pytest.mark.parametrize(("size", "algorithm", "name"), CASES)
def test_a_fault_fires_in_its_move(world_of: WorldMaker, size: int, algorithm: str, name: str) -> None:
    world, rank, at = world_of(size), culprit_of(size), 1 if name in FIRST_MOVE else 2
    expected = FAULTS[name].in_schedule
    assert expected is not None
    began_s = time.monotonic()
    with world.inject(name, rank=rank, at=at, **PARAMS.get(name, {})) as fault:
        run = world.run_schedule(algorithm, numel=1200)  # all messages are of one size, so that no mix-up ends a process
    assert time.monotonic() - began_s < VERDICT_WITHIN_S
    record = fault.record
    assert (record.fired, record.ending) == (1, expected.ending)
    assert run.notes == (f"the fault {name} fired on rank {rank}",)
    verdict = run.diagnosis.verdict
    assert record.verdict == verdict.code
    assert verdict.code in expected.codes, verdict
    assert verdict.culprits == (rank,)
    step = {1: 0, 2: 1}[at]  # the ring's and this rank's moves in the tree are one a step
    assert f"rank {rank} " in verdict.sentence
    assert f"step {step} of {algorithm}" in verdict.sentence, verdict.sentence
    assert run.ended == (expected.ending in ("slow", "silent"))
    assert run.agrees == (expected.ending == "slow")
    assert loads(dumps(run)) == run

    report = world.recover()
    assert set(report.replaced) <= {rank}
    again = world.run_schedule(algorithm, numel=1001, dtype="int32")
    assert again.ok
    assert again.diagnosis is None
    assert again.notes == ()
    assert world.diagnose().healthy


def test_the_overlapped_run_is_broken_too_and_only_once(world_of: WorldMaker) -> None:
    world = world_of(3)
    with world.inject("reduce-op-mismatch", rank=1) as fault:
        run = world.run_schedule("ring", numel=1 << 20, trace=False)
        assert (run.traced, run.ended, run.agrees, run.disagreeing) == (False, True, False, (0, 1, 2))
        assert "not the numbers that the library's all-reduce gives, on ranks 0-2" in " ".join(str(run).split())
        assert "rank 1 reduces with max in step 0 of ring" in " ".join(str(run).split())
        assert world.run_schedule("ring", numel=1 << 20, trace=False).ok
    assert fault.record.fired == 1


def test_a_message_too_short_for_its_place_is_silent_and_named(world_of: WorldMaker) -> None:
    world = world_of(4)
    with world.inject("shape-mismatch", rank=2, at=2):  # its send to the root
        run = world.run_schedule("binomial-tree", numel=1200)
    assert (run.ended, run.agrees, run.counted) == (True, False, False)
    verdict = run.diagnosis.verdict
    assert (verdict.code, verdict.culprits, verdict.ending) == ("LK005", (2,), "silent")
    sentence = "rank 2 sent 600 elements of float32 to rank 0 in step 1 of binomial-tree, where its program says 1200: "
    assert verdict.sentence.startswith(sentence)
    assert world.run_schedule("binomial-tree", numel=1200).ok


def test_a_fault_that_can_not_fire_is_told(world_of: WorldMaker) -> None:
    world = world_of(3)
    for name, params, says in (
        ("swapped-order", {}, "swapped-order on rank 1 does not apply to a schedule"),
        ("root-mismatch", {}, "root-mismatch on rank 1 does not apply to a schedule"),
        ("killed", {"at": 5}, "killed did not fire: it waits for move 5, and rank 1 makes 4 in ring"),
        ("reduce-op-mismatch", {"at": 3}, "from move 3 on, no move of rank 1 in ring is one that it applies to"),
    ):
        with world.inject(name, rank=1, **params) as fault:
            run = world.run_schedule("ring", numel=100)
            assert run.ok
            assert says in " ".join(run.notes)
            assert says in " ".join(str(run).split())
            assert fault.record.fired == 0
            for measure in (lambda: world.compare(["ring"]), lambda: world.sweep([1024])):
                with pytest.raises(UsageError, match=f"{name} is armed on rank 1"):
                    measure()
    assert world.compare(["ring"], num_bytes=1024, rounds=1).timings


def test_a_short_stop_is_waited_for(world_of: WorldMaker) -> None:
    world = world_of(3)
    with world.inject("busy-python", rank=1, seconds=1.0) as fault:
        run = world.run_schedule("ring", numel=100)
    assert run.ok
    assert (fault.record.fired, run.diagnosis.verdict.code) == (1, "LK011")


def test_what_came_before_on_the_same_ranks_is_not_the_schedules(world_of: WorldMaker) -> None:
    world = world_of(3)
    assert world.try_fault("reduce-op-mismatch", 0).diagnosis.verdict.code == "LK006"  # silent, and in the evidence for good
    with world.inject("slow", rank=2, delay_s=0.7):
        assert world.run_schedule("ring", numel=100).diagnosis.verdict.code == "LK011"
    assert world.run_schedule("ring", numel=100).diagnosis is None
    assert world.run_cell("x = torch.ones(1)\ndist.all_reduce(x)").diagnosis is None
    with world.inject("rank-raises", rank=2, at=2):
        world.run_cell("x = 1 / 0", ranks=[1])  # an error of its own, of another cell
        run = world.run_schedule("ring", numel=100)
    assert (run.diagnosis.verdict.code, run.diagnosis.verdict.culprits) == ("LK003", (2,))


def test_a_mix_up_of_messages_of_two_sizes_ends_a_process_and_is_still_named(world_of: WorldMaker) -> None:
    world = world_of(3)
    with world.inject("skipped-collective", rank=1, at=2):
        verdict = world.run_schedule("ring", numel=1000).diagnosis.verdict
    assert (verdict.code, verdict.culprits, verdict.ending) == ("LK009", (1,), "abort")
    assert "rank 1 skipped its part of step 1 of ring" in verdict.sentence
    assert "died of it: it was sent more than it had room for" in verdict.sentence
    world.recover()
    assert world.run_schedule("ring", numel=1000).ok


def test_safe_mode_says_the_same(world_of: WorldMaker) -> None:
    world = world_of(3, "safe")
    with world.inject("killed", rank=1, at=3):
        run = world.run_schedule("ring", numel=1000)
    assert "rank 1 died (killed by SIGKILL) in step 2 of ring; rank 2 waited for its message in step 2" in " ".join(
        str(run).split()
    )
    assert world.recover().replaced == (1,)
    assert world.run_schedule("ring", numel=1000).ok
