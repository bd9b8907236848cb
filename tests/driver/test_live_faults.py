"""Every fault, injected for real: its declared ending is seen, the culprit is named, and the world comes back."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

from labkit.driver.world import World
from labkit.errors import join_ranks
from labkit.faults import FAULTS
from labkit.wire import CellResult, Injection, Verdict

pytestmark = pytest.mark.gloo

DEADLINE_S = 1.2
SLOW_DEADLINE_S = 5.0  # the slow fault ends well before
VERDICT_WITHIN_S = 1.0
SIZES = (2, 3, 4)

WorldMaker = Callable[..., World]


def culprit_of(size: int) -> int:
    """The rank the fault is armed on: the last but one, so that it is neither the root nor the end."""
    return max(0, size - 2) if size > 2 else 1


@pytest.mark.parametrize("mode", ["raw", "safe"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("fault", list(FAULTS))
def test_fault(world_of: WorldMaker, fault: str, size: int, mode: str) -> None:
    world, spec, rank = world_of(size, mode), FAULTS[fault], culprit_of(size)
    expected = spec.expect[mode]
    world.run_cell("kept = rank + 40")
    limit = SLOW_DEADLINE_S if expected.ending == "slow" else DEADLINE_S
    result = world.try_fault(fault, rank, deadline_s=limit)

    injection = result_injection(world)
    assert injection.fired == 1
    assert ending_of(result) in allowed_endings(expected.ending, mode), (ending_of(result), result.outcomes)
    if mode == "safe":  # nobody who waits stays stuck
        assert all(outcome.status not in ("late", "stuck") for outcome in result.outcomes if outcome.rank != rank)
    if expected.codes:
        check_verdict(world, result, expected.codes, rank, size)
    else:
        assert result.diagnosis is None

    report = world.recover()
    check_healthy(world)
    replaced = set(report.replaced)
    have_it = {r for r, names in enumerate(names_of(world)) if "kept" in names}
    assert have_it == set(range(size)), "a rank that was replaced comes back with what it knew"
    assert {r for r, names in report.lost.items() if "kept" in names} == set()
    assert {each.rank for each in report.restored} == replaced
    assert replaced <= {rank} or spec.replaces_rank or report.rung == "ranks"


def result_injection(world: World) -> Injection:
    return world.injections[-1]


def ending_of(result: CellResult) -> str:
    """What the learner sees of a cell, in one word."""
    statuses = {outcome.status for outcome in result.outcomes}
    if "dead" in statuses:
        return "abort"
    if statuses & {"late", "stuck"}:
        return "hang"
    if "error" in statuses:
        return "error"
    if result.elapsed_s > 1.0:
        return "slow"
    return "silent" if result.diagnosis else "none"


def allowed_endings(declared: str, mode: str) -> set[str]:
    """An abort may only leave the others hanging, if they are faster; in safe mode a busy culprit itself is late."""
    if declared == "error" and mode == "safe":
        return {"error", "hang"}
    return {"abort": {"abort", "hang", "error"}}.get(declared, {declared})


def check_verdict(world: World, result: CellResult, codes: tuple[str, ...], rank: int, size: int) -> None:
    assert result.diagnosis is not None
    verdict = result.diagnosis.verdict
    assert verdict is not None
    assert verdict.code in codes, verdict
    if size > 2:
        assert verdict.culprits == (rank,), verdict
    else:  # two ranks have no majority: both sides may be named, the culprit is among them
        assert rank in verdict.culprits, verdict
    check_sentence(verdict, rank)


def check_sentence(verdict: Verdict, rank: int) -> None:
    assert join_ranks([rank]) in verdict.sentence or f"rank {rank}" in verdict.sentence, verdict.sentence
    assert "cell " in verdict.sentence, verdict.sentence
    assert "line " in verdict.sentence, verdict.sentence
    assert verdict.next_step


def check_healthy(world: World) -> None:
    total = world.world_size * (world.world_size + 1) / 2
    result = world.run_cell("x = torch.full((3,), rank + 1.0); dist.all_reduce(x); x.tolist()")
    assert {outcome.shown.text for outcome in result.outcomes if outcome.shown} == {str([total] * 3)}
    assert set(world.run("all_reduce", numel=3).values) == {(total,) * 3}
    assert world.diagnose().healthy


def names_of(world: World) -> list[tuple[str, ...]]:
    cell = world.run_cell("sorted(name for name in globals() if name == 'kept')")
    return [("kept",) if outcome.shown and "kept" in outcome.shown.text else () for outcome in cell.outcomes]


@pytest.mark.parametrize("fault", ["swapped-order", "skipped-collective", "rank-raises", "leaves-early", "killed"])
def test_verdict_within_a_second_of_the_stall(world_of: WorldMaker, fault: str) -> None:
    world = world_of(4)
    result = world.try_fault(fault, 2, deadline_s=10)
    ended_s = time.monotonic()
    assert result.diagnosis is not None
    last = max(view.last_progress_s for view in result.diagnosis.evidence.ranks)
    assert ended_s - last <= VERDICT_WITHIN_S, f"{ended_s - last:.2f} s"
    assert result.diagnosis.verdicts[0].culprits == (2,)
    world.recover()


def test_stopped_and_continued_before_the_deadline_is_no_fault_any_more(world_of: WorldMaker) -> None:
    world = world_of(3)
    pid = world.status().cards[1].pid
    with world.inject("stopped", 1):
        threading.Timer(0.8, os.kill, (pid, signal.SIGCONT)).start()
        result = world.run_cell(FAULTS["stopped"].demo, deadline_s=8)
    assert result.ok
    assert all(v.code == "LK011" for v in (result.diagnosis.verdicts if result.diagnosis else ()))
    assert world.recover().rung == "none"
    check_healthy(world)
