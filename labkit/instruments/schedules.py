"""Schedules on the live ranks of a world: one executed and checked, several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..driver.checks import check_deadline
from ..driver.core import WorldCore, instrument
from ..driver.ranks import RUN_S
from ..errors import UsageError, join_ranks
from ..plain import dumps
from ..schedule import Algorithm, Schedule, check_programs, programs
from ..schedule.hosts import link_in_words
from ..schedule.records import ITEM_BYTES, Comparison, RankRun, ScheduleRun, Timing
from ..timings import LATE_S
from ..wire import CellResult, Diagnosis, Outcome
from .arguments import LIBRARY, Armed, check_op, check_rounds, check_size, compared, labels, refuse_armed, schedule_of
from .variables import check_name


@instrument
def run_schedule(
    world: WorldCore,
    algorithm: str | Algorithm | Schedule,
    *,
    numel: int | None = None,
    tensor: str = "",
    op: str = "sum",
    dtype: str = "float32",
    trace: bool = True,
    into: str = "",
    deadline_s: float | None = None,
    **params: Any,
) -> ScheduleRun:
    """Execute a schedule on all ranks, and hold its result against the library's all-reduce.

    The tensor is made on the ranks (`numel` elements; the total, for all-gather and reduce-scatter), or is the ranks'
    variable `tensor`, which stays as it is; `into` names a variable for the result. With `trace` the steps run one
    after the other and each is timed; without, they overlap as far as they can. What goes wrong on the ranks is told
    by the record's diagnosis, as for a cell. A fault that is armed fires in one of its rank's moves (number `at`, from 1), which
    then run one after the other on all ranks; the record's notes say whether it did.
    """
    schedule = schedule_of(world, algorithm, params)
    name = check_op(op, dtype)
    if into != "":
        check_name(into)
    size = check_size(0 if tensor else (1024 if numel is None else numel))
    if bool(tensor) and numel is not None:
        raise UsageError("numel and tensor do not go together", hint="a variable has its own size: leave numel out")
    made = programs(schedule)
    problems = check_programs(made)
    if problems:
        raise UsageError(f"{schedule.name} can't run: {problems[0].sentence}", hint="change the steps that it names")
    limit, armed = check_deadline(max(world.deadline_s, RUN_S) if deadline_s is None else deadline_s), Armed.now(world)
    shared = {
        "op": name, "dtype": dtype, "numel": size, "tensor": tensor, "into": into, "cell": world.cell,
        "trace": bool(trace) or armed.may_fire,
    }  # fmt: skip
    payloads = [{"program": dumps(program), **shared} for program in made]
    replies = world.request_each("schedule", payloads, deadline_s=limit, may_resolve=armed.may_resolve(limit))
    outcomes, diagnosis = replies.outcomes, replies.diagnosis
    run = _run_record(schedule, outcomes, diagnosis, op=name, size=size, dtype=dtype, traced=trace)
    if diagnosis is None and (armed.may_fire or not run.ended or run.seconds >= LATE_S):
        run = replace(run, diagnosis=_after(world, outcomes))
    notes = armed.notes([len(program.moves(run.num_elements)) for program in made], schedule.name)
    return replace(run, backend=world.backend, notes=notes)


def _after(world: WorldCore, outcomes: tuple[Outcome, ...]) -> Diagnosis | None:
    """What is to be said of a run that ended: of its own moves alone, without asking the ranks."""
    found = world.judge(world.look(ask=False))
    if found.healthy or not world.made_now(found.evidence):
        return None
    world.note(CellResult(world.cell, outcomes, found, None, 0.0, world.world_size), found.evidence)
    return found


@instrument
def compare(
    world: WorldCore,
    algorithms: Sequence[str | Algorithm | Schedule],
    *,
    num_bytes: int = 1 << 20,
    dtype: str = "float32",
    op: str = "sum",
    rounds: int = 7,
    deadline_s: float | None = None,
) -> Comparison:
    """All-reduce schedules and the library's all-reduce, in turn in one run; medians and spread.

    A schedule of one's own that is no all-reduce is refused: how fast it is wrong tells nothing. Entries of one name are
    told apart by their parameters, or by a number.
    """
    refuse_armed(world, "a comparison")
    schedules = compared(world, algorithms)
    check_rounds(rounds)
    name, numel = check_op(op, dtype), check_size(num_bytes) // ITEM_BYTES[dtype]
    made = [programs(schedule) for schedule in schedules]
    payloads = [
        {"programs": [dumps(each[rank]) for each in made], "numel": numel, "dtype": dtype, "op": name, "rounds": rounds}
        for rank in range(world.world_size)
    ]
    outcomes = world.request_each("compare_schedules", payloads, deadline_s=deadline_s, must_answer=True).outcomes
    by_rank = [outcome.value["times"] for outcome in outcomes]
    names = [*labels(schedules), LIBRARY]
    timings = tuple(Timing(each, spans([times[index] for times in by_rank])) for index, each in enumerate(names))
    return Comparison(world.world_size, numel * ITEM_BYTES[dtype], dtype, timings, world.backend, where=where(world))


def where(world: WorldCore, members: tuple[int, ...] = ()) -> str:
    """For instance "ranks 0 and 2 of 4, on hosts 0 and 1; links: 200mbit"; "" for all ranks of this machine as it is."""
    members = members or tuple(range(world.world_size))
    some = f"{join_ranks(members)} of {world.world_size}" if len(members) < world.world_size else ""
    if not world.hosts:
        return some
    places = {world.hosts[rank] for rank in members}
    on = f"on {join_ranks(sorted(places)).replace('rank', 'host')}"
    links = f"; links: {link_in_words(*world.links)}" if len(places) > 1 else ""
    return f"{some}, {on}{links}" if some else f"{on}{links}"


def spans(by_rank: Sequence[Sequence[Sequence[float]]]) -> tuple[float, ...]:
    """Seconds of each round, from when the last rank was ready until the last one was through.

    >>> spans([[[0.0, 2.0]], [[0.5, 1.75]]])
    (1.5,)
    """
    rounds = zip(*by_rank, strict=True)
    return tuple(max(end for _, end in each) - max(begin for begin, _ in each) for each in rounds)


def _run_record(
    schedule: Schedule, outcomes: Sequence[Outcome], diagnosis: Diagnosis | None, *, op: str, size: int, dtype: str, traced: bool
) -> ScheduleRun:
    values = {outcome.rank: outcome.value for outcome in outcomes if outcome.ok and not outcome.value.get("left")}
    for value in values.values():
        dtype, size = value["dtype"], value["numel"]
    item_bytes = ITEM_BYTES[dtype]
    num_steps = schedule.num_steps
    whole = len(values) == schedule.world_size
    began_s, ended_s = (max((value[end] for value in values.values()), default=0.0) for end in ("began_s", "ended_s"))
    errors = [str(outcome.error) for outcome in outcomes if outcome.error is not None]
    return ScheduleRun(
        name=schedule.name, collective=schedule.collective, world_size=schedule.world_size, num_elements=size, dtype=dtype,
        op=op, num_bytes=size * item_bytes, num_steps=num_steps, traced=traced,
        seconds=ended_s - began_s if whole else 0.0,
        ranks=tuple(_rank_run(rank, value, num_steps if traced else 0, began_s) for rank, value in values.items()),
        declared=declared(schedule, size, item_bytes), diagnosis=diagnosis, error=errors[0] if errors else "",
    )  # fmt: skip


def _rank_run(rank: int, value: dict[str, Any], num_steps: int, began_s: float) -> RankRun:
    steps = dict(map(tuple, value["step_s"]))
    return RankRun(
        rank=rank, seconds=value["ended_s"] - value["began_s"], step_s=tuple(steps.get(step, 0.0) for step in range(num_steps)),
        **{name: value[name] for name in ("sent_messages", "received_messages", "sent_bytes", "received_bytes")},
        agrees=value["agrees"], worst=value["worst"], digest=value["digest"], early_s=began_s - value["began_s"],
    )  # fmt: skip


def declared(schedule: Schedule, num_elements: int, item_bytes: int) -> tuple[tuple[int, int, int, int], ...]:
    """What the schedule's transfers come to on each rank, by counting its steps; empty ones are not sent.

    >>> from labkit.schedule import ALGORITHMS
    >>> declared(ALGORITHMS["ring"].schedule(2), 3, 4)
    ((2, 2, 12, 12), (2, 2, 12, 12))
    """
    starts = schedule.layout(num_elements).bounds()
    found = np.zeros((schedule.world_size, 4), dtype=np.int64)
    for step in schedule.steps():
        num_bytes = (starts[step.chunk_hi] - starts[step.chunk_lo]) * item_bytes
        for column, ranks, weights in ((0, step.src, num_bytes > 0), (1, step.dst, num_bytes > 0), (2, step.src, num_bytes)):
            np.add.at(found[:, column], ranks, weights)
        np.add.at(found[:, 3], step.dst, num_bytes)
    return tuple((int(a), int(b), int(c), int(d)) for a, b, c, d in found)
