"""One fault from injection to a healthy world, with the moments on the way."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from labkit.faults import FAULTS
from labkit.ring import read_ring

POLL_S = 0.004


@contextmanager
def watching(path: Path, before: int) -> Iterator[list[float]]:
    """Inside, a thread notes when the count of fired faults in a beacon rises."""
    seen: list[float] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(POLL_S):
            state = read_ring(path)
            if state is not None and state.fired > before:
                seen.append(time.monotonic())
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


@contextmanager
def looking(world: Any) -> Iterator[list[tuple[float, Any]]]:
    """Inside, every diagnosis that the world makes is kept with its time."""
    looks: list[tuple[float, Any]] = []
    real = world.core.judge

    def judge(evidence: Any, *more: Any) -> Any:
        diagnosis = real(evidence, *more)
        looks.append((time.monotonic(), diagnosis))
        return diagnosis

    world.core.judge = judge
    try:
        yield looks
    finally:
        del world.core.judge


def once(world: Any, name: str, deadline_s: float) -> dict[str, Any]:
    """Inject on the last rank, run the fault's own cell, recover, and check an all-reduce.

    `named_s`: from the firing to the first diagnosis with the right culprit and code; `stalled_s`: to the same
    from the last beat of any rank; `told_s`: from that beat until the caller has it, by a notice or as the result.
    """
    spec, rank = FAULTS[name], world.world_size - 1
    beacon = world.core.folder / f"rank-{rank}.beacon"
    with watching(beacon, world.core.fired(rank)) as fired, looking(world) as looks:
        told: list[tuple[float, Any]] = []
        with world.inject(name, rank):
            result = world.run_cell(
                spec.demo, deadline_s=deadline_s, on_notice=lambda diagnosis: told.append((time.monotonic(), diagnosis))
            )
        if result.diagnosis is not None:
            told.append((time.monotonic(), result.diagnosis))
    codes = spec.expect["raw"].codes

    def right_ones(seen: list[tuple[float, Any]]) -> list[tuple[float, Any]]:
        return [(at, d) for at, d in seen if d.verdict and d.verdict.code in codes and rank in d.verdict.culprits]

    right, right_told = right_ones(sorted([*looks, *told], key=lambda seen: seen[0])), right_ones(told)
    report: dict[str, Any] = {"fired": bool(fired), "named": bool(right), "late": result.elapsed_s > 0.9 * deadline_s}
    report["codes"] = [diagnosis.verdict.code if diagnosis.verdict else "" for _, diagnosis in looks]
    if right:
        at, diagnosis = right[0]
        progress_s = max(view.last_progress_s for view in diagnosis.evidence.ranks)
        report |= {"stalled_s": at - progress_s, "look_s": diagnosis.elapsed_s}
        if right_told:
            report["told_s"] = right_told[0][0] - progress_s
        if fired:
            report["named_s"] = at - fired[0]
    began = time.monotonic()
    recovery = world.recover()
    recovered_s = time.monotonic()
    checked = world.run("all_reduce", numel=4)
    total = world.world_size * (world.world_size + 1) / 2
    assert [list(outcome.value) for outcome in checked.outcomes] == [[total] * 4] * world.world_size, checked
    done_s = time.monotonic()
    report |= {
        "recover_s": done_s - began,
        "check_s": done_s - recovered_s,
        "rung": recovery.rung,
        "replaced": len(recovery.replaced),
    }
    if fired:
        report["whole_s"] = done_s - fired[0]
    return report
