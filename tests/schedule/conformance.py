"""What holds for every algorithm, as functions that complain: the suite calls them, and so do the planted wrong ones."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from labkit.schedule import Algorithm, Schedule, Share, check_programs, check_schedule, count, programs, run_programs, simulate

from .reference import expected, make_inputs

ITEMSIZE = 4


def wrong_results(schedule: Schedule, num_elements: int, op: str = "SUM", dtype: str = "int64", seed: int = 0) -> list[str]:
    """Ranks whose simulated result is not numpy's, and programs whose result is not the simulator's, bit by bit."""
    inputs = make_inputs(schedule.collective, schedule.world_size, num_elements, dtype, seed)
    if op == "PRODUCT" and dtype == "float16":  # 2**8 at most: infinity times 0 is NaN in one order and 0 in another
        inputs = [np.where(each > 0, 2 if rank < 8 else 1, 1).astype(dtype) for rank, each in enumerate(inputs)]
    run = simulate(schedule, inputs, op)
    wanted = expected(schedule.collective, inputs, op, schedule.root)
    found = [
        f"rank {rank}: {got} is not {want}"
        for rank, (got, want) in enumerate(zip(run.outputs, wanted, strict=True))
        if not same(got, want)
    ]
    found += [problem.sentence for problem in run.problems]
    with np.errstate(all="ignore"):
        live = run_programs(programs(schedule), inputs, op)
    found += [
        f"rank {rank}: the program gives another result" for rank in range(len(live)) if not equal(live[rank], run.outputs[rank])
    ]
    return found


def same(got: np.ndarray, want: np.ndarray) -> bool:
    """Exactly equal for whole numbers, and within rounding for floats."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if got.dtype.kind in "biu":
        return bool((got == want).all())
    return bool(np.allclose(got, want, rtol=16 * np.finfo(got.dtype).eps, atol=0, equal_nan=True))


def equal(one: np.ndarray, other: np.ndarray) -> bool:
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


def wrong_contributions(schedule: Schedule) -> list[str]:
    """What a rank sends without having it, what is counted twice, and what is not right at the end."""
    return [problem.sentence for problem in check_schedule(schedule)]


def wrong_waits(schedule: Schedule) -> list[str]:
    """Where ranks would wait for one another for good if every send waits for its receive."""
    return [problem.sentence for problem in check_programs(programs(schedule))]


def wrong_claims(algorithm: Algorithm, world_size: int, num_elements: int, **params: Any) -> list[str]:
    """Where counting the schedule gives other steps, messages or bytes than the algorithm's formulas.

    Bytes are held exactly where the size divides; elsewhere each chunk may be one element off.
    """
    schedule = algorithm.schedule(world_size, **params)
    totals, num_bytes = count(schedule, num_elements, ITEMSIZE), num_elements * ITEMSIZE
    per_row = schedule.layout(num_elements).num_chunks
    divides = num_elements % per_row == 0

    def differs(counted: int, fraction: Fraction) -> bool:
        slack = 0 if divides else fraction * per_row * ITEMSIZE
        return abs(counted - fraction * num_bytes) > slack

    found = []
    if totals.num_steps != algorithm.num_steps(world_size, **params):
        found.append(f"{totals.num_steps} steps, not {algorithm.num_steps(world_size, **params)}")
    for rank in range(world_size):
        share: Share = algorithm.sent(rank, world_size, **params)
        messages, sent = int(totals.by_rank.sent_messages[rank]), int(totals.by_rank.sent_bytes[rank])
        if messages != share.messages:
            found.append(f"rank {rank} ({share.role}) sends {messages} messages, not {share.messages}")
        if differs(sent, share.fraction):
            found.append(f"rank {rank} ({share.role}) sends {sent} bytes, not {share.fraction * num_bytes}")
    path = algorithm.critical(world_size, **params)
    if totals.messages != path.messages:
        found.append(f"the critical path has {totals.messages} messages, not {path.messages}")
    if differs(totals.num_bytes, path.fraction):
        found.append(f"the critical path has {totals.num_bytes} bytes, not {path.fraction * num_bytes}")
    if differs(totals.reduced_bytes, path.reduced):
        found.append(f"the critical path reduces {totals.reduced_bytes} bytes, not {path.reduced * num_bytes}")
    return found
